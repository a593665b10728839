#include "kernels/rows/reduce.hpp"

#include <cmath>
#include <limits>

#include "kernels/simd/math.hpp"
#include "kernels/simd/pack.hpp"
#include "kernels/simd/transpose.hpp"

namespace fit::kernels {
namespace {

using Wide = Vec<double>;
constexpr std::int64_t W = Wide::size;

// Each reduction defines a term and how to combine terms, for vectors and numbers. The term of absent(centre) changes
// nothing.
struct Sum {
  static constexpr double identity = 0;
  static double absent(double) { return 0; }
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
  static double absent(double centre) { return centre; }
  template <class V>
  static V term(const V& x, const V& centre) {
    const V d = x - centre;
    return d * d;
  }
};
struct Exps : Sum {
  static double absent(double) { return -std::numeric_limits<double>::infinity(); }
  template <class V>
  static V term(const V& x, const V& centre) {
    return math::exp_normal(x - centre);
  }
};
struct Prod : Sum {
  static constexpr double identity = 1;
  static double absent(double) { return identity; }
  template <class V>
  static V combine(const V& a, const V& b) {
    return a * b;
  }
};
template <class Mask, class V>
V choose(const Mask& c, const V& a, const V& b) {
  if constexpr (std::is_arithmetic_v<V>)
    return c ? a : b;
  else
    return select(c, a, b);
}
// xsimd's != is false for NaN, unlike C++'s.
template <class V>
auto is_nan(const V& v) {
  if constexpr (std::is_arithmetic_v<V>)
    return int{v != v};  // NOLINT(misc-redundant-expression)
  else
    return isnan(v);
}
struct Max : Sum {
  static constexpr bool chooses = true;
  static constexpr double identity = -std::numeric_limits<double>::infinity();
  static double absent(double) { return identity; }
  template <class V>
  static V combine(const V& a, const V& b) {
    return choose((b > a) | is_nan(b), b, a);
  }
};
struct Min : Sum {
  static constexpr bool chooses = true;
  static constexpr double identity = std::numeric_limits<double>::infinity();
  static double absent(double) { return identity; }
  template <class V>
  static V combine(const V& a, const V& b) {
    return choose((b < a) | is_nan(b), b, a);
  }
};

template <class Op, class T>
double fold_run(const T* x, std::int64_t n, double centre) {
  using E = std::conditional_t<Op::chooses, T, double>;
  using V = Vec<E>;
  const V c(static_cast<E>(centre));
  Accumulators<E, 4> all(static_cast<E>(Op::identity));
  accumulate<E, 4>(n, [&](std::int64_t i, auto access, int j) {
    const V v = load_or<V>(access, x + i, Op::absent(centre));
    if constexpr (std::is_same_v<Op, Squares>)
      all[j] = fma(v - c, v - c, all[j]);
    else
      all[j] = Op::combine(all[j], Op::term(v, c));
  });
  const auto combine = [](const auto& a, const auto& b) { return Op::combine(a, b); };
  return static_cast<double>(all.fold(combine));
}

// Four rows at once, so that the accumulators are read and written once for four rows.
template <class Op, class T>
void fold_columns(double* acc, const T* x, const double* centre, std::int64_t n, std::int64_t rows, std::int64_t step) {
  for (std::int64_t r = 0; r < rows; r += rows - r < 4 ? 1 : 4) {
    const auto each = [&](const auto& get, const Wide& a, const Wide& c) {
      if (rows - r < 4) return Op::combine(a, Op::term(get(x + r * step), c));
      const Wide t0 = Op::term(get(x + r * step), c), t1 = Op::term(get(x + (r + 1) * step), c),
                 t2 = Op::term(get(x + (r + 2) * step), c), t3 = Op::term(get(x + (r + 3) * step), c);
      return Op::combine(a, Op::combine(Op::combine(t0, t1), Op::combine(t2, t3)));
    };
    std::int64_t k = 0;
    for (; k + W <= n; k += W) {
      const auto get = [k](const T* row) { return load_wide<Wide>(row + k); };
      store(each(get, load<Wide>(acc + k), centre ? load<Wide>(centre + k) : Wide(0.0)), acc + k);
    }
    if (k == n) continue;
    const auto get = [k, n](const T* row) { return load_wide_part<Wide>(row + k, n - k); };
    store_part(each(get, load_part<Wide>(acc + k, n - k), centre ? load_part<Wide>(centre + k, n - k) : Wide(0.0)),
               acc + k, n - k);
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

// The compiler vectorises these sums: their order does not matter.
template <class T>
void sum_integers(std::int64_t* acc, const T* x, std::int64_t kept, std::int64_t ks, std::int64_t reduced,
                  std::int64_t rs) {
  using Element = std::conditional_t<std::is_same_v<T, bool>, unsigned char, T>;
  const auto* const from = reinterpret_cast<const Element*>(x);
  const auto added = [](std::uint64_t a, auto b) {
    return static_cast<std::int64_t>(a + static_cast<std::uint64_t>(b));
  };
  if (rs == 1) {
    for (std::int64_t k = 0; k < kept; ++k) {
      std::int64_t total = 0;
      for (std::int64_t i = 0; i < reduced; ++i) total = added(static_cast<std::uint64_t>(total), from[k * ks + i]);
      acc[k] = added(static_cast<std::uint64_t>(acc[k]), total);
    }
  } else {
    for (std::int64_t i = 0; i < reduced; ++i)
      for (std::int64_t k = 0; k < kept; ++k) acc[k] = added(static_cast<std::uint64_t>(acc[k]), from[k + i * rs]);
  }
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

template <class IsaTag, class T>
IntegerSum<T> integer_sum() {
  return sum_integers<T>;
}
template IntegerSum<std::int64_t> integer_sum<FIT_ISA, std::int64_t>();
template IntegerSum<bool> integer_sum<FIT_ISA, bool>();

template <class IsaTag, class T>
Fold<T> floating_sum() {
  return fold<Sum, T>;
}
template Fold<float> floating_sum<FIT_ISA, float>();
template Fold<double> floating_sum<FIT_ISA, double>();
template Fold<BFloat16> floating_sum<FIT_ISA, BFloat16>();

}  // namespace fit::kernels
