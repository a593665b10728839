#include "kernels/reduce.hpp"

#include <cmath>
#include <limits>

#include "kernels/simd.hpp"
#include "kernels/transpose.hpp"

namespace fit::kernels {
namespace {

using Wide = Vec<double>;
constexpr std::int64_t W = Wide::size;

// Each is a term and a way to combine, on vectors and on single numbers alike.
struct Sum {
  static constexpr double identity = 0;
  template <class V>
  static V term(const V& x, const V&) {
    return x;
  }
  template <class V>
  static V combine(const V& a, const V& b) {
    return a + b;
  }
};
struct Squares : Sum {
  template <class V>
  static V term(const V& x, const V& centre) {
    const V d = x - centre;
    return d * d;
  }
};
struct Exps : Sum {
  template <class V>
  static V term(const V& x, const V& centre) {
    using std::exp;
    using xsimd::exp;
    return exp(x - centre);
  }
};
struct Prod : Sum {
  static constexpr double identity = 1;
  template <class V>
  static V combine(const V& a, const V& b) {
    return a * b;
  }
};
inline double choose(int c, double a, double b) { return c ? a : b; }
template <class V, class B>
V choose(const B& c, const V& a, const V& b) {
  return xsimd::select(c, a, b);
}
// xsimd's != is false for NaN, unlike C++'s.
inline int is_nan(double v) { return v != v; }
template <class V>
auto is_nan(const V& v) {
  return xsimd::isnan(v);
}
struct Max : Sum {
  static constexpr double identity = -std::numeric_limits<double>::infinity();
  template <class V>
  static V combine(const V& a, const V& b) {
    return choose((b > a) | is_nan(b), b, a);
  }
};
struct Min : Sum {
  static constexpr double identity = std::numeric_limits<double>::infinity();
  template <class V>
  static V combine(const V& a, const V& b) {
    return choose((b < a) | is_nan(b), b, a);
  }
};

template <class Op>
double across(const Wide& v) {
  alignas(64) double lane[W];
  v.store_aligned(lane);
  for (std::int64_t half = W / 2; half > 0; half /= 2)
    for (std::int64_t i = 0; i < half; ++i) lane[i] = Op::combine(lane[i], lane[i + half]);
  return lane[0];
}

template <class Op, class T>
double fold_run(const T* x, std::int64_t n, double centre) {
  const Wide c(centre);
  const auto term = [&](std::int64_t i) { return Op::term(load_wide<Wide>(x + i), c); };
  Wide sum[4] = {Wide(Op::identity), Wide(Op::identity), Wide(Op::identity), Wide(Op::identity)};
  std::int64_t i = 0;
  for (; i + 4 * W <= n; i += 4 * W)
    for (int j = 0; j < 4; ++j) sum[j] = Op::combine(sum[j], term(i + j * W));
  for (int j = 0; i + W <= n; i += W, ++j) sum[j] = Op::combine(sum[j], term(i));
  double total = Op::identity;
  if (n >= W) total = across<Op>(Op::combine(Op::combine(sum[0], sum[1]), Op::combine(sum[2], sum[3])));
  for (; i < n; ++i) total = Op::combine(total, Op::term(static_cast<double>(x[i]), centre));
  return total;
}

// Four rows at a time, so that the accumulators are read and written once for four.
template <class Op, class T>
void fold_columns(double* acc, const T* x, const double* centre, std::int64_t n, std::int64_t rows, std::int64_t step) {
  const auto each = [&](auto get, std::int64_t r, auto a, auto c) {
    using V = decltype(a);
    if (rows - r < 4) return Op::combine(a, Op::term(get(x + r * step), c));
    const V t0 = Op::term(get(x + r * step), c), t1 = Op::term(get(x + (r + 1) * step), c),
            t2 = Op::term(get(x + (r + 2) * step), c), t3 = Op::term(get(x + (r + 3) * step), c);
    return Op::combine(a, Op::combine(Op::combine(t0, t1), Op::combine(t2, t3)));
  };
  for (std::int64_t r = 0; r < rows; r += rows - r < 4 ? 1 : 4) {
    std::int64_t k = 0;
    for (; k + W <= n; k += W) {
      const auto get = [k](const T* row) { return load_wide<Wide>(row + k); };
      each(get, r, load<Wide>(acc + k), centre ? load<Wide>(centre + k) : Wide(0.0)).store_unaligned(acc + k);
    }
    for (; k < n; ++k) {
      const auto get = [k](const T* row) { return static_cast<double>(row[k]); };
      acc[k] = each(get, r, acc[k], centre ? centre[k] : 0.0);
    }
  }
}

// Short rows become columns first: a row alone would hardly fill a vector.
constexpr std::int64_t short_row = 32;
template <class Op, class T>
void fold_short_rows(double* acc, const T* x, const double* centre, std::int64_t kept, std::int64_t ks,
                     std::int64_t reduced) {
  constexpr std::int64_t together = 64;
  alignas(64) T columns[short_row * together];
  for (std::int64_t k = 0; k < kept; k += together) {
    const std::int64_t count = kept - k < together ? kept - k : together;
    transpose(count, reduced, x + k * ks, ks, columns, together);
    fold_columns<Op>(acc + k, columns, centre ? centre + k : nullptr, count, reduced, together);
  }
}

template <class Op, class T>
void fold(double* acc, const T* x, const double* centre, std::int64_t kept, std::int64_t ks, std::int64_t reduced,
          std::int64_t rs) {
  if (rs != 1) return fold_columns<Op>(acc, x, centre, kept, reduced, rs);
  if (reduced <= short_row && kept > 1) return fold_short_rows<Op>(acc, x, centre, kept, ks, reduced);
  for (std::int64_t k = 0; k < kept; ++k)
    acc[k] = Op::combine(acc[k], fold_run<Op>(x + k * ks, reduced, centre ? centre[k] : 0.0));
}

template <class T>
std::int64_t find(const T* x, std::int64_t n, T value) {
  using V = Vec<T>;
  std::int64_t i = 0;
  for (; i + static_cast<std::int64_t>(V::size) <= n; i += V::size) {
    const V v = load<V>(x + i);
    if (xsimd::any((v == V(value)) | is_nan(v))) break;
  }
  while (i < n && x[i] != value && x[i] == x[i]) ++i;
  return i;
}

}  // namespace

template <class IsaTag, class T>
const Reduce<T>& reduce_table() {
  static constexpr Reduce<T> table{fold<Sum, T>, fold<Squares, T>, fold<Exps, T>, fold<Prod, T>,
                                   fold<Max, T>, fold<Min, T>,     find<T>};
  return table;
}

template const Reduce<float>& reduce_table<FIT_ISA, float>();
template const Reduce<double>& reduce_table<FIT_ISA, double>();

}  // namespace fit::kernels
