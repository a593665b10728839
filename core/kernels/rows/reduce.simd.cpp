#include "kernels/rows/reduce.hpp"

#include <cmath>
#include <limits>

#include "kernels/simd/simd.hpp"
#include "kernels/simd/transpose.hpp"

namespace fit::kernels {
namespace {

using Wide = Vec<double>;
constexpr std::int64_t W = Wide::size;

// Each reduction defines a term and how to combine terms, for vectors and numbers.
struct Sum {
  static constexpr double identity = 0;
  static constexpr bool chooses = false;  // selects one of the numbers, so they need no conversion to double
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
template <class T>
std::enable_if_t<std::is_arithmetic_v<T>, T> choose(int c, T a, T b) {
  return c ? a : b;
}
template <class T, class A>
xsimd::batch<T, A> choose(const xsimd::batch_bool<T, A>& c, const xsimd::batch<T, A>& a, const xsimd::batch<T, A>& b) {
  return xsimd::select(c, a, b);
}
// xsimd's != is false for NaN, unlike C++'s.
template <class T>
std::enable_if_t<std::is_arithmetic_v<T>, int> is_nan(T v) {
  return v != v;  // NOLINT(misc-redundant-expression)
}
template <class T, class A>
auto is_nan(const xsimd::batch<T, A>& v) {
  return xsimd::isnan(v);
}
struct Max : Sum {
  static constexpr bool chooses = true;
  static constexpr double identity = -std::numeric_limits<double>::infinity();
  template <class V>
  static V combine(const V& a, const V& b) {
    return choose((b > a) | is_nan(b), b, a);
  }
};
struct Min : Sum {
  static constexpr bool chooses = true;
  static constexpr double identity = std::numeric_limits<double>::infinity();
  template <class V>
  static V combine(const V& a, const V& b) {
    return choose((b < a) | is_nan(b), b, a);
  }
};

template <class Op, class V>
auto across(const V& v) {
  alignas(64) typename V::value_type lane[V::size];
  v.store_aligned(lane);
  for (std::size_t half = V::size / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lane[i] = Op::combine(lane[i], lane[i + half]);
  return lane[0];
}

template <class Op, class T>
double fold_run(const T* x, std::int64_t n, double centre) {
  using V = std::conditional_t<Op::chooses, Vec<T>, Wide>;
  using E = typename V::value_type;
  constexpr std::int64_t size = V::size;
  const V c(static_cast<E>(centre)), start(static_cast<E>(Op::identity));
  const auto term = [&](std::int64_t i) {
    if constexpr (Op::chooses)
      return load<V>(x + i);
    else
      return Op::term(load_wide<V>(x + i), c);
  };
  V sum[4] = {start, start, start, start};
  std::int64_t i = 0;
  for (; i + 4 * size <= n; i += 4 * size)
    for (int j = 0; j < 4; ++j) sum[j] = Op::combine(sum[j], term(i + j * size));
  for (int j = 0; i + size <= n; i += size, ++j) sum[j] = Op::combine(sum[j], term(i));
  double total = Op::identity;
  if (n >= size)
    total = static_cast<double>(across<Op>(Op::combine(Op::combine(sum[0], sum[1]), Op::combine(sum[2], sum[3]))));
  for (; i < n; ++i) total = Op::combine(total, Op::term(static_cast<double>(x[i]), centre));
  return total;
}

// Four rows at once, so that the accumulators are read and written once for four rows.
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

// Transposes short rows to columns first: a row would not fill a vector.
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
  if (reduced <= short_row) return fold_short_rows<Op>(acc, x, centre, kept, ks, reduced);
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
  while (i < n && x[i] != value && !is_nan(x[i])) ++i;
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
