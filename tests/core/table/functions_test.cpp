#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "fit/detail/function_ref.hpp"
#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/rounding.hpp"
#include "support/tables/function_rows.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// Functions of one number: how far each may be from the true value, on every instruction set that the processor has.
namespace fit::test::functions_test {
namespace {

using test::each_isa;
using test::function_rows;
using test::FunctionRow;
using test::units_off;

std::vector<double> values(const Tensor& x) { return x.to(float64).to_vector<double>(); }

// Gradient of sum(f(x)).
Tensor slope(FunctionRef<Tensor(const Tensor&)> f, const std::vector<double>& x) {
  const Tensor leaf = tensor(x, {static_cast<std::int64_t>(x.size())}).requires_grad_();
  sum(f(leaf)).backward();
  return leaf.grad();
}

}  // namespace

namespace {

// The numbers of T next to n pi / 2, and some whose distance from such a multiple is as small as can be.
template <class T>
Tensor beside_quarter_turns() {
  const long double quarter = std::acos(-1.L) / 2;
  std::vector<T> v = {T(45.553093477052), T(59.69026041820607), T(6381956970095103. * 0x1p797), T(16367173. * 0x1p72)};
  for (std::int64_t n = 1; n <= 100000; ++n) {
    const auto x = static_cast<T>(static_cast<long double>(n) * quarter);
    for (const T near : {std::nextafter(x, T(0)), x, std::nextafter(x, std::numeric_limits<T>::infinity())})
      v.push_back(n % 2 ? near : -near);
  }
  return tensor(v, {static_cast<std::int64_t>(v.size())});
}

template <class T>
void check_quarter_turns() {
  const Tensor x = beside_quarter_turns<T>();
  for (const FunctionRow& row : function_rows()) {
    if (!std::set<std::string>{"sin", "cos", "tan"}.count(row.name)) continue;
    std::vector<long double> want;
    for (const T v : x.to_vector<T>()) want.push_back(row.value(v));
    const double allowed = test::allowed_units<T>(row, "value");
    each_isa([&] {
      INFO(row.name << " in " << x.dtype());
      const std::vector<T> got = row.f(x).template to_vector<T>();
      for (std::size_t i = 0; i < got.size(); ++i)
        if (!(units_off(got[i], want[i]) <= allowed))
          FAIL_CHECK("at " << x.data<T>()[static_cast<std::int64_t>(i)] << ": " << got[i] << " instead of " << want[i]);
    });
  }
}

}  // namespace

TEST_CASE("sin, cos and tan next to multiples of pi / 2", "[functions]") {
  check_quarter_turns<float>();
  check_quarter_turns<double>();
}

TEST_CASE("powers of every special number are C's, and others within a unit", "[functions]") {
  const double special[] = {0,         -0.,   1,        -1,    3,    -3,    2,        -2,        0.5,
                            -0.5,      1.5,   -2.5,     1e-40, 3e38, -3e38, 16777215, -16777215, 16777216,
                            8388607.5, 0.999, 33554434, 127,   -149, nan,   inf,      -inf};
  std::vector<float> x, e;
  for (const double a : special)
    for (const double b : special) x.push_back(static_cast<float>(a)), e.push_back(static_cast<float>(b));
  std::mt19937_64 random(3);
  const auto uniform = [&] { return static_cast<float>(random() >> 40) * 0x1p-23f - 1; };
  for (int i = 0; i < 30000; ++i) {
    x.push_back(i % 3 == 0 ? uniform() * 20 : std::exp2(uniform() * 149));
    e.push_back(i % 3 == 1 ? uniform() * 150 / std::log2(x.back()) : std::nearbyint(uniform() * 20));
  }
  for (int i = 0; i < 3000; ++i) {  // close to 1, and nearly to the ends of the range
    x.push_back(std::exp2((i % 2 == 0 ? 0.75f : -0.75f) + uniform() / 4));
    e.push_back(uniform() * 126 / std::log2(x.back()));
  }
  const auto n = static_cast<std::int64_t>(x.size());
  const Tensor base = tensor(x, {n}), exponent = tensor(e, {n});
  each_isa([&] {
    const Tensor y = pow(base, exponent), wide = pow(base.to(float64), exponent.to(float64));
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const float got = y.data<float>()[i];
      const double want = std::pow(double{x[at]}, double{e[at]});
      const bool sign = std::isnan(want) || std::signbit(got) == std::signbit(want);
      if (!sign || !(units_off(got, want) <= 1)) FAIL_CHECK(x[at] << " to the power of " << e[at] << " gives " << got);
      const double same = wide.data<double>()[i];
      if (!(units_off(same, std::pow(static_cast<long double>(x[at]), e[at])) <= 1))
        FAIL_CHECK(x[at] << " to the power of " << e[at] << " in float64 gives " << same);
    }
  });
}

