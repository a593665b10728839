// x[mask] = v and x[ids] = v.
#include "fit/backward/gradcheck.hpp"
#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::masked_assignment_test {
using Catch::Contains;
using fit::test::same_bits;

TEST_CASE("what a mask names can be written") {
  Tensor x = tensor({{1., 2., 3.}, {4., 5., 6.}});
  x[gt(x, 2)] = 0;
  CHECK(same_bits(x, tensor({{1., 2., 0.}, {0., 0., 0.}})));
  x[tensor({{true, false, true}, {false, true, false}})] = tensor({7., 8., 9.});  // in row-major order
  CHECK(same_bits(x, tensor({{7., 2., 8.}, {0., 9., 0.}})));
  x[tensor({false, true})] = tensor({1., 2., 3.});  // rows
  CHECK(same_bits(x, tensor({{7., 2., 8.}, {1., 2., 3.}})));
  x[tensor({true, true})] = tensor({{5.}, {6.}});  // broadcast
  CHECK(same_bits(x, tensor({{5., 5., 5.}, {6., 6., 6.}})));
  x[eq(x, 5)] += tensor({1., 2., 3.});
  x[eq(x, 100)] *= 2;  // nothing is named
  CHECK(same_bits(x, tensor({{6., 7., 8.}, {6., 6., 6.}})));
  Tensor whole = tensor({1, 2, 3});
  whole[tensor({true, false, true})] = 2;
  CHECK(same_bits(whole, tensor({2, 2, 2})));
  CHECK_THROWS_WITH(whole[tensor({true, false, true})] = 2.9, Contains("the number 2.9 is not whole"));
  CHECK_THROWS_WITH(whole[tensor({true, false, true})] /= 2, Contains("the tensor is int64, the result float32"));
  const Tensor constant = x;
  CHECK(constant[tensor({false, true})].shape() == Shape{1, 3});
}

TEST_CASE("what ids name can be written") {
  Tensor x = zeros({3, 2});
  x[tensor({2, 0})] = tensor({{1., 2.}, {3., 4.}});
  CHECK(same_bits(x, tensor({{3., 4.}, {0., 0.}, {1., 2.}})));
  x[tensor({{-1}, {1}})] = tensor({{{8., 9.}}});  // [2, 1, 2]
  CHECK(same_bits(x, tensor({{3., 4.}, {8., 9.}, {8., 9.}})));
  x[tensor({1})] -= 1;
  CHECK(same_bits(x, tensor({{3., 4.}, {7., 8.}, {8., 9.}})));
}

TEST_CASE("gradients flow through what is written by a mask, and not through what was there", "[gradient]") {
  const Tensor mask = tensor({{true, false, true}, {false, true, false}});
  const auto o = GradCheckOptions().order(2);
  CHECK(check_gradients(
            [&](const auto& in) {
              Tensor y = in[0] * in[0];
              y[mask] = in[1] * in[1];
              return y * y;
            },
            {randn({2, 3}, float64), randn({3}, float64)}, o)
            .ok);
  CHECK(check_gradients(
            [&](const auto& in) {
              Tensor y = in[0] * in[0];
              y[tensor({true, false})] = in[1] * in[1];  // one number for a row
              y[tensor({{1}})] *= in[1];
              return y * y;
            },
            {randn({2, 3}, float64), randn({}, float64)}, o)
            .ok);
  Tensor leaf = ones({2, 3}).requires_grad_();
  CHECK_THROWS_WITH(leaf[mask] = 1, Contains("leaf"));
}

TEST_CASE("what can't be written by a mask is refused, and nothing has changed") {
  Tensor x = ones({2, 3});
  CHECK_THROWS_WITH(x[tensor({true, false, true})] = 0, Contains("x has shape [2, 3], the mask [3]"));
  CHECK_THROWS_WITH(
      x[tensor({true, false})] = tensor({1., 2.}),
      "[index_put_] the value has shape [2]: it does not broadcast to [1, 3], the shape of what is written");
  CHECK_THROWS_WITH(x[tensor({0, 1, 0})] = 0, Contains("names element 0 more than once"));
  CHECK_THROWS_WITH(x[tensor({0, 2})] = 0, Contains("2"));
  const std::string rule = "where is float32: it must be int64 (ids) or boolean (a mask)";
  CHECK_THROWS_WITH(index_put_(x, ones({2}), ones({})), "[index_put_] " + rule);
  CHECK_THROWS_WITH(x[ones({2})] = 1, "[take] " + rule);
  CHECK(same_bits(x, ones({2, 3})));
}

}  // namespace fit::test::masked_assignment_test
