#include "kernels/elementwise.hpp"

#include "kernels/map.hpp"
#include "kernels/math.hpp"

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
// x if it is NaN, and y, which no comparison chooses against, if that is.
// (xsimd's != is false for NaN, unlike C++'s.)
FIT_BINARY(Maximum, xsimd::select(x > y || xsimd::isnan(x), x, y))
FIT_BINARY(Minimum, xsimd::select(x < y || xsimd::isnan(x), x, y))
#undef FIT_BINARY

#define FIT_UNARY(Name, formula) \
  struct Name {                  \
    template <class V>           \
    static V f(const V& x) {     \
      return formula;            \
    }                            \
  };
FIT_UNARY(Neg, V(-0.) - x)  // -0 where x is 0, which 0 - x is not
FIT_UNARY(Exp, math::exp(x))
FIT_UNARY(Log, math::log(x))
FIT_UNARY(Log1p, xsimd::log1p(x))
FIT_UNARY(Sqrt, xsimd::sqrt(x))
FIT_UNARY(Rsqrt, V(1) / xsimd::sqrt(x))
FIT_UNARY(Sin, xsimd::sin(x))
FIT_UNARY(Cos, xsimd::cos(x))
FIT_UNARY(Erf, math::erf(x))
#undef FIT_UNARY

template <class Op, class T>
void unary(T* y, const T* x, std::int64_t n) {
  using V = Vec<T>;
  map(
      y, n, [](const V& v) { return Op::f(v); }, x);
}

template <class Op, class T>
void binary(T* z, const T* x, const T* y, std::int64_t n, int sx, int sy) {
  using V = Vec<T>;
  if (sx && sy)
    map(
        z, n, [](const V& a, const V& b) { return Op::f(a, b); }, x, y);
  else if (sx)
    map(
        z, n, [b = V(*y)](const V& a) { return Op::f(a, b); }, x);
  else if (sy)
    map(
        z, n, [a = V(*x)](const V& b) { return Op::f(a, b); }, y);
  else
    map(z, n, [c = Op::f(V(*x), V(*y))] { return c; });
}

}  // namespace

template <class IsaTag, class T>
const Elementwise<T>& elementwise_table() {
#define X(name, Op) binary<Op, T>,
#define Y(name, Op) unary<Op, T>,
  static constexpr Elementwise<T> table{FIT_BINARY_KERNELS(X) FIT_UNARY_KERNELS(Y)};
#undef X
#undef Y
  return table;
}

template const Elementwise<float>& elementwise_table<FIT_ISA, float>();
template const Elementwise<double>& elementwise_table<FIT_ISA, double>();

}  // namespace fit::kernels
