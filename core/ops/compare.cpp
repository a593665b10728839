// Comparisons, logic, isnan, isfinite, isinf, equal, allclose. None of them has a gradient.
#include <algorithm>
#include <cmath>
#include <functional>

#include "ops/elementwise.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

// The same function of pairs for runs, without a kernel. As a pointer: run_binary() is compiled once for all functions.
template <class T, class F>
void compare_runs(bool* z, const T* x, const T* y, std::int64_t n, int sx, int sy) {
  each_pair<bool, T, T>(F())(z, x, y, n, sx, sy);
}

// A comparison of each type.
struct Comparison {
  const char* op;
  kernels::Comparison<float> kernels::Elementwise<float>::*of_float;
  kernels::Comparison<double> kernels::Elementwise<double>::*of_double;
  kernels::Comparison<std::int64_t> of_int64;
  kernels::Comparison<bool> of_boolean;

  template <class T>
  auto on() const {
    if constexpr (std::is_same_v<T, double>)
      return kernels::elementwise<double>().*of_double;
    else if constexpr (is_floating_element<T>)
      return kernels::elementwise<float>().*of_float;
    else if constexpr (std::is_same_v<T, bool>)
      return of_boolean;
    else
      return of_int64;
  }
};

Tensor compare(const Comparison& c, const Tensor& a, const Tensor& b) {
  check::defined(c.op, "a", a, "b", b);
  const DType t = promote(a.dtype(), b.dtype());
  const Tensor x = to_dtype_no_grad(a, t), y = to_dtype_no_grad(b, t);
  Tensor z = Tensor::empty(check::broadcast(c.op, a.shape(), b.shape()), boolean);
  dispatch(t, [&](auto zero) {
    using T = decltype(zero);
    run_binary<bool, T, T>(z, x, y, c.on<T>());
  });
  return z;
}

Tensor compare(const Comparison& c, const Tensor& a, Scalar b) {
  check::defined(c.op, "a", a);
  if (a.dtype() == boolean) return compare(c, to_dtype_no_grad(a, int64), b);  // otherwise 2 would become true
  Tensor z = Tensor::empty(a.shape(), boolean);
  dispatch(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    run_with_number<bool, T>(z, a, number_as<AccT<T>>(c.op, b), false, c.on<T>());
  });
  return z;
}

Tensor combine(const char* op, const Tensor& a, const Tensor& b, kernels::Comparison<bool> f) {
  check::defined(op, "a", a, "b", b);
  const Tensor x = to_dtype_no_grad(a, boolean), y = to_dtype_no_grad(b, boolean);
  Tensor z = Tensor::empty(check::broadcast(op, a.shape(), b.shape()), boolean);
  run_binary<bool, bool, bool>(z, x, y, f);
  return z;
}

template <class F>
Tensor test(const char* op, const Tensor& x, const F& f) {
  check::defined(op, "x", x);
  Tensor y = Tensor::empty(x.shape(), boolean);
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    run_unary<bool, T>(y, x, each_one<bool, T>(f));
  });
  return y;
}

}  // namespace

#define FIT_COMPARISON(name, Functor)                                                                             \
  namespace {                                                                                                     \
  constexpr Comparison name##_of{#name, &kernels::Elementwise<float>::name, &kernels::Elementwise<double>::name,  \
                                 compare_runs<std::int64_t, std::Functor<>>, compare_runs<bool, std::Functor<>>}; \
  }                                                                                                               \
  Tensor name(const Tensor& a, const Tensor& b) { return compare(name##_of, a, b); }                              \
  Tensor name(const Tensor& a, Scalar b) { return compare(name##_of, a, b); }
FIT_COMPARISON(eq, equal_to)
FIT_COMPARISON(ne, not_equal_to)
FIT_COMPARISON(lt, less)
FIT_COMPARISON(le, less_equal)
FIT_COMPARISON(gt, greater)
FIT_COMPARISON(ge, greater_equal)
#undef FIT_COMPARISON

#define FIT_LOGIC(name, Functor) \
  Tensor name(const Tensor& a, const Tensor& b) { return combine(#name, a, b, compare_runs<bool, std::Functor<>>); }
FIT_LOGIC(logical_and, bit_and)
FIT_LOGIC(logical_or, bit_or)
FIT_LOGIC(logical_xor, bit_xor)
#undef FIT_LOGIC

Tensor logical_not(const Tensor& x) {
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

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol) {
  check::defined("allclose", "a", a, "b", b);
  if (a.shape() != b.shape()) return false;
  const Tensor p = to_dtype_no_grad(a, float64), q = to_dtype_no_grad(b, float64);
  const auto x = p.data<double>(), y = q.data<double>();
  return std::equal(x.begin(), x.end(), y.begin(), [&](double v, double w) {
    return v == w || (std::isfinite(w) && std::abs(v - w) <= atol + rtol * std::abs(w));
  });
}

}  // namespace fit
