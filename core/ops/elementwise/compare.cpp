// Comparisons, logic, isnan, isfinite, isinf, equal, allclose, isclose. None of them has a gradient.
#include <algorithm>
#include <cmath>
#include <functional>

#include "ops/elementwise/elementwise.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

using detail::unrecorded;

// The function that compares runs of T: a kernel for floating types, otherwise f.
template <class T, class Kernel, class F>
auto comparing(const Kernel& kernel, const F& f) {
  if constexpr (is_floating_element<T>)
    return kernel(kernels::elementwise<AccT<T>>());
  else
    return each_pair<bool, T, T>(f);
}

template <class Kernel, class F>
Tensor compare(const char* op, const Tensor& a, const Tensor& b, const Kernel& kernel, const F& f) {
  check::defined(op, "a", a, "b", b);
  const DType t = promote(a.dtype(), b.dtype());
  const Tensor x = to_dtype_no_grad(a, t), y = to_dtype_no_grad(b, t);
  Tensor z = empty_broadcast(op, a, b, boolean);
  dispatch(t, [&](auto zero) {
    using T = decltype(zero);
    run_binary<bool, T, T>(z, x, y, comparing<T>(kernel, f));
  });
  return z;
}

// Integers and a number that int64 does not have. All integers on one side of it compare alike.
template <class F>
Tensor compare_fraction(const Tensor& a, double b, const F& f) {
  if (!(std::abs(b) < 0x1p63)) return full(a.shape(), f(0., b), boolean);  // all are on one side, or b is NaN
  const bool below = f(std::floor(b), b), above = f(std::ceil(b), b);
  if (below == above) return full(a.shape(), below, boolean);
  return below ? le(a, std::floor(b)) : gt(a, std::floor(b));
}

template <class Kernel, class F>
Tensor compare(const char* op, const Tensor& a, Scalar b, const Kernel& kernel, const F& f) {
  check::defined(op, "a", a);
  if (a.dtype() == boolean)
    return compare(op, to_dtype_no_grad(a, int64), b, kernel, f);  // otherwise 2 would become true
  if (a.dtype() == int64 && !b.is_integer()) return compare_fraction(a, b.value(), f);
  Tensor z = Tensor::empty(a.shape(), boolean);
  dispatch(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    run_with_number<bool, T>(z, a, number_as<AccT<T>>(op, b), false, comparing<T>(kernel, f));
  });
  return z;
}

template <class F>
Tensor combine(const char* op, const Tensor& a, const Tensor& b, const F& f) {
  check::defined(op, "a", a, "b", b);
  const Tensor x = to_dtype_no_grad(a, boolean), y = to_dtype_no_grad(b, boolean);
  Tensor z = empty_broadcast(op, a, b, boolean);
  run_binary<bool, bool, bool>(z, x, y, each_pair<bool, bool, bool>(f));
  return unrecorded(op, {a, b}, std::move(z));
}

template <class F>
Tensor test(const char* op, const Tensor& x, const F& f) {
  check::defined(op, "x", x);
  Tensor y = Tensor::empty(x.shape(), boolean);
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    run_unary<bool, T>(y, x, each_one<bool, T>(f));
  });
  return unrecorded(op, {x}, std::move(y));
}

}  // namespace

#define FIT_COMPARISON(name, Functor)                                                 \
  Tensor name(const Tensor& a, const Tensor& b) {                                     \
    const auto kernel = [](const auto& k) { return k.name; };                         \
    return unrecorded(#name, {a, b}, compare(#name, a, b, kernel, std::Functor<>())); \
  }                                                                                   \
  Tensor name(const Tensor& a, Scalar b) {                                            \
    const auto kernel = [](const auto& k) { return k.name; };                         \
    return unrecorded(#name, {a}, compare(#name, a, b, kernel, std::Functor<>()));    \
  }
FIT_COMPARISON(eq, equal_to)
FIT_COMPARISON(ne, not_equal_to)
FIT_COMPARISON(lt, less)
FIT_COMPARISON(le, less_equal)
FIT_COMPARISON(gt, greater)
FIT_COMPARISON(ge, greater_equal)
#undef FIT_COMPARISON

#define FIT_LOGIC(name, Functor) \
  Tensor name(const Tensor& a, const Tensor& b) { return combine(#name, a, b, std::Functor<>()); }
FIT_LOGIC(logical_and, bit_and)
FIT_LOGIC(logical_or, bit_or)
FIT_LOGIC(logical_xor, bit_xor)
#undef FIT_LOGIC

Tensor logical_not(const Tensor& x) {
  check::defined("logical_not", "x", x);
  if (x.dtype() == boolean) return combine("logical_not", x, full({}, true, boolean), std::bit_xor<>());
  return test("logical_not", x, [](auto v) { return v == 0; });
}

Tensor isnan(const Tensor& x) {
  return test("isnan", x, [](auto v) { return v != v; });
}
Tensor isfinite(const Tensor& x) {
  return test("isfinite", x, [](auto v) { return v - v == 0; });  // infinity - infinity is NaN
}
Tensor isinf(const Tensor& x) {
  return test("isinf", x, [](auto v) { return v - v != 0 && v == v; });
}

bool equal(const Tensor& a, const Tensor& b) {
  check::stored("equal", "a", a), check::stored("equal", "b", b);
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  bool same = false;
  dispatch_stored(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto x = a.data<T>(), y = b.data<T>();
    same = std::equal(x.begin(), x.end(), y.begin());
  });
  return same;
}

namespace {

/// |a - b| without overflow, rounded once.
double distance(std::int64_t a, std::int64_t b) {
  const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
  return static_cast<double>(a < b ? y - x : x - y);
}
double distance(double a, double b) { return std::abs(a - b); }

/// Calls f(x, y, close) for a and b in one type, float64 or int64. close(v, w) is the rule for two elements.
template <class F>
auto with_closeness(const Tensor& a, const Tensor& b, double rtol, double atol, const F& f) {
  const auto close = [rtol, atol](auto v, auto w) {
    const double size = std::abs(static_cast<double>(w));
    return v == w || (std::isfinite(size) && distance(v, w) <= atol + rtol * size);
  };
  if (is_floating(promote(a.dtype(), b.dtype())))
    return f(to_dtype_no_grad(a, float64), to_dtype_no_grad(b, float64), close, double{});
  return f(to_dtype_no_grad(a, int64), to_dtype_no_grad(b, int64), close, std::int64_t{});
}

}  // namespace

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol) {
  check::defined("allclose", "a", a, "b", b);
  if (a.shape() != b.shape()) return false;
  return with_closeness(a, b, rtol, atol, [](const Tensor& p, const Tensor& q, const auto& close, auto zero) {
    using T = decltype(zero);
    const auto x = p.data<T>(), y = q.data<T>();
    return std::equal(x.begin(), x.end(), y.begin(), close);
  });
}

Tensor isclose(const Tensor& a, const Tensor& b, double rtol, double atol) {
  check::defined("isclose", "a", a, "b", b);
  Tensor z = empty_broadcast("isclose", a, b, boolean);
  with_closeness(a, b, rtol, atol, [&](const Tensor& p, const Tensor& q, const auto& close, auto zero) {
    using T = decltype(zero);
    run_binary<bool, T, T>(z, p, q, each_pair<bool, T, T>(close));
  });
  return unrecorded("isclose", {a, b}, std::move(z));
}

}  // namespace fit
