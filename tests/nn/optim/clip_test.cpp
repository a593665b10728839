#include <cmath>

#include "fit/nn/optim/optim.hpp"
#include "fit/ops/ops.hpp"
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

namespace {

// Leaves with these gradients.
std::vector<Tensor> with_gradients(const std::vector<Tensor>& gradients) {
  std::vector<Tensor> all;
  for (const Tensor& g : gradients) {
    all.push_back(zeros(g.shape(), g.dtype()).requires_grad_());
    all.back().set_grad(g.clone());
  }
  return all;
}

std::vector<double> numbers(const std::vector<Tensor>& parameters) {
  std::vector<double> all;
  for (const Tensor& p : parameters)
    for (const double x : p.grad().to(float64).to_vector<double>()) all.push_back(x);
  return all;
}

}  // namespace

TEST_CASE("the norm of gradients has no overflow or underflow on the way") {
  for (const double size : {1e200, 1e-200, 1e150, 1e-150, 1e307, 1e-307, 5e-324, 1.})
    for (const double p : {0.5, 1., 2., 3., 7., 2000., static_cast<double>(INFINITY)}) {
      CAPTURE(size, p);
      const auto all = with_gradients({tensor({3 * size}, float64), tensor({-4 * size, 0.}, float64)});
      const double unit = std::isinf(p) ? 4 : std::pow(std::pow(3 / 4., p) + 1, 1 / p) * 4;
      CHECK(optim::grad_norm(all, p) == Approx(unit * size).epsilon(1e-13));
      CHECK(optim::clip_grad_norm_(all, INFINITY, p) == optim::grad_norm(all, p));
    }
  CHECK(optim::grad_norm(with_gradients({tensor({3e200, 4e200}, float64)})) == Approx(5e200).epsilon(1e-15));
  CHECK(optim::grad_norm(with_gradients({tensor({3e-200, 4e-200}, float64)})) == Approx(5e-200).epsilon(1e-15));
  const auto narrow = with_gradients({tensor({3e38}), tensor({-3e38, 1e-44})});
  CHECK(optim::grad_norm(narrow) == Approx(std::sqrt(2.) * 3e38).epsilon(1e-7));
  CHECK(optim::grad_norm(narrow, 12) == Approx(std::pow(2., 1 / 12.) * 3e38).epsilon(1e-7));
  CHECK(optim::grad_norm(with_gradients({tensor({3e-44, 4e-44})})) == Approx(5e-44).epsilon(0.02));  // rounded inputs
  CHECK(optim::grad_norm({zeros({2}).requires_grad_()}) == 0);
  CHECK(optim::grad_norm(with_gradients({zeros({0}), zeros({2})}), 3) == 0);
  const double inf = INFINITY, nan = NAN;
  for (const double p : {1., 2., 3., inf}) {
    CHECK(optim::grad_norm(with_gradients({tensor({1., inf}), tensor({-2.})}), p) == inf);
    CHECK(std::isnan(optim::grad_norm(with_gradients({tensor({1., nan}), tensor({-2.})}), p)));
    CHECK(std::isnan(optim::grad_norm(with_gradients({tensor({inf}), tensor({1., nan})}), p)));
  }
  CHECK_THROWS_WITH(optim::grad_norm(narrow, -1), "[grad_norm] norm_type is -1: it must be positive");
}

TEST_CASE("measuring the norm of gradients writes nothing") {
  const double inf = INFINITY, nan = NAN;
  for (const std::vector<double>& values :
       {std::vector<double>{1, inf, -2}, {1, nan, -2}, {3e200, 4e200, 0}, {1e-200, 0, 0}, {3, 4, 0}})
    for (const DType dtype : {float32, float64}) {
      const auto all = with_gradients({tensor(values, {3}).to(dtype)});
      const std::vector<Tensor> before{all[0].grad().clone()};
      const auto version = all[0].grad().version();
      optim::grad_norm(all);
      optim::grad_norm(all, 3);
      optim::clip_grad_norm_(all, inf);
      optim::clip_grad_norm_(all, inf, 3);
      optim::clip_grad_value_(all, inf);
      CHECK(same_bits(all[0].grad(), before[0]));
      CHECK(all[0].grad().version() == version);
    }
}

TEST_CASE("gradients of any size are clipped to the limit") {
  for (const double size : {1e200, 1e307, 1e-200, 1e150})
    for (const double limit : {1., 1e-3, 1e-300}) {
      const auto all = with_gradients({tensor({3 * size}, float64), tensor({4 * size}, float64)});
      CHECK(optim::clip_grad_norm_(all, limit) == Approx(5 * size).epsilon(1e-14));
      const double to = 5 * size < limit ? size : limit / (1 + 1e-6 / (5 * size)) / 5;
      if (5 * size >= limit || size > limit) {
        CHECK(numbers(all)[0] == Approx(3 * to).epsilon(1e-13));
        CHECK(numbers(all)[1] == Approx(4 * to).epsilon(1e-13));
      }
    }
  const auto narrow = with_gradients({full({10000}, 3e38)});
  CHECK(optim::clip_grad_norm_(narrow, 1e-3) == Approx(3e40).epsilon(1e-6));  // the factor, 3e-44, is no normal float
  CHECK(numbers(narrow)[0] == Approx(1e-5).epsilon(1e-6));
}

TEST_CASE("a parameter that is there twice is refused by clipping as by an optimiser") {
  const auto all = with_gradients({tensor({3., 4.})});
  const std::vector<Tensor> twice{all[0], all[0]};
  const auto message = Contains("the parameter 1 of shape [2] is there twice: it would count twice");
  CHECK_THROWS_WITH(optim::SGD(twice, 0.1), message);
  CHECK_THROWS_WITH(optim::grad_norm(twice), message && Contains("[grad_norm]"));
  CHECK_THROWS_WITH(optim::clip_grad_norm_(twice, 1), message && Contains("[clip_grad_norm_]"));
  CHECK_THROWS_WITH(optim::clip_grad_value_(twice, 1), message && Contains("[clip_grad_value_]"));
  CHECK(numbers(all) == std::vector<double>{3, 4});
}

}  // namespace fit::test::clip_test
