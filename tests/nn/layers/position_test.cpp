#include "fit/nn/layers/position.hpp"

#include <cmath>
#include <vector>

#include "fit/attention/attention.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

namespace fit::test::position_test {

TEST_CASE("rotary turns the pairs that its layout names", "[position]") {
  const Tensor table = nn::rotary_table(3, 4, 100);  // angles t and t / 10
  const Tensor x = tensor({{1., 0., 0., 1.}, {1., 0., 0., 1.}, {1., 0., 0., 1.}});
  for (int t = 0; t < 3; ++t) {
    const double a = t, b = t / 10.0;
    INFO(t);
    // pairs (1, 0) and (0, 1)
    CHECK(max_difference(rotary(x, table, rotary_options(RotaryLayout::interleaved))[t],
                         tensor({std::cos(a), std::sin(a), -std::sin(b), std::cos(b)})) < 1e-6);
    // pairs (1, 0) and (0, 1) again, of features 0 and 2, 1 and 3
    CHECK(max_difference(rotary(x, table, rotary_options(RotaryLayout::half_split))[t],
                         tensor({std::cos(a), -std::sin(b), std::sin(a), std::cos(b)})) < 1e-6);
  }
}

TEST_CASE("rotary takes the position of each row from ids", "[position]") {
  const Tensor table = nn::rotary_table(9, 4), x = randn({2, 3, 8}, float64), ids = tensor({{7, 0, 7}, {1, 8, 2}});
  for (const auto layout : {RotaryLayout::half_split, RotaryLayout::interleaved})
    for (const std::int64_t features : {4, 8}) {
      const auto o = rotary_options(layout, features);
      const Tensor y = rotary(x, table, RotaryOptions(o).positions(ids));
      const Tensor same = rotary(x, table, RotaryOptions(o).positions(ids[0]));
      for (int b = 0; b < 2; ++b)
        for (int t = 0; t < 3; ++t) {
          INFO(b << ' ' << t);
          const auto at = [&](const Tensor& id) {
            return rotary(reshape(x[{b, t}], {1, 8}), table, RotaryOptions(o).offset(id.item<std::int64_t>()))[0];
          };
          CHECK(same_bits(y[{b, t}], at(ids[{b, t}])));
          CHECK(same_bits(same[{b, t}], at(ids[{0, t}])));
        }
    }
}

TEST_CASE("rotary on every instruction set, for every number of threads", "[position]") {
  // Pairs that fill no vector, one and several; rows that are shared among threads.
  for (const auto layout : {RotaryLayout::half_split, RotaryLayout::interleaved})
    for (const std::int64_t D : {2, 6, 16, 34, 64}) {
      INFO(D << " features, layout " << static_cast<int>(layout));
      Generator g(3);
      const std::int64_t heads = 5, T = 33;
      const Tensor table = nn::rotary_table(T + 2, D), x = randn({9, T, (heads + 1) * D + 1}, float64, g);
      std::vector<double> turned_by_hand = x.to_vector<double>();
      const auto angle = table.data<double>();
      for (std::int64_t row = 0; row < 9 * T; ++row)
        for (std::int64_t h = 0; h < heads; ++h)
          for (std::int64_t i = 0; i < D / 2; ++i) {
            const bool half = layout == RotaryLayout::half_split;
            const std::int64_t head = row * x.size(2) + h * D, a = (row % T + 2) * D + 2 * i;
            double& u = turned_by_hand[static_cast<std::size_t>(head + (half ? i : 2 * i))];
            double& v = turned_by_hand[static_cast<std::size_t>(head + (half ? i + D / 2 : 2 * i + 1))];
            const double c = angle[a], s = angle[a + 1], old = u;
            u = old * c - v * s;
            v = old * s + v * c;
          }
      const Tensor expected = tensor(turned_by_hand, x.shape());
      each_isa([&] {
        for (const DType dtype : {float32, float64}) {
          const auto turned = [&] { return rotary(x.to(dtype), table, rotary_options(layout, heads * D, 2)); };
          CHECK(max_difference(turned(), expected.to(dtype)) < (dtype == float32 ? 1e-5 : 1e-14));
          check_threads(turned);
        }
      });
    }
}

TEST_CASE("rotary scores depend on distance alone, and turning back undoes it", "[position]") {
  Generator g(2);
  const Tensor table = nn::rotary_table(50, 6), q = randn({1, 6}, float64, g), k = randn({1, 6}, float64, g);
  for (const RotaryLayout layout : {RotaryLayout::interleaved, RotaryLayout::half_split}) {
    const auto score = [&](std::int64_t i, std::int64_t j) {
      return sum(rotary(q, table, rotary_options(layout, -1, i)) * rotary(k, table, rotary_options(layout, -1, j)))
          .item();
    };
    CHECK(score(7, 3) == Approx(score(44, 40)).epsilon(1e-12));
    CHECK(std::abs(score(7, 3) - score(7, 4)) > 1e-6);
    const RotaryOptions there = rotary_options(layout, -1, 9);
    RotaryOptions back = there;
    back.inverse(true);
    CHECK(max_difference(rotary(rotary(q, table, there), table, back), q) < 1e-12);
  }
}

TEST_CASE("ALiBi's slopes are the paper's, and give what its bias gives", "[position]") {
  CHECK(values(nn::alibi_slopes(4)) == std::vector<double>{0.25, 0.0625, 0.015625, 0.00390625});
  const auto three = values(nn::alibi_slopes(3));  // 2^-4 and 2^-8, and of the four heads' the first
  CHECK(three == std::vector<double>{0.0625, 0.00390625, 0.25});
  const Tensor bias = nn::alibi_bias(2, 2, 3, float64);
  CHECK(equal(bias[{0, 0}], tensor({{-1., 0., -1.}, {-2., -1., 0.}}, float64) * 0.0625));
  Generator g(3);
  const Tensor x = randn({2, 3, 5, 4}, float64, g);
  AttentionOptions full, rows;
  full.causal(true), rows.causal(true);
  full.bias(nn::alibi_bias(3, 5, 5));
  rows.alibi(nn::alibi_slopes(3));
  CHECK(max_difference(scaled_dot_product_attention(x, x, x, full), scaled_dot_product_attention(x, x, x, rows)) <
        1e-12);
  full.bias({});
  CHECK(max_difference(scaled_dot_product_attention(x, x, x, full), scaled_dot_product_attention(x, x, x, rows)) >
        1e-3);
}

TEST_CASE("a window hides what is further back", "[position]") {
  Generator g(4);
  const Tensor q = randn({2, 2, 4, 3}, float64, g), k = randn({2, 2, 6, 3}, float64, g);
  Tensor mask = zeros({4, 6}, boolean);  // the keys at i + 1 and i + 2
  for (int i = 0; i < 4; ++i) mask[{i, range(i + 1, i + 3)}] = true;
  auto window = AttentionOptions().window(2).causal();
  const auto masked = AttentionOptions().mask(mask);
  CHECK(max_difference(scaled_dot_product_attention(q, k, k, window), scaled_dot_product_attention(q, k, k, masked)) <
        1e-14);
  window.mask(tensor({{false, false, true, true, true, true}}));  // together: the first query sees key 2 alone
  CHECK(max_difference(scaled_dot_product_attention(q, k, k, window)[{0, 0, 0}], k[{0, 0, 2}]) < 1e-14);
  window.window(-1);
  CHECK_THROWS_WITH(scaled_dot_product_attention(q, k, k, window), Catch::Contains("window is -1"));
}

TEST_CASE("the makers of positions refuse what is not possible", "[position]") {
  using Catch::Contains;
  CHECK_THROWS_WITH(nn::rotary_table(3, 5), Contains("[rotary_table] T is 3, D is 5") && Contains("even"));
  CHECK_THROWS_WITH(nn::rotary_table(3, 4, 0), Contains("base is 0: it must be positive"));
  CHECK_THROWS_WITH(nn::alibi_slopes(0), Contains("num_heads is 0: it must be in 1"));
  CHECK_THROWS_WITH(nn::alibi_bias(std::numeric_limits<std::int64_t>::max(), 1, 1), Contains("in 1 … 1048576"));
  CHECK_THROWS_WITH(nn::alibi_bias(2, -1, 3), Contains("neither may be negative"));
  CHECK(nn::rotary_table(0, 4).shape() == Shape{0, 2, 2});
  CHECK(nn::alibi_bias(2, 0, 3).shape() == Shape{1, 2, 0, 3});
}

}  // namespace fit::test::position_test
