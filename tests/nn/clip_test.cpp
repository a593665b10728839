#include <cmath>

#include "fit/ops.hpp"
#include "fit/optim.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::clip_test {
using Catch::Contains;

namespace {

Tensor leaf(const Tensor& value) { return value.clone().requires_grad_(); }

}  // namespace

TEST_CASE("clipping by norm scales all gradients together") {
  Tensor a = leaf(zeros({2})), b = leaf(zeros({1}, float64)), c = leaf(zeros({3}));
  const auto set = [&] {
    a.set_grad(tensor({3., 0.}));
    b.set_grad(tensor({4.}, float64));
  };
  set();
  CHECK(optim::clip_grad_norm_({a, b, c}, 10) == 5);
  CHECK(a.grad().to_vector<float>()[0] == 3);
  CHECK(optim::clip_grad_norm_({a, b, c}, 1) == 5);
  CHECK(a.grad().to_vector<float>()[0] == Approx(0.6));
  CHECK(b.grad().item() == Approx(0.8));
  CHECK(optim::clip_grad_norm_({c}, 1) == 0);
  set();
  a.set_grad(tensor({INFINITY, 0.}));
  CHECK_THROWS_WITH(optim::clip_grad_norm_({a, b}, 1, optim::error_if_nonfinite),
                    Contains("the norm of the gradients is inf"));
  CHECK(b.grad().item() == 4);
  CHECK(std::isinf(optim::clip_grad_norm_({a, b}, 1)));
  CHECK(std::isnan(a.grad().to_vector<float>()[0]));
  CHECK_THROWS_WITH(optim::clip_grad_norm_({a}, -1), Contains("max_norm is -1"));
}

TEST_CASE("the norm is summed in double") {
  Tensor p = leaf(zeros({300001}));
  p.set_grad(full({300001}, 1e-3));
  CHECK(optim::clip_grad_norm_({p}, 100) == Approx(static_cast<double>(1e-3f) * std::sqrt(300001.)).epsilon(1e-13));
}

TEST_CASE("clipping by value cuts every element off") {
  Tensor p = leaf(zeros({4}));
  p.set_grad(tensor({-3., -0.5, 0.5, 3.}));
  optim::clip_grad_value_({p}, 1);
  CHECK(p.grad().to_vector<float>() == std::vector<float>{-1, -.5f, .5f, 1});
  CHECK_THROWS_AS(optim::clip_grad_value_({p}, -1), Error);
}

TEST_CASE("clipping: of gradients that are summed in several blocks, and of empty ones") {
  Tensor many = zeros({40000}).requires_grad_(), none = zeros({0}).requires_grad_();
  many.set_grad(cat({full({32768}, 1.), full({7232}, 3.)}));
  none.set_grad(zeros({0}));
  const double square = 32768 + 9. * 7232;
  CHECK(optim::clip_grad_norm_({many, none}, INFINITY) == Approx(std::sqrt(square)));
  CHECK(optim::clip_grad_norm_({many, none}, INFINITY, 1) == Approx(32768 + 3. * 7232));
  CHECK(optim::clip_grad_norm_({none, many}, INFINITY, INFINITY) == 3);
}

}  // namespace fit::test::clip_test
