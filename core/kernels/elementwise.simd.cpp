#include "kernels/elementwise.hpp"

#include <algorithm>
#include <limits>

#include "kernels/simd/for_each_vector.hpp"
#include "kernels/simd/pow.hpp"
#include "kernels/simd/quotient.hpp"
#include "kernels/simd/transform.hpp"

namespace fit::kernels {
namespace {

#define FIT_BINARY(Name, formula)        \
  struct Name {                          \
    template <class V>                   \
    static V f(const V& x, const V& y) { \
      return formula;                    \
    }                                    \
  };
FIT_BINARY(Add, x + y)
FIT_BINARY(Sub, x - y)
FIT_BINARY(Mul, (x * y))
FIT_BINARY(Div, x / y)
// NaN if x or y is NaN: x is tested, and if y is NaN, x > y is false and y is taken. (xsimd's != is false for NaN,
// unlike C++'s.)
FIT_BINARY(Maximum, xsimd::select(x > y || xsimd::isnan(x), x, y))
FIT_BINARY(Minimum, xsimd::select(x < y || xsimd::isnan(x), x, y))
FIT_BINARY(Pow, math::pow(x, y))
FIT_BINARY(Fmod, math::fmod(x, y))
FIT_BINARY(Remainder, math::remainder(x, y))
FIT_BINARY(FloorDivide, math::floor_divide(x, y))
#undef FIT_BINARY

template <class T>
void neg(T* y, const T* x, std::int64_t n) {
  using V = Vec<T>;
  transform(
      y, n, [](const V& v) { return V(-0.) - v; }, x);  // gives -0 for x = 0, unlike 0 - x
}

// C's pow takes the size of -inf and of -0 to a power that is not whole.
template <class V>
V base_of_root(const V& x) {
  constexpr auto infinity = std::numeric_limits<typename V::value_type>::infinity();
  return xsimd::select(x == V(-infinity), V(infinity), x + V(0));
}
template <class T>
void sqrt_as_pow(T* y, const T* x, std::int64_t n) {
  transform(
      y, n, [](const Vec<T>& v) { return xsimd::sqrt(base_of_root(v)); }, x);
}
template <class T>
void rsqrt_as_pow(T* y, const T* x, std::int64_t n) {
  transform(
      y, n, [](const Vec<T>& v) { return Vec<T>(1) / xsimd::sqrt(base_of_root(v)); }, x);
}

template <class Op, class T>
void binary(T* z, const T* x, const T* y, std::int64_t n, int sx, int sy) {
  using V = Vec<T>;
  if (sx && sy)
    transform(
        z, n, [](const V& a, const V& b) { return Op::f(a, b); }, x, y);
  else if (sx)
    transform(
        z, n, [b = V(*y)](const V& a) { return Op::f(a, b); }, x);
  else if (sy)
    transform(
        z, n, [a = V(*x)](const V& b) { return Op::f(a, b); }, y);
  else
    transform(z, n, [c = Op::f(V(*x), V(*y))] { return c; });
}

// The same in less code: a single number becomes a block of it.
template <class Op, class T>
void quotient(T* z, const T* x, const T* y, std::int64_t n, int sx, int sy) {
  using V = Vec<T>;
  constexpr std::int64_t block = 256;
  T left[block], right[block];
  if (!sx) std::fill_n(left, n < block ? n : block, *x);
  if (!sy) std::fill_n(right, n < block ? n : block, *y);
  const std::int64_t together = sx && sy ? n : block;
  for (std::int64_t i = 0; i < n; i += together)
    transform(
        z + i, n - i < together ? n - i : together, [](const V& a, const V& b) { return Op::f(a, b); },
        sx ? x + i : left, sy ? y + i : right);
}

template <class Op, class T>
void compare(bool* z, const T* x, const T* y, std::int64_t n, int sx, int sy) {
  // The compiler vectorises loops with strides known at compile time.
  if (sx && sy)
    for (std::int64_t i = 0; i < n; ++i) z[i] = Op::f(x[i], y[i]);
  else if (sx)
    for (std::int64_t i = 0; i < n; ++i) z[i] = Op::f(x[i], *y);
  else if (sy)
    for (std::int64_t i = 0; i < n; ++i) z[i] = Op::f(*x, y[i]);
  else
    std::fill_n(z, n, Op::f(*x, *y));
}

template <class T>
void clamp(T* y, const T* x, std::int64_t n, T low, T high) {
  using V = Vec<T>;
  transform(
      y, n,
      [low = V(low), high = V(high)](const V& v) {
        return xsimd::select(v < low, low, xsimd::select(v > high, high, v));
      },
      x);
}

#define X(name, op)           \
  struct Compare_##name {     \
    template <class T>        \
    static bool f(T x, T y) { \
      return x op y;          \
    }                         \
  };
FIT_COMPARISON_KERNELS(X)
#undef X

}  // namespace

template <class IsaTag, class T>
const Elementwise<T>& elementwise_table() {
#define X(name, Op) binary<Op, T>,
#define Y(name, Op) quotient<Op, T>,
#define Z(name, op) compare<Compare_##name, T>,
  static constexpr Elementwise<T> table{FIT_BINARY_KERNELS(X) FIT_QUOTIENT_KERNELS(Y) neg<T>, sqrt_as_pow<T>,
                                        rsqrt_as_pow<T>, FIT_COMPARISON_KERNELS(Z) clamp<T>};
#undef X
#undef Y
#undef Z
  return table;
}

template const Elementwise<float>& elementwise_table<FIT_ISA, float>();
template const Elementwise<double>& elementwise_table<FIT_ISA, double>();

}  // namespace fit::kernels