TEST_CASE("powers in float64 are within a unit over the whole range", "[functions]") {
  std::vector<double> x, e;
  std::mt19937_64 random(4);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-52 - 1; };
  for (int i = 0; i < 20000; ++i) {
    x.push_back(i % 4 == 0 ? 1 + uniform() * std::exp2(-52 * std::abs(uniform())) : std::exp2(uniform() * 1074));
    e.push_back(uniform() * (i % 2 ? 1080 : 20) / std::log2(x.back()));
  }
  for (const double base : {3., 10., -7., 0.5, 1.5, 1e5})  // exact
    for (int k = -3; k <= 9; ++k) x.push_back(base), e.push_back(k);
  for (const double odd : {0x1p52 + 1, 0x1p53 - 1, 0x1p53, 0x1p60, 4503599627370495.5})
    x.push_back(-1), e.push_back(odd);
  const auto n = static_cast<std::int64_t>(x.size());
  each_isa([&] {
    const Tensor y = pow(tensor(x, {n}), tensor(e, {n}));
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const long double want = std::pow(static_cast<long double>(x[at]), static_cast<long double>(e[at]));
      const double got = y.data<double>()[i];
      if (!(units_off(got, want) <= 1)) FAIL_CHECK(x[at] << " to the power of " << e[at] << " gives " << got);
      if (i >= 20000 && want == static_cast<double>(want)) CHECK(got == static_cast<double>(want));
    }
  });
}

TEST_CASE("the negative of zero is negative zero, on every instruction set", "[functions]") {
  each_isa([] {
    for (const DType t : {float32, float64})
      for (const double v : values(1 / neg(zeros({19}, t)))) CHECK(v == -inf);
    for (const DType t : {float32, float64})
      for (const Tensor& x : {floor(full({19}, -0., t)), ceil(full({19}, -0.25, t)), round(full({19}, -0.25, t)),
                              trunc(full({19}, -0.25, t))})
        for (const double v : values(1 / x)) CHECK(v == -inf);
  });
}

TEST_CASE("a number comes out the same wherever it stands", "[functions]") {
  each_isa([] {
    for (const DType t : {float32, float64})
      for (const FunctionRow& f : function_rows())
        for (const std::int64_t n : {1, 3, 7, 33, 257}) {
          const double all = f.f(full({n}, 0.3, t))[n - 1].item();
          const double one = f.f(full({}, 0.3, t)).item();
          CHECK((all == one || (std::isnan(all) && std::isnan(one))));
        }
  });
}

TEST_CASE("functions of whole numbers give float32", "[functions]") {
  const Tensor i = tensor({-2, 0, 3});
  for (const Tensor& y : {exp(i), tanh(i), relu(i), gelu(i), sigmoid(i.to(boolean))}) CHECK(y.dtype() == float32);
  CHECK(values(relu(i)) == std::vector<double>{0, 0, 3});
  CHECK(sqrt(tensor({true})).item() == 1);
  CHECK(abs(i).dtype() == int64);
  CHECK(values(abs(i)) == std::vector<double>{2, 0, 3});
}

TEST_CASE("pow of whole numbers stays whole", "[functions]") {
  const Tensor x = tensor({-2, 0, 3});
  CHECK(pow(x, 3).dtype() == int64);
  CHECK(values(pow(x, 3)) == std::vector<double>{-8, 0, 27});
  CHECK(values(pow(x, tensor({5, 0, 4}))) == std::vector<double>{-32, 1, 81});
  CHECK(values(pow(2, tensor({0, 1, 10}))) == std::vector<double>{1, 2, 1024});
  CHECK(pow(tensor({3}), 39).item<std::int64_t>() == 4052555153018976267);
  CHECK_THROWS_WITH(pow(2.5, x), Catch::Contains("[pow] the number 2.5 is not whole"));
  CHECK_THROWS_WITH(pow(x, tensor({1, -1, 1})), Catch::Contains("[pow] 0 to the power of -1 is no whole number"));
}

TEST_CASE("a root of minus infinity and of minus zero, by a number, is what it is by a tensor", "[functions]") {
  each_isa([] {
    for (const DType t : {float32, float64, bfloat16}) {
      const auto of = [&](double x, double e) { return pow(full({3}, x, t), e)[2].item(); };
      CHECK(of(-inf, 0.5) == inf);
      CHECK(of(-inf, -0.5) == 0);
      CHECK(of(-0., -0.5) == inf);
      CHECK(!std::signbit(of(-0., 0.5)));
      CHECK(std::isnan(of(-1, 0.5)));
      CHECK(std::isnan(of(-1e-40, -0.5)));
      CHECK(of(4, 0.5) == 2);
      CHECK(of(4, -0.5) == 0.5);
    }
  });
}

TEST_CASE("pow takes the short ways that give what the long one does", "[functions]") {
  const Tensor x = tensor({0.25, 1.5, 7.}, float64);
  for (const double e : {2., 3., -1., 0.5, -0.5, 0., 1., 4.})
    for (std::int64_t i = 0; i < 3; ++i)
      CHECK(pow(x, e)[i].item() == Approx(std::pow(x.data<double>()[i], e)).epsilon(1e-15));
}

