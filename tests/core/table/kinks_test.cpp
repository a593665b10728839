#include <cmath>

#include "fit/detail/function_ref.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/oracles/golden.hpp"
#include "support/tensors.hpp"

// Values and gradients where a derivative is a choice or a plain formula breaks down: as PyTorch has them.
namespace fit::test::kinks_test {
namespace {

void check_kink(const std::string& op, FunctionRef<Tensor(const Tensor&)> f) {
  check_function("kinks/" + op, {"x"}, [&](const std::vector<Tensor>& in) { return f(in[0]); });
}

void check_kink_of_two(const std::string& op, FunctionRef<Tensor(const Tensor&, const Tensor&)> f) {
  check_function("kinks/" + op, {"x", "b"}, [&](const std::vector<Tensor>& in) { return f(in[0], in[1]); });
}

}  // namespace

TEST_CASE("unary functions, at their kinks and far out", "[kinks]") {
  check_kink("abs", [](const Tensor& x) { return abs(x); });
  check_kink("relu", [](const Tensor& x) { return relu(x); });
  check_kink("leaky_relu", [](const Tensor& x) { return leaky_relu(x); });
  // At NaN the gradient is NaN here, 1 in PyTorch.
  check_kink("elu", [](const Tensor& x) { return where(isnan(x), x, elu(masked_fill(x, isnan(x), 1))); });
  check_kink("clamp", [](const Tensor& x) { return clamp(x, -1, 0.5); });
  check_kink("tanh", [](const Tensor& x) { return tanh(x); });
  check_kink("sigmoid", [](const Tensor& x) { return sigmoid(x); });
  check_kink("softplus", [](const Tensor& x) { return softplus(x); });
  check_kink("gelu_exact", [](const Tensor& x) { return gelu(x); });
  check_kink("gelu_tanh", [](const Tensor& x) { return gelu(x, Gelu::tanh); });
  check_kink("silu", [](const Tensor& x) { return silu(x); });
  check_kink("sqrt", [](const Tensor& x) { return sqrt(x); });
}

TEST_CASE("two numbers that tie, and NaN", "[kinks]") {
  check_kink_of_two("maximum", [](const Tensor& a, const Tensor& b) { return maximum(a, b); });
  check_kink_of_two("minimum", [](const Tensor& a, const Tensor& b) { return minimum(a, b); });
  check_kink_of_two("where", [](const Tensor& a, const Tensor& b) {
    return where(tensor({true, false, true, false, false}), a, b);
  });
}

TEST_CASE("the derivative of an angle is 0 at the origin and at infinity, and right far out and close to it",
          "[kinks]") {
  for (const double scale : {0., 1e-30, 1., 1e30}) {
    INFO("scale " << scale);
    Tensor y = tensor({3 * scale}).requires_grad_(), x = tensor({4 * scale}).requires_grad_();
    atan2(y, x).sum().backward();
    const double r = scale == 0 ? 1 : 25 * scale;  // (x^2 + y^2) / scale
    CHECK(y.grad().item() == Approx(scale == 0 ? 0 : 4 / r).epsilon(1e-6));
    CHECK(x.grad().item() == Approx(scale == 0 ? 0 : -3 / r).epsilon(1e-6));
  }
  Tensor y = tensor({INFINITY, 1., -INFINITY}).requires_grad_(), x = tensor({1., -INFINITY, INFINITY}).requires_grad_();
  atan2(y, x).sum().backward();
  CHECK(equal(y.grad(), zeros({3})));
  CHECK(equal(x.grad(), zeros({3})));
  // 1 / r beyond float32, on both axes; and r (x^2 + y^2) / r^2 beyond it.
  y = tensor({0., 1e-40, 2.4e38}).requires_grad_(), x = tensor({1e-40, 0., 3.2e38}).requires_grad_();
  atan2(y, x).sum().backward();
  CHECK(equal(slice(y.grad(), 0, 0, 2), tensor({INFINITY, 0.})));
  CHECK(equal(slice(x.grad(), 0, 0, 2), tensor({0., -INFINITY})));
  CHECK(y.grad()[2].item() == Approx(2e-39).epsilon(1e-4));
  CHECK(x.grad()[2].item() == Approx(-1.5e-39).epsilon(1e-4));
}

TEST_CASE("NaN wins wherever it stands", "[kinks]") {
  for (const DType dtype : {float32, float64})
    for (const std::int64_t n : {1, 3, 7, 33, 257})
      for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
        INFO(dtype << ", element " << at << " of " << n);
        Tensor x = linspace(-1, 1, n, dtype);
        x[at] = NAN;
        const Tensor ones = full({n}, 1, dtype);
        for (const Tensor& y : {maximum(x, ones), maximum(ones, x), minimum(x, ones), minimum(ones, x)})
          for (std::int64_t i = 0; i < n; ++i) CHECK(std::isnan(values(y)[i]) == (i == at));
        for (const Tensor& whole : {max(x), min(x), max(x, 0), min(reshape(x, {n, 1}), 0), max(reshape(x, {1, n}), 1)})
          CHECK(std::isnan(whole.item()));
        CHECK(argmax(x).item<std::int64_t>() == at);
        CHECK(argmin(x, 0).item<std::int64_t>() == at);
      }
}

TEST_CASE("powers of 0 and powers with the exponent 0", "[kinks]") {
  check_kink("pow_0", [](const Tensor& x) { return pow(x, 0); });
  check_kink("pow_2", [](const Tensor& x) { return pow(x, 2); });
  check_kink("pow_half", [](const Tensor& x) { return pow(x, 0.5); });
  check_kink_of_two("pow", [](const Tensor& x, const Tensor& e) { return pow(x, e); });
}

