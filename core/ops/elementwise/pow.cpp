// x^e, for tensors and numbers.
#include <cmath>
#include <type_traits>

#include "ops/common/precision.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

// A power costs about as much as 32 additions; in float, as 8.
template <class T>
constexpr std::int64_t pow_grain = elementwise_grain / (std::is_same_v<T, float> ? 8 : 32);

std::int64_t power(std::int64_t x, std::int64_t e) {
  if (e < 0)
    check::fail("pow", x, " to the power of ", e,
                " is no whole number: convert the tensor with .to(float32), or use exponents of 0 and more");
  std::uint64_t result = 1, square = static_cast<std::uint64_t>(x);
  for (; e > 0; e >>= 1, square *= square)
    if (e & 1) result *= square;
  return wrap(result);
}

template <class T>
auto power_runs() {
  if constexpr (std::is_floating_point_v<T>)
    return kernels::elementwise<T>().pow;
  else
    return each_pair<T, T, T>(power);
}

// Common integer and half exponents, without calls of pow, but with its results.
template <class T>
bool run_fast_path(Tensor& y, const Tensor& x, double e) {
  const auto& kernel = kernels::elementwise<T>();
  if (e == 2 || e == 3)
    run_binary<T, T, T>(y, x, x, kernel.mul);
  else if (e == -1)
    run_with_number<T, T>(y, x, T{1}, true, kernel.div);
  else if (e == 0.5)
    run_unary<T, T>(y, x, kernel.sqrt_as_pow);
  else if (e == -0.5)
    run_unary<T, T>(y, x, kernel.rsqrt_as_pow);
  else
    return false;
  if (e == 3) run_binary<T, T, T>(y, y, x, kernel.mul);
  return true;
}

// (e - 1) - rounded: what is lost where the exponent e - 1 of a derivative is rounded (Knuth).
template <class N>
N lost_exponent(const N& e, const N& rounded) {
  const N minus_one = rounded - e;
  return (e - (rounded - minus_one)) + (-1 - minus_one);
}

// |x|^lost, of a lost exponent: close to 1. 1 for x that are 0 or not finite.
template <class N>
Tensor power_of_lost(const Tensor& x, const N& lost) {
  const Tensor size = abs(x);
  return exp(mul(log(where(logical_and(gt(size, 0), isfinite(size)), size, 1)), lost));
}

// For small |e|, x^(e-1) may be infinite although e x^(e-1) is not. Then dy e is multiplied by its square root twice.
bool may_overflow_alone(double e) { return e != 0 && std::abs(e) < 1 && e < 0.2; }

// boolean counts as int64
DType number_type(DType t) { return t == boolean ? int64 : t; }

// Calls f with a zero of int64, float32 or float64.
template <class F>
void dispatch_number(DType t, const F& f) {
  t == int64 ? f(std::int64_t{}) : dispatch_compute_floating(t, f);
}

}  // namespace

Tensor pow(const Tensor& x, Scalar e) {
  check::defined("pow", "x", x);
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    const DType t = number_type(x.dtype());
    const Tensor from = to_dtype_no_grad(x, t);
    Tensor y = Tensor::empty(x.shape(), t);
    dispatch_number(t, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_floating_point_v<T>)
        if (run_fast_path<T>(y, from, e.value())) return;
      run_with_number<T, T>(y, from, number_as<T>("pow", e), false, power_runs<T>(), pow_grain<T>);
    });
    // dx = dy e x^(e-1)
    return record({"pow", {{"exponent", e.value()}}}, {x}, std::move(y), keep::inputs, [e](Backward& b) {
      const bool wide = b.dy().dtype() == float64;
      const auto as_held = [wide](double v) { return wide ? v : static_cast<double>(static_cast<float>(v)); };
      const double v = as_held(e.value()), exponent = as_held(v - 1);
      const double lost = std::isfinite(v) ? lost_exponent(v, exponent) : 0;
      if (v == 0) return b.give(0, zeros_like(b.dy()));
      const Tensor x = b.x(0), dy = lost == 0 ? b.dy() : mul(b.dy(), power_of_lost(x, lost));
      if (may_overflow_alone(v)) {
        const Tensor root = pow(x, exponent / 2);
        return b.give(0, mul(mul(mul(dy, v), root), root));
      }
      b.give(0, mul(dy, mul(v == 2 ? x : pow(x, exponent), v)));
    });
  });
}

Tensor pow(const Tensor& x, const Tensor& e) {
  check::defined("pow", "x", x, "e", e);
  return with_precision(Precision::float32, {x, e}, [&](const Tensor& x, const Tensor& e) {
    const DType t = number_type(promote(x.dtype(), e.dtype()));
    const Tensor base = to_dtype_no_grad(x, t), exponent = to_dtype_no_grad(e, t);
    Tensor y = empty_broadcast("pow", x, e, t);
    dispatch_number(t, [&](auto zero) {
      using T = decltype(zero);
      run_binary<T, T, T>(y, base, exponent, power_runs<T>(), pow_grain<T>);
    });
    return record("pow", {x, e}, std::move(y), keep::inputs | keep::output, [](Backward& b) {
      const Tensor x = b.x(0).to(b.dy().dtype()), e = b.x(1).to(b.dy().dtype());
      // dx = dy e x^(e-1); 0 for e = 0, even if 1 / x is infinite or NaN
      if (b.wants(0)) {
        const Tensor pole = logical_and(eq(e, 0), logical_not(isfinite(div(1, x))));
        const Tensor halved = logical_and(lt(abs(e), 1), ne(e, 0)), exponent = sub(e, 1);
        const Tensor root = pow(x, where(pole, 0, where(halved, mul(exponent, 0.5), exponent)));
        const Tensor all_lost = lost_exponent(e.detach(), exponent.detach());
        const Tensor lost = masked_fill(all_lost, logical_not(isfinite(all_lost)), 0);  // of infinite exponents
        const Tensor dy = all(eq(lost, 0)).item<bool>() ? b.dy() : mul(b.dy(), power_of_lost(x, lost));
        b.give(0, mul(mul(mul(dy, e), root), where(halved, root, 1)));
      }
      // de = dy y ln x; 0 for x = 0 and e >= 0, where the logarithm is infinite. A y outside the type's range is
      // multiplied as its square root, twice: 2^1024 ln 2 is finite.
      if (!b.wants(1)) return;
      const Tensor y = b.y(), log_x = log(where(logical_and(eq(x, 0), ge(e, 0)), 1, x));
      const Tensor small = lt(abs(y), smallest_normal(y.dtype()));
      const Tensor outside = logical_or(isinf(y), logical_and(ne(y, 0), small));
      Tensor slope = mul(y, log_x);
      if (any(outside).item<bool>()) {
        const Tensor root = pow(x, mul(e, 0.5));
        slope = where(outside, mul(mul(root, log_x), root), slope);
      }
      b.give(1, mul(b.dy(), slope));
    });
  });
}

Tensor pow(Scalar x, const Tensor& e) {
  check::defined("pow", "e", e);
  return with_precision(Precision::float32, {e},
                        [&](const Tensor& e) { return pow(number_of("pow", x, number_type(e.dtype())), e); });
}

}  // namespace fit
