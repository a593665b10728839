#include "kernels/rows_softmax.hpp"

#include <cmath>
#include <limits>

#include "kernels/simd/for_each_vector.hpp"
#include "kernels/simd/math.hpp"

namespace fit::kernels {
namespace {

constexpr std::int64_t side_by_side = 256;  // slices at once: their sums fit in the L1 cache

template <class T>
constexpr T lowest = -std::numeric_limits<T>::infinity();

// a if b is NaN.
template <class V>
V larger(const V& a, const V& b) {
  return xsimd::select(b > a, b, a);
}

// Ignores NaN, which returns through e^(NaN - max).
template <class T>
T row_max(const T* x, std::int64_t n) {
  using V = Vec<T>;
  Accumulators<V> m(lowest<T>);
  for_each_vector<V, 4>(n, [&](std::int64_t i, auto a, int j) {
    const V v = a.template load<V>(x + i, lowest<T>);
    m.at[j] = larger(m.at[j], v);
  });
  return m.max();
}

// Sum of e^(x - max); if Store, the terms are stored in y. Long rows are summed in blocks, and the blocks in double.
template <bool Store, class T>
T row_exps(T* y, const T* x, std::int64_t n, T max) {
  using V = Vec<T>;
  constexpr std::int64_t block = 2048;
  double total = 0;
  for (std::int64_t at = 0; at < n; at += block) {
    Accumulators<V> sum(T(0));
    for_each_vector<V>(n - at < block ? n - at : block, [&](std::int64_t i, auto a, int j) {
      __builtin_prefetch(x + n + at + i);  // the next slice; harmless past the last one
      const V e = math::exp_normal(a.template load<V>(x + at + i, lowest<T>) - V(max));
      if constexpr (Store) a.store(e, y + at + i);
      sum.at[j] += e;
    });
    total += static_cast<double>(sum.sum());
  }
  return static_cast<T>(total);
}

template <class T>
void max_and_sum(const T* x, std::int64_t n, T& max, T& sum) {
  max = row_max(x, n);
  sum = row_exps<false>(static_cast<T*>(nullptr), x, n, max);
}

template <class T>
void scaled_exp(T* y, const T* x, std::int64_t n, T max, T scale) {
  using V = Vec<T>;
  for_each_vector<V>(n, [&](std::int64_t i, auto a, int) {
    a.store(math::exp_normal(a.template load<V>(x + i, T(0)) - V(max)) * V(scale), y + i);
  });
}

// Calls body(first, count) for groups of slices side by side.
template <class Body>
void by_groups(std::int64_t slices, const Body& body) {
  for (std::int64_t first = 0; first < slices; first += side_by_side)
    body(first, slices - first < side_by_side ? slices - first : side_by_side);
}

// Calls f(i, access, offset) for the vectors across `count` slices, for one element of all slices after another.
template <class V, class F>
void across_slices(std::int64_t count, std::int64_t n, std::int64_t stride, const F& f) {
  for (std::int64_t r = 0; r < n; ++r)
    for_each_vector<V>(count, [&](std::int64_t i, auto a, int) { f(i, a, r * stride + i); });
}

template <class T, std::size_t N>
void fill(T (&p)[N], T value) {
  for (T& v : p) v = value;
}

// Softmax of slices side by side, or log_softmax if Log.
template <bool Log, class T>
void softmax_across(T* y, const T* x, std::int64_t slices, std::int64_t n, std::int64_t stride) {
  using V = Vec<T>;
  by_groups(slices, [&](std::int64_t first, std::int64_t count) {
    T max[side_by_side], sum[side_by_side];  // of each slice: the maximum, and the sum of e^(x - max)
    fill(max, lowest<T>);
    fill(sum, T(0));
    T* const to = y + first;
    const T* const from = x + first;
    across_slices<V>(count, n, stride, [&](std::int64_t i, auto a, std::int64_t at) {
      larger(load<V>(max + i), a.template load<V>(from + at, T(0))).store_unaligned(max + i);
    });
    across_slices<V>(count, n, stride, [&](std::int64_t i, auto a, std::int64_t at) {
      const V e = math::exp_normal(a.template load<V>(from + at, T(0)) - load<V>(max + i));
      a.store(e, to + at);
      (load<V>(sum + i) + e).store_unaligned(sum + i);
    });
    for (T& s : sum) s = Log ? std::log(s) : T(1) / s;
    across_slices<V>(count, n, stride, [&](std::int64_t i, auto a, std::int64_t at) {
      if constexpr (Log)
        a.store(a.template load<V>(from + at, T(0)) - load<V>(max + i) - load<V>(sum + i), to + at);
      else
        a.store(a.template load<V>(to + at, T(0)) * load<V>(sum + i), to + at);
    });
  });
}

template <class T>
void softmax(T* y, const T* x, std::int64_t slices, std::int64_t n, std::int64_t stride, bool nontemporal) {
  using V = Vec<T>;
  if (stride != 1) return softmax_across<false>(y, x, slices, n, stride);
  constexpr std::int64_t size = 4096;
  alignas(64) T buffer[size];  // buffer for the terms of a slice if y bypasses the cache
  for (std::int64_t l = 0; l < slices; ++l, x += n, y += n) {
    T* const terms = nontemporal && n <= size ? buffer : y;
    const V scale(T(1) / row_exps<true>(terms, x, n, row_max(x, n)));
    for_each_vector_nontemporal<V>(terms == buffer, n, [&](std::int64_t i, auto a, int) {
      a.store(a.template load<V>(terms + i, T(0)) * scale, y + i);
    });
  }
  if (nontemporal) fence_nontemporal_stores();
}

template <class T>
void log_softmax(T* y, const T* x, std::int64_t slices, std::int64_t n, std::int64_t stride, bool nontemporal) {
  using V = Vec<T>;
  if (stride != 1) return softmax_across<true>(y, x, slices, n, stride);
  for (std::int64_t l = 0; l < slices; ++l, x += n, y += n) {
    T max, sum;
    max_and_sum(x, n, max, sum);
    const V m(max), log_sum(std::log(sum));
    for_each_vector_nontemporal<V>(nontemporal, n, [&](std::int64_t i, auto a, int) {
      a.store(a.template load<V>(x + i, T(0)) - m - log_sum, y + i);
    });
  }
  if (nontemporal) fence_nontemporal_stores();
}

// The two adjoints: dx = result(y, dy, sum(term(y, dy))).
struct Softmax {
  template <class V>
  static V term(const V& y, const V& dy) {
    return y * dy;
  }
  template <class V>
  static V result(const V& y, const V& dy, const V& sum) {
    return y * (dy - sum);
  }
};
struct LogSoftmax {
  template <class V>
  static V term(const V&, const V& dy) {
    return dy;
  }
  template <class V>
  static V result(const V& y, const V& dy, const V& sum) {
    return dy - math::exp_normal(y) * sum;
  }
};

template <class Op, class T>
void backward(T* dx, const T* y, const T* dy, std::int64_t slices, std::int64_t n, std::int64_t stride,
              bool nontemporal) {
  using V = Vec<T>;
  if (stride == 1) {
    for (std::int64_t l = 0; l < slices; ++l, dx += n, y += n, dy += n) {
      Accumulators<V> sums(T(0));
      for_each_vector<V, 4>(n, [&](std::int64_t i, auto a, int j) {
        sums.at[j] += Op::term(a.template load<V>(y + i, T(0)), a.template load<V>(dy + i, T(0)));
      });
      const V sum(sums.sum());
      for_each_vector_nontemporal<V>(nontemporal, n, [&](std::int64_t i, auto a, int) {
        a.store(Op::result(a.template load<V>(y + i, T(0)), a.template load<V>(dy + i, T(0)), sum), dx + i);
      });
    }
    if (nontemporal) fence_nontemporal_stores();
    return;
  }
  by_groups(slices, [&](std::int64_t first, std::int64_t count) {
    T sum[side_by_side];
    fill(sum, T(0));
    T* const to = dx + first;
    const T *const py = y + first, *const pdy = dy + first;
    across_slices<V>(count, n, stride, [&](std::int64_t i, auto a, std::int64_t at) {
      const V t = Op::term(a.template load<V>(py + at, T(0)), a.template load<V>(pdy + at, T(0)));
      (load<V>(sum + i) + t).store_unaligned(sum + i);
    });
    across_slices<V>(count, n, stride, [&](std::int64_t i, auto a, std::int64_t at) {
      const V v = a.template load<V>(py + at, T(0)), dv = a.template load<V>(pdy + at, T(0));
      a.store(Op::result(v, dv, load<V>(sum + i)), to + at);
    });
  });
}

}  // namespace

template <class IsaTag, class T>
const SoftmaxRows<T>& softmax_table() {
  static constexpr SoftmaxRows<T> table{softmax<T>,     log_softmax<T>, backward<Softmax, T>, backward<LogSoftmax, T>,
                                        max_and_sum<T>, scaled_exp<T>};
  return table;
}

template const SoftmaxRows<float>& softmax_table<FIT_ISA, float>();
template const SoftmaxRows<double>& softmax_table<FIT_ISA, double>();

}  // namespace fit::kernels
