#include "ops/common/precision.hpp"

#include <set>

#include "fit/graph/autocast.hpp"
#include "support/catch.hpp"
#include "support/tables/op_table.hpp"
#include "support/tensors.hpp"

// What operations do with bfloat16. Which of them give float32 under Autocast: autocast_test.cpp.
namespace fit::test::precision_test {
namespace {

// The types that a body saw and that its caller got.
struct Types {
  DType seen, given;
};
bool operator==(Types a, Types b) { return a.seen == b.seen && a.given == b.given; }
std::ostream& operator<<(std::ostream& s, Types t) { return s << t.seen << " seen, " << t.given << " given"; }

// Of x * y, or of x alone.
Types types(Precision p, const Tensor& x, const Tensor& y = {}) {
  Types t{};
  t.given = with_precision(p, {x, y}, [&](const Tensor& a, const Tensor& b) {
              t.seen = a.dtype();
              return b.defined() ? a * b : a * 1;
            }).dtype();
  return t;
}

constexpr Precision all[] = {Precision::native, Precision::native_or_float32, Precision::rounded,
                             Precision::rounded_or_native, Precision::float32};

std::vector<Tensor> drawn(const OpRow& row, DType dtype) {
  std::mt19937_64 random(17);
  std::vector<Tensor> in;
  for (std::size_t i = 0; i < row.shapes[0].size(); ++i)
    in.push_back(random_tensor(row.shapes[0][i], row.domain_of(i), random, bfloat16).to(dtype));
  return in;
}

}  // namespace

TEST_CASE("precision: the types that a body sees and gives", "[precision]") {
  const Tensor low = ones({2}, bfloat16), single = ones({2}), wide = ones({2}, float64), whole = ones({2}, int64);
  const Types native{bfloat16, bfloat16}, rounded{float32, bfloat16}, kept{float32, float32};
  const auto check = [&](const std::vector<Types>& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("precision " << i);
      CHECK(types(all[i], low) == expected[i]);
      CHECK(types(all[i], low, low) == expected[i]);
      CHECK(types(all[i], low, whole) == expected[i]);
    }
  };
  check({native, native, rounded, rounded, rounded});
  {
    const Autocast on(bfloat16);
    check({native, kept, rounded, native, kept});
  }
  // Beside a larger type nothing is rounded, whichever operand it is.
  for (const Precision p : {Precision::rounded, Precision::rounded_or_native, Precision::float32}) {
    CHECK(types(p, low, single) == kept);
    CHECK(types(p, single, low) == kept);
    CHECK(types(p, low, wide) == Types{float32, float64});
  }
  for (const Precision p : all) {
    CHECK(types(p, single, single) == kept);
    CHECK(types(p, wide) == Types{float64, float64});
    CHECK(types(p, whole) == Types{int64, int64});
  }
}

TEST_CASE("precision: several operands and results", "[precision]") {
  Tensor x = full({3}, 1 + 0x1p-7, bfloat16).requires_grad_();
  const auto body = [](const std::vector<Tensor>& in) {
    CHECK(in[0].dtype() == float32);
    CHECK_FALSE(in[1].defined());
    return std::vector<Tensor>{in[0] * in[0], ones({2}, int64), Tensor()};
  };
  const std::vector<Tensor> y = with_precision(Precision::rounded, std::vector<Tensor>{x, Tensor()}, body);
  CHECK(y[0].dtype() == bfloat16);
  CHECK(y[0][0].item() == 1 + 0x1p-6);  // (1 + 2^-7)^2 = 1 + 2^-6 + 2^-14
  CHECK(y[1].dtype() == int64);
  CHECK_FALSE(y[2].defined());
  sum(y[0]).backward();
  CHECK(x.grad().dtype() == bfloat16);
  CHECK(x.grad()[0].item() == 2 + 0x1p-6);
}

TEST_CASE("precision: beside float32 an operation computes in float32 as a whole", "[precision]") {
  std::mt19937_64 random(3);
  const Tensor low = random_tensor({4, 4}, domain::real, random, bfloat16), wide = low.to(float32);
  const Tensor single = random_tensor({4, 4}, domain::real, random, float32), row = single[0];
  CHECK(same_bits(addmm(single, low, low), addmm(single, wide, wide)));
  CHECK(same_bits(cosine_similarity(low, single), cosine_similarity(wide, single)));
  CHECK(same_bits(cdist(single, low), cdist(single, wide)));
  CHECK(same_bits(group_norm(low, 2, row), group_norm(wide, 2, row)));
  CHECK(same_bits(layer_norm(single, {}, low[0]), layer_norm(single, {}, wide[0])));
  CHECK(same_bits(pow(abs(low), row), pow(abs(wide), row)));
}

TEST_CASE("precision: every op gives the bits of float32, rounded once or kept", "[precision][ops]") {
  // Matrix products add up in another order, and round their operands and results under Autocast.
  const std::set<std::string> products{"matmul",
                                       "dot",
                                       "bmm",
                                       "addmm",
                                       "linear",
                                       "einsum",
                                       "conv1d",
                                       "conv2d",
                                       "conv_transpose1d",
                                       "conv_transpose2d",
                                       "scaled_dot_product_attention",
                                       "multi_head_attention",
                                       "packed_self_attention"};
  std::set<std::string> seen;
  each_row([&](const OpRow& row) {
    seen.insert(row.op);
    if (products.count(row.op) || row.exceptions.count("bfloat16")) return;
    const std::vector<Tensor> exact = row.f(drawn(row, float32)), y = row.f(drawn(row, bfloat16));
    std::vector<Tensor> cast;
    {
      const Autocast on(bfloat16);
      cast = row.f(drawn(row, bfloat16));
    }
    for (std::size_t i = 0; i < exact.size(); ++i) {
      INFO("output " << i);
      CHECK(same_bits(y[i], exact[i].to(is_floating(exact[i].dtype()) ? bfloat16 : exact[i].dtype())));
      // The variance that this row gives is computed under Autocast, too.
      if (row.name() != "batch_norm, statistics given") CHECK(same_bits(cast[i], exact[i].to(cast[i].dtype())));
    }
  });
  for (const std::string& op : products) CHECK(seen.count(op) == 1);
}

}  // namespace fit::test::precision_test