TEST_CASE("a power of two types has its gradients in the wider one", "[functions]") {
  const Tensor x = tensor({1.5}, float64).requires_grad_(), e = tensor({1.7}).requires_grad_();
  pow(x, e).backward();
  const double exponent = e.item();
  CHECK(x.grad().item() == Approx(exponent * std::pow(1.5, exponent - 1)).epsilon(1e-15));
  const Tensor narrow = tensor({1.3}).requires_grad_(), wide = tensor({0.7}, float64).requires_grad_();
  pow(narrow, wide).backward();
  CHECK(wide.grad().item() == Approx(std::pow(narrow.item(), 0.7) * std::log(narrow.item())).epsilon(1e-15));
}

TEST_CASE("the slope of a power by its exponent is finite where it is, beside an infinite power", "[functions]") {
  const Tensor e = tensor({3., 1024., 1025., inf}, float64).requires_grad_();
  pow(2, e).backward(ones({4}, float64));
  const std::vector<double> got = values(e.grad());
  CHECK(got[0] == Approx(8 * std::log(2.)).epsilon(1e-15));
  CHECK(got[1] == Approx(0x1p1023 * std::log(4.)).epsilon(1e-15));
  CHECK((got[2] == inf && got[3] == inf));
}

TEST_CASE("the gradient of a power is 0 where the exponent is 0, whatever the base", "[functions]") {
  const Tensor x = tensor({0., -0., 1e-40, nan, inf, 3.}, float32).requires_grad_();
  pow(x, zeros({6})).backward(ones({6}));
  CHECK(values(x.grad()) == std::vector<double>(6, 0.));
}

TEST_CASE("gradients at NaN are NaN where the function bends", "[functions]") {
  for (const auto f : {+[](const Tensor& x) { return elu(x); }, +[](const Tensor& x) { return gelu(x); },
                       +[](const Tensor& x) { return silu(x); }, +[](const Tensor& x) { return erf(x); },
                       +[](const Tensor& x) { return softplus(x); }, +[](const Tensor& x) { return tanh(x); }})
    CHECK(std::isnan(values(slope(f, {nan}))[0]));
}

TEST_CASE("gradients at kinks, ties and edges are PyTorch's", "[functions]") {
  const auto at = [](auto f, std::vector<double> x) { return values(slope(f, x)); };
  CHECK(at([](const Tensor& x) { return relu(x); }, {-1, 0, 1}) == std::vector<double>{0, 0, 1});
  CHECK(at([](const Tensor& x) { return abs(x); }, {-1, 0, 1}) == std::vector<double>{-1, 0, 1});
  CHECK(at([](const Tensor& x) { return clamp(x, -1, 2); }, {-3, -1, 0, 2, 3}) == std::vector<double>{0, 1, 1, 1, 0});
  CHECK(at([](const Tensor& x) { return leaky_relu(x, 0.1); }, {-1, 0, 1}) == std::vector<double>{0.1, 0.1, 1});
  CHECK(at([](const Tensor& x) { return elu(x, 2); }, {0, 1}) == std::vector<double>{2, 1});
  const Tensor zero = zeros({1}, float64).requires_grad_();
  CHECK(grad(sum(grad(sum(elu(zero, 2)), {zero}, create_graph)[0]), {zero})[0].item() == 0);
  const Tensor three = full({3}, 3., float64);
  CHECK(at([&](const Tensor& x) { return maximum(x, three); }, {2, 3, 4}) == std::vector<double>{0, 0.5, 1});
  CHECK(at([&](const Tensor& x) { return minimum(three, x); }, {2, 3, 4}) == std::vector<double>{1, 0.5, 0});
  CHECK(at([](const Tensor& x) { return pow(x, 0); }, {0, 1}) == std::vector<double>{0, 0});
  CHECK(at([](const Tensor& x) { return pow(x, 1); }, {0, 1}) == std::vector<double>{1, 1});
  CHECK(at([](const Tensor& x) { return pow(x, zeros({2}, float64)); }, {0, 2}) == std::vector<double>{0, 0});
  CHECK(at([](const Tensor& e) { return pow(0, e); }, {0, 1, 2}) == std::vector<double>{0, 0, 0});
  CHECK(at([](const Tensor& e) { return pow(0, e); }, {-1})[0] == -inf);
}

TEST_CASE("gradients far out are finite and right", "[functions]") {
  const std::vector<double> far = {-inf, -1e300, -800, 800, 1e300, inf}, step = {0, 0, 0, 1, 1, 1};
  for (const auto f : {+[](const Tensor& x) { return gelu(x); }, +[](const Tensor& x) { return gelu(x, Gelu::tanh); },
                       +[](const Tensor& x) { return silu(x); }, +[](const Tensor& x) { return softplus(x); },
                       +[](const Tensor& x) { return elu(x); }, +[](const Tensor& x) { return relu(x); }})
    CHECK(values(slope(f, far)) == step);
  for (const auto f : {+[](const Tensor& x) { return tanh(x); }, +[](const Tensor& x) { return sigmoid(x); }})
    CHECK(values(slope(f, far)) == std::vector<double>(6, 0.));
}

}  // namespace fit::test::functions_test
