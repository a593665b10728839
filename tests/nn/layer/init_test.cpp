#include "fit/nn/layer/init.hpp"

#include <algorithm>
#include <cmath>

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"

namespace fit::test::init_test {
using namespace fit::nn;
using Catch::Contains;

namespace {

struct Statistics {
  double mean = 0, std = 0, low = INFINITY, high = -INFINITY;
};

Statistics statistics(const Tensor& t) {
  Statistics s;
  const std::vector<double> v = t.detach().to(float64).to_vector<double>();
  for (const double x : v) {
    s.mean += x / static_cast<double>(v.size());
    s.low = std::min(s.low, x);
    s.high = std::max(s.high, x);
  }
  for (const double x : v) s.std += (x - s.mean) * (x - s.mean) / static_cast<double>(v.size());
  s.std = std::sqrt(s.std);
  return s;
}

// Of 30,000 numbers, mean and standard deviation stray by about std / 173 and std / 245.
void check_spread(const Tensor& t, double std) {
  const Statistics s = statistics(t);
  CHECK(std::abs(s.mean) < 5 * std / 173);
  CHECK(s.std == Approx(std).epsilon(0.025));
}

Tensor blank(const Shape& shape = {300, 100}) { return full(shape, 99); }

}  // namespace

TEST_CASE("constant, uniform and normal initialisers") {
  manual_seed(1);
  CHECK(init::zeros_(blank({2})).to_vector<float>() == std::vector<float>{0, 0});
  CHECK(init::ones_(blank({2})).to_vector<float>() == std::vector<float>{1, 1});
  CHECK(init::constant_(blank({1}), 2.5).item() == 2.5);
  const Statistics u = statistics(init::uniform_(blank(), 2, 4));
  CHECK(u.mean == Approx(3).epsilon(0.01));
  CHECK(u.low >= 2);
  CHECK(u.high < 4);
  CHECK(u.std == Approx(2 / std::sqrt(12.)).epsilon(0.02));
  const Statistics n = statistics(init::normal_(blank(), 5, 0.5));
  CHECK(n.mean == Approx(5).epsilon(0.01));
  CHECK(n.std == Approx(0.5).epsilon(0.025));
  CHECK(n.high > 6.5);
}

TEST_CASE("uniform numbers stay below their upper bound, and bounds that can't be met are refused") {
  manual_seed(1);
  for (const DType type : {bfloat16, float32, float64}) {
    const Tensor x = init::uniform_(zeros({20000}, type), 1, 1.0000003).to(float64);
    CHECK(max(x).item() < 1.0000003);
    CHECK(min(x).item() >= 1);
  }
  CHECK(max(init::uniform_(zeros({20000}, bfloat16), 0, 1)).item() < 1);
  CHECK_THROWS_WITH(init::uniform_(zeros({3}), -3e38, 3e38), Contains("their difference must be finite in float32"));
  CHECK_THROWS_WITH(init::trunc_normal_(zeros({3}), 0, 1, 8, 9), Contains("with a probability below 1e-09"));
}

TEST_CASE("an initialiser writes into a parameter without recording, with its own generator if asked") {
  Tensor w = zeros({4, 4}, float64).requires_grad_();
  const std::uint32_t version = w.version();
  Generator a(7), b(7);
  const Tensor same = init::xavier_uniform_(w, 1, a);
  CHECK(same.impl() == w.impl());
  CHECK(w.is_leaf());
  CHECK(w.version() > version);
  CHECK(equal(w.detach(), init::xavier_uniform_(zeros({4, 4}, float64), 1, b)));
}

TEST_CASE("uniform and normal initialisers draw what rand and randn do, where it stays") {
  for (const DType dtype : {float32, float64})
    for (const std::int64_t n : {0, 1, 33, 257, 20000}) {
      INFO(n << " of " << dtype);
      Tensor t = full({n}, 99, dtype);
      const void* const place = t.raw();
      Generator a(7), b(7);
      init::uniform_(t, -0.3, 0.5, a);
      CHECK(equal(t, rand({n}, dtype, b) * 0.8 - 0.3));
      init::normal_(t, 0.5, 0.02, a);
      CHECK(equal(t, randn({n}, dtype, b) * 0.02 + 0.5));
      CHECK(t.raw() == place);
      CHECK(a.calls() == 2);
    }
}

TEST_CASE("init::Skip keeps the initialisers from doing anything") {
  const std::uint64_t calls = default_generator().calls();
  {
    const init::Skip guard;
    { const init::Skip inner; }
    Tensor t = blank({2, 2});
    for (const auto& f :
         {+[](Tensor x) { return init::zeros_(x); }, +[](Tensor x) { return init::uniform_(x); },
          +[](Tensor x) { return init::normal_(x); }, +[](Tensor x) { return init::trunc_normal_(x); },
          +[](Tensor x) { return init::kaiming_uniform_(x); }, +[](Tensor x) { return init::orthogonal_(x); }})
      CHECK(f(t).impl() == t.impl());
    CHECK(equal(t, blank({2, 2})));
  }
  CHECK(default_generator().calls() == calls);
  CHECK(equal(init::zeros_(blank({2, 2})), zeros({2, 2})));
}

TEST_CASE("truncated normal numbers") {
  manual_seed(2);
  const Tensor t = init::trunc_normal_(blank());
  // Within two deviations: variance 1 - 4 phi(2) / (2 Phi(2) - 1) = 0.7737.
  check_spread(t, std::sqrt(0.773741));
  CHECK(statistics(t).low >= -2);
  CHECK(statistics(t).high <= 2);
  CHECK(statistics(t).high > 1.95);
  const Statistics shifted = statistics(init::trunc_normal_(blank(), 1, 0.02, 0.99, 2));
  CHECK(shifted.low >= 0.99 - 1e-6);
  CHECK(shifted.mean > 1);
  CHECK_THROWS_WITH(init::trunc_normal_(blank(), 0, 1, 2, -2), Contains("low 2, high -2"));
}

TEST_CASE("Xavier and Kaiming initialisers have the spread of their formulas") {
  manual_seed(3);
  const Tensor t = blank();  // fan in 100, fan out 300
  check_spread(init::xavier_uniform_(t), std::sqrt(2. / 400));
  CHECK(statistics(t).high <= std::sqrt(6. / 400));
  check_spread(init::xavier_normal_(t, 3), 3 * std::sqrt(2. / 400));
  check_spread(init::kaiming_uniform_(t), std::sqrt(2. / 100));
  check_spread(init::kaiming_uniform_(t, std::sqrt(5.)), std::sqrt(1. / 3 / 100));
  CHECK(statistics(t).high <= 0.1);
  check_spread(init::kaiming_normal_(t, 0, init::Fan::out, init::Nonlinearity::relu), std::sqrt(2. / 300));
  check_spread(init::kaiming_normal_(t, 0, init::Fan::in, init::Nonlinearity::tanh), 5. / 3 / 10);
  check_spread(init::kaiming_normal_(blank({300, 25, 4}), 0, init::Fan::out), std::sqrt(2. / 1200));
  CHECK(init::gain(init::Nonlinearity::selu) == 0.75);
  CHECK(init::gain(init::Nonlinearity::sigmoid) == 1);
  CHECK(init::gain(init::Nonlinearity::linear) == 1);
  CHECK(init::xavier_uniform_(blank({0, 3})).numel() == 0);
}

TEST_CASE("orthogonal matrices") {
  manual_seed(4);
  for (const Shape& shape : {Shape{5, 5}, Shape{7, 3}, Shape{3, 7}, Shape{4, 2, 5}, Shape{1, 1}, Shape{33, 257}}) {
    INFO(shape);
    const Tensor w = init::orthogonal_(zeros(shape, float64), 2);
    const Tensor m = reshape(w, {shape[0], -1});
    const Tensor product = m.size(0) <= m.size(1) ? matmul(m, Transpose::no, m, Transpose::yes)
                                                  : matmul(m, Transpose::yes, m, Transpose::no);
    CHECK(allclose(product, eye(product.size(0), -1, float64) * 4., 0, 1e-12));
  }
  // R's diagonal is made positive, so a matrix of one element is as often -1 as 1.
  int positive = 0;
  for (int i = 0; i < 100; ++i) positive += init::orthogonal_(zeros({1, 1})).item() > 0;
  CHECK(positive > 25);
  CHECK(positive < 75);
  CHECK(init::orthogonal_(zeros({0, 3})).numel() == 0);
  CHECK_THROWS_WITH(init::orthogonal_(zeros({3})), Contains("[orthogonal_] the tensor has shape [3]"));
}

TEST_CASE("initialisers refuse what they can't do") {
  CHECK_THROWS_WITH(init::xavier_normal_(blank({3})), Contains("[xavier_normal_] the tensor has shape [3]"));
  CHECK_THROWS_WITH(init::kaiming_uniform_(blank({})), Contains("[kaiming_uniform_]"));
  CHECK_THROWS_WITH(init::uniform_(blank(), 1, 0), Contains("low is 1, high is 0"));
  CHECK_THROWS_WITH(init::normal_(blank(), 0, -1), Contains("std is -1"));
  CHECK_THROWS_AS(init::normal_(zeros({2}, int64)), Error);
}

}  // namespace fit::test::init_test
