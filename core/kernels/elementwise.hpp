#pragma once
#include <cstdint>

#include "kernels/simd/isa.hpp"

// Elementwise kernels on contiguous memory, float and double. Errors in units in the last place: add, sub, mul and div
// 1/2, pow, sqrt_as_pow and rsqrt_as_pow 1, remainder 1/2, neg, maximum, minimum and fmod 0. Comparisons and clamp are
// exact. Unary functions: functions.hpp.
namespace fit::kernels {

// z[i] = f(x[sx i], y[sy i]) for i < n. sx and sy are 1, or 0 for a single number. z may be x or y.
template <class T>
using Binary = void (*)(T* z, const T* x, const T* y, std::int64_t n, int sx, int sy);

// y[i] = f(x[i]). y may be x.
template <class T>
using Unary = void (*)(T* y, const T* x, std::int64_t n);

// z[i] = the comparison of x[sx i] and y[sy i], as in C++ for NaN.
template <class T>
using Comparison = void (*)(bool* z, const T* x, const T* y, std::int64_t n, int sx, int sy);

#define FIT_BINARY_KERNELS(X) \
  X(add, Add) X(sub, Sub) X(mul, Mul) X(div, Div) X(maximum, Maximum) X(minimum, Minimum) X(pow, Pow)
#define FIT_QUOTIENT_KERNELS(X) X(fmod, Fmod) X(remainder, Remainder) X(floor_divide, FloorDivide)
#define FIT_COMPARISON_KERNELS(X) X(eq, ==) X(ne, !=) X(lt, <) X(le, <=) X(gt, >) X(ge, >=)

template <class T>
struct Elementwise {
#define X(name, Op) Binary<T> name;
  FIT_BINARY_KERNELS(X)
  FIT_QUOTIENT_KERNELS(X)
#undef X
  Unary<T> neg;
  Unary<T> sqrt_as_pow, rsqrt_as_pow;  // x^0.5 and x^-0.5: unlike sqrt, inf and 0 for -inf, and without -0
#define X(name, op) Comparison<T> name;
  FIT_COMPARISON_KERNELS(X)
#undef X
  // y[i] = min(max(x[i], low), high); NaN stays. y may be x.
  void (*clamp)(T* y, const T* x, std::int64_t n, T low, T high);
};

template <class IsaTag, class T>
const Elementwise<T>& elementwise_table();

template <class T>
const Elementwise<T>& elementwise() {
  return FIT_KERNELS(elementwise_table, T);
}

}  // namespace fit::kernels
