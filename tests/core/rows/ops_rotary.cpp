#include <cmath>

#include "support/tables/op_table.hpp"

namespace fit::test {

// cos and sin of p / 10000^(2 i / D) for each position p and pair i: [T, D/2, 2].
static Tensor angles(std::int64_t T, std::int64_t D) {
  Tensor table = Tensor::empty({T, D / 2, 2}, float64);
  double* out = table.fresh<double>();
  for (std::int64_t p = 0; p < T; ++p)
    for (std::int64_t i = 0; i < D / 2; ++i) {
      const double angle =
          static_cast<double>(p) * std::pow(10000, -2. * static_cast<double>(i) / static_cast<double>(D));
      *out++ = std::cos(angle), *out++ = std::sin(angle);
    }
  return table;
}

static std::vector<OpRow> rotary_ops() {
  const auto turn = [](RotaryLayout layout, std::int64_t D, std::int64_t features, std::int64_t offset) {
    return [=](const auto& in) { return rotary(in[0], angles(40, D), rotary_options(layout, features, offset)); };
  };
  const Tensor table = angles(3, 4);
  return {
      OpRow("rotary", turn(RotaryLayout::half_split, 4, -1, 3))
          .on({{2, 3, 8}})
          .on({{1, 4}})
          .on({{0, 3, 4}})
          .large({{70, 33, 36}}),
      OpRow("rotary", "interleaved, in part", turn(RotaryLayout::interleaved, 2, 4, 0))
          .on({{2, 3, 6}})
          .on({{5, 4}})
          .on({{2, 0, 4}})
          .bad("x is [4]: it must be [..., T, W]", [table] { rotary(zeros({4}), table); })
          .bad("the 2 positions from 2 on must be in the table",
               [table] {
                 rotary(zeros({2, 4}), table, rotary_options(RotaryLayout::interleaved, -1, 2));
               })
          .bad("what is rotated must be whole heads of 4 features",
               [table] {
                 rotary(zeros({2, 6}), table);
               })
          .bad("table is [3, 4]: it must be [T, D/2, 2]",
               [] {
                 rotary(zeros({2, 6}), zeros({3, 4}, float64));
               })
          .bad("table is float32: it must be float64",
               [] {
                 rotary(zeros({2, 6}), zeros({3, 2, 2}));
               })
          .bad("x is int64",
               [table] {
                 rotary(zeros({2, 4}, int64), table);
               }),
      OpRow("rotary", "the first features of each head",
            [](const auto& in) {
              return rotary(in[0], angles(40, 4), RotaryOptions().features(12).head_size(6).offset(1));
            })
          .on({{2, 3, 14}})
          .on({{3, 12}})
          .large({{70, 33, 14}})
          .bad("head_size is 2, table [3, 2, 2]: a head has at least 4 features",
               [table] {
                 rotary(zeros({2, 4}), table, RotaryOptions().head_size(2));
               })
          .bad("what is rotated must be whole heads of 6 features",
               [table] {
                 rotary(zeros({2, 8}), table, RotaryOptions().head_size(6));
               }),
      OpRow("rotary", "positions by ids",
            [](const auto& in) {
              const std::int64_t T = in[0].size(-2);
              const Tensor each = reshape(remainder(7 * arange(in[0].numel() / 4), 40), {-1, T});
              const auto at = [](const Tensor& p) { return RotaryOptions().positions(p); };
              const Tensor y = rotary(in[0], angles(40, 4), at(each[0]));
              return rotary(y, angles(40, 4), at(reshape(each, y.shape().erased(y.rank() - 1))));
            })
          .on({{2, 3, 4}})
          .on({{1, 4}})
          .large({{70, 33, 4}})
          .except("bfloat16", "it is two calls, which round one by one")
          .bad("positions is [3], x is [2, 4]: positions must be [T], or [..., T] as x [..., T, W]",
               [table] {
                 rotary(zeros({2, 4}), table, RotaryOptions().positions(arange(3)));
               })
          .bad("a position is 3, table is [3, 2, 2]: it must be in 0 … 2",
               [table] {
                 rotary(zeros({2, 4}), table, RotaryOptions().positions(tensor({0, 3})));
               })
          .bad("positions is float32: it must be int64",
               [table] {
                 rotary(zeros({2, 4}), table, RotaryOptions().positions(zeros({2})));
               })
          .bad("offset is 1, and positions are given",
               [table] {
                 rotary(zeros({2, 4}), table, RotaryOptions().offset(1).positions(arange(2)));
               }),
  };
}
static const RegisterOps rotary_rows(rotary_ops);

}  // namespace fit::test