TEST_CASE("reductions over ties, zeros and infinities", "[kinks]") {
  check_kink("max", [](const Tensor& x) { return max(x); });
  check_kink("min", [](const Tensor& x) { return min(x); });
  check_kink("max_axis", [](const Tensor& x) { return max(x, 1); });
  check_kink("min_axis", [](const Tensor& x) { return min(x, 0); });
  check_kink("max_axes", [](const Tensor& x) { return max(x, {0, 1}); });
  for (const std::string op : {"prod", "prod_one_zero", "prod_two_zeros"})
    check_kink(op, [](const Tensor& x) { return prod(x); });
  check_kink("prod_axis", [](const Tensor& x) { return prod(x, 1); });
  check_kink("norm_1", [](const Tensor& x) { return norm(x, 1, 1); });
  check_kink("norm_2", [](const Tensor& x) { return norm(x, 2, 1); });
  check_kink("norm_3", [](const Tensor& x) { return norm(x, 3, 1); });
  check_kink("norm_inf", [](const Tensor& x) { return norm(x, INFINITY, 1); });
  check_kink("norm_0", [](const Tensor& x) { return norm(x, 0, 1); });
  check_kink("norm_minus_1", [](const Tensor& x) { return norm(x, -1, 1); });
  check_kink("norm_minus_inf", [](const Tensor& x) { return norm(x, -INFINITY, 1); });
  check_kink("normalize_0", [](const Tensor& x) { return normalize(x, 0, 1); });
  check_kink("normalize_minus_inf", [](const Tensor& x) { return normalize(x, -INFINITY, 1, 0.125); });
  check_kink_of_two("cdist_0", [](const Tensor& a, const Tensor& b) { return cdist(a, b, 0); });
  check_kink("std", [](const Tensor& x) { return fit::std(x, 1); });
  check_kink("var", [](const Tensor& x) { return var(x, 1); });
}

TEST_CASE("the second derivative of a norm is 0 at elements that are 0", "[kinks]") {
  for (const double p : {1., 3., 4., static_cast<double>(INFINITY), -1., static_cast<double>(-INFINITY)}) {
    INFO("p = " << p);
    Tensor x = tensor({0., 1., 2.}, float64).requires_grad_();
    const Tensor second = grad(sum(grad(norm(x, p), x, create_graph)), x);
    CHECK(second[0].item() == 0);
    if (p == 1 || p < 0 || std::isinf(p)) CHECK(equal(second, zeros({3}, float64)));
  }
}

// By torch.linalg.vector_norm of PyTorch 2.13: gradients of [a, b, c] with NaN, infinities, ties and zeros, and what
// the gradient of their sum is.
TEST_CASE("norms at NaN and infinities have PyTorch's gradients, to second order", "[kinks]") {
  constexpr double inf = INFINITY, nan = NAN;
  struct Row {
    double p;
    std::vector<double> x, first, second;
  };
  const std::vector<double> with_nan{1, nan, -2}, zero_and_nan{0, nan, -2}, with_inf{1, inf, -2}, two_inf{inf, -inf, 1},
      both{inf, nan, 1}, none{0, 0, 0}, nans{nan, nan, nan};
  std::vector<Row> rows = {
      {0.5, with_inf, {inf, nan, -inf}, nans}, {1, with_nan, {1, 0, -1}, none},  {1, zero_and_nan, {0, 0, -1}, none},
      {1, with_inf, {1, 1, -1}, none},         {1, two_inf, {1, -1, 1}, none},   {1, both, {1, 0, 1}, none},
      {2, with_inf, {0, nan, 0}, nans},        {3, with_inf, {0, nan, 0}, nans}, {3, two_inf, {nan, nan, 0}, nans},
      {-1, two_inf, {0, 0, 1}, none},          {inf, with_inf, {0, 1, 0}, none}, {inf, two_inf, {0.5, -0.5, 0}, none},
      {-inf, with_inf, {1, 0, 0}, none},
  };
  for (const double p : {0.5, 1.5, 2., 3., 4., -0.5, -1., -2.})
    for (const auto& x : {with_nan, zero_and_nan, both}) rows.push_back({p, x, nans, nans});
  for (const double p : {inf, -inf})
    for (const auto& x : {with_nan, zero_and_nan, both}) rows.push_back({p, x, none, none});
  for (const Row& row : rows) {
    INFO("p = " << row.p << ", x = " << tensor(row.x, {3}));
    const Tensor x = tensor(row.x, {3}).to(float64).requires_grad_();
    const Tensor first = grad(norm(x, row.p), x, create_graph), second = grad(sum(first), x);
    const auto same = [](const Tensor& given, const std::vector<double>& expected) {
      for (std::size_t i = 0; i < expected.size(); ++i)
        CHECK((std::isnan(expected[i]) ? std::isnan(values(given)[i]) : values(given)[i] == expected[i]));
    };
    same(first, row.first);
    same(second, row.second);
    const Tensor other = cat({tensor(row.x, {1, 3}), tensor({{3., 4., 5.}}, float64)}).requires_grad_();
    CHECK(all(isfinite(grad(sum(norm(other, row.p, 1)), other)[1])).item<bool>());  // NaN stays in its row
  }
}

TEST_CASE("softmax and its kin with -inf and far apart", "[kinks]") {
  check_kink("logsumexp", [](const Tensor& x) { return logsumexp(x, 1); });
  check_kink("softmax", [](const Tensor& x) { return softmax(x, 1); });
  check_kink("log_softmax", [](const Tensor& x) { return log_softmax(x, 1); });
}

}  // namespace fit::test::kinks_test
