#include "kernels/rows/rows_softmax.hpp"

#include <cmath>
#include <limits>

#include "kernels/simd/math.hpp"
#include "kernels/simd/pack.hpp"
#include "kernels/simd/transform.hpp"

namespace fit::kernels {
namespace {

constexpr std::int64_t side_by_side = 256;  // slices at once: their sums fit in the L1 cache

template <class T>
constexpr T lowest = -std::numeric_limits<T>::infinity();

// a if b is NaN.
template <class V>
V larger(const V& a, const V& b) {
  return select(b > a, b, a);
}

// Ignores NaN, which returns through e^(NaN - max).
template <class T>
T row_max(const T* x, std::int64_t n) {
  using V = Vec<T>;
  Accumulators<T> m(lowest<T>);
  accumulate<T, 4>(n, [&](std::int64_t i, auto a, int j) {
    const V v = a.template load<V>(x + i, lowest<T>);
    m[j] = larger(m[j], v);
  });
  return m.max();
}

// Fetches the slice after x [n], line by line, while x is read; past the last slice this is harmless. A long slice is
// fetched in several streams (memory_streams).
template <class T>
class NextSlice {
 public:
  NextSlice(const T* x, std::int64_t n) : next_(x + n) {
    constexpr std::int64_t shortest = 32 << 10, longest = 512 << 10;  // bytes
    const auto bytes = n * static_cast<std::int64_t>(sizeof(T));
    if (bytes < shortest || bytes > longest) return;
    shift_ = __builtin_ctz(static_cast<unsigned>(memory_streams));
    lines_ = (n / line >> shift_) + 1;
  }
  // What corresponds to the line of x[i].
  void fetch(std::int64_t i) const {
    const std::int64_t l = i / line, stream = l & ((1 << shift_) - 1);
    __builtin_prefetch(next_ + (stream * lines_ + (l >> shift_)) * line);
  }

 private:
  static constexpr std::int64_t line = cache_line / static_cast<std::int64_t>(sizeof(T));
  const T* next_;
  int shift_ = 0;           // 2^shift streams
  std::int64_t lines_ = 0;  // of each stream
};

// The sum of e^(x - max) without the 1 of one maximum; if Store, all terms are stored in y. Long rows are summed in
// blocks, and the blocks in double.
template <bool Store, class T>
double rest_of_exps(T* y, const T* x, std::int64_t n, T max) {
  using V = Vec<T>;
  constexpr std::int64_t block = 2048;
  const NextSlice<T> next(x, n);
  double total = 0, maxima = 0;
  for (std::int64_t at = 0; at < n; at += block) {
    Accumulators<T, 1> sum(T(0)), ones(T(0));
    accumulate<T, 1>(n - at < block ? n - at : block, [&](std::int64_t i, auto a, int j) {
      next.fetch(at + i);
      const V d = a.template load<V>(x + at + i, lowest<T>) - V(max), e = math::exp_limited(d);
      if constexpr (Store) a.store(e, y + at + i);
      const auto largest = d == V(T(0));
      if (any(largest)) {  // seldom
        ones[j] += select(largest, V(T(1)), V(T(0)));
        sum[j] += select(largest, V(T(0)), e);
      } else {
        sum[j] += e;
      }
    });
    total += static_cast<double>(sum.sum());
    maxima += static_cast<double>(ones.sum());
  }
  return total + (maxima - 1);
}

template <class T>
void max_and_rest(const T* x, std::int64_t n, T& max, T& rest) {
  max = row_max(x, n);
  rest = static_cast<T>(rest_of_exps<false>(static_cast<T*>(nullptr), x, n, max));
}

template <class T>
void scaled_exp(T* y, const T* x, std::int64_t n, T max, T scale, bool nontemporal) {
  using V = Vec<T>;
  const NextSlice<T> next(x, n);
  for_each_vector_nontemporal<V>(nontemporal, y, n, [&](std::int64_t i, auto a) {
    next.fetch(i);
    a.store(math::exp_limited(a.template load<V>(x + i, T(0)) - V(max)) * V(scale), y + i);
  });
  if (nontemporal) fence_nontemporal_stores();
}

template <class T>
void add_log1p(T* y, const T* x, std::int64_t n) {
  transform(
      y, n, [](const Vec<T>& a, const Vec<T>& b) { return a + math::log1p(b); }, y, x);
}

template <class T>
T exp_number(T x) {
  return math::exp(Vec<T>(x)).get(0);
}
template <class T>
T log_number(T x) {
  return math::log(Vec<T>(x)).get(0);
}
template <class T>
T log1p_number(T x) {
  return math::log1p(x);
}

// Calls body(first, count) for groups of slices side by side.
template <class Body>
void by_groups(std::int64_t slices, const Body& body) {
  for (std::int64_t first = 0; first < slices; first += side_by_side)
    body(first, slices - first < side_by_side ? slices - first : side_by_side);
}

template <class T, std::size_t N>
void fill(T (&p)[N], T value) {
  for (T& v : p) v = value;
}

// Sums of slices side by side. A chain of many additions would lose digits: those of `block` elements are added in
// double, by one copy of that code.
template <class T>
class SliceSums {
 public:
  using V = Vec<T>;
  static constexpr std::int64_t block = 128;
  SliceSums() { fill(part_, T(0)); }
  V at(std::int64_t i) const { return load<V>(part_ + i); }
  void add(std::int64_t i, const V& v) { store(at(i) + v, part_ + i); }
  [[gnu::noinline]] void end_block() {
    if (!in_blocks_) fill(total_, 0.0);
    in_blocks_ = true;
    for (std::int64_t i = 0; i < side_by_side; ++i) total_[i] += static_cast<double>(part_[i]);
    fill(part_, T(0));
  }
  [[gnu::noinline]] void end() {
    if (!in_blocks_) return;
    end_block();
    for (std::int64_t i = 0; i < side_by_side; ++i) part_[i] = static_cast<T>(total_[i]);
  }

 private:
  T part_[side_by_side];
  double total_[side_by_side];
  bool in_blocks_ = false;
};

// Calls f(i, access, offset) for the vectors across `count` slices, for one element of all slices after another. f adds
// to the sums.
template <class V, class F, class... Sums>
void across_slices(std::int64_t count, std::int64_t n, std::int64_t stride, const F& f, Sums&... sums) {
  for (std::int64_t r = 0; r < n; ++r) {
    for_each_vector<V>(count, [&](std::int64_t i, auto a) { f(i, a, r * stride + i); });
    if constexpr (sizeof...(Sums) > 0)
      if ((r + 1) % SliceSums<typename V::value_type>::block == 0) (sums.end_block(), ...);
  }
  (sums.end(), ...);
}

// Softmax of slices side by side, or log_softmax if Log.
template <bool Log, class T>
void softmax_across(T* y, const T* x, std::int64_t slices, std::int64_t n, std::int64_t stride) {
  using V = Vec<T>;
  by_groups(slices, [&](std::int64_t first, std::int64_t count) {
    // Of each slice: the maximum, how often it occurs, and the sum of e^(x - max) over the other elements.
    T max[side_by_side];
    SliceSums<T> maxima, sum;
    fill(max, lowest<T>);
    T* const to = y + first;
    const T* const from = x + first;
    across_slices<V>(count, n, stride, [&](std::int64_t i, auto a, std::int64_t at) {
      store(larger(load<V>(max + i), a.template load<V>(from + at, T(0))), max + i);
    });
    const auto add_terms = [&](std::int64_t i, auto a, std::int64_t at) {
      const V d = a.template load<V>(from + at, T(0)) - load<V>(max + i), e = math::exp_limited(d);
      const auto largest = d == V(T(0));
      a.store(e, to + at);
      maxima.add(i, select(largest, V(T(1)), V(T(0))));
      sum.add(i, select(largest, V(T(0)), e));
    };
    across_slices<V>(count, n, stride, add_terms, maxima, sum);
    T last[side_by_side];  // the factor of softmax, or the logarithm
    for (std::int64_t i = 0; i < count; i += V::size) {
      const V rest = sum.at(i) + (maxima.at(i) - V(T(1)));
      store(Log ? math::log1p(rest) : V(T(1)) / (V(T(1)) + rest), last + i);
    }
    across_slices<V>(count, n, stride, [&](std::int64_t i, auto a, std::int64_t at) {
      if constexpr (Log)
        a.store(a.template load<V>(from + at, T(0)) - load<V>(max + i) - load<V>(last + i), to + at);
      else
        a.store(a.template load<V>(to + at, T(0)) * load<V>(last + i), to + at);
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
    const V scale(T(1) / static_cast<T>(1 + rest_of_exps<true>(terms, x, n, row_max(x, n))));
    for_each_vector_nontemporal<V>(terms == buffer, y, n, [&](std::int64_t i, auto a) {
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
    T max, rest;
    max_and_rest(x, n, max, rest);
    const V m(max), log_sum(math::log1p(rest));
    for_each_vector_nontemporal<V>(nontemporal, y, n, [&](std::int64_t i, auto a) {
      a.store(a.template load<V>(x + i, T(0)) - m - log_sum, y + i);
    });
  }
  if (nontemporal) fence_nontemporal_stores();
}

// The two adjoints: dx = result(y, dy, leading, sum(term(y, dy, leading))), with dy of the leading element, or 0 if
// there is none.
struct Softmax {
  static constexpr double limit = softmax_leads;
  // Infinity is not subtracted: it would make NaN of every element.
  template <class V>
  static V leading(const V& dy) {
    return select(abs(dy) < V(std::numeric_limits<typename V::value_type>::infinity()), dy, V(0));
  }
  template <class V>
  static V term(const V& y, const V& dy, const V& leading) {
    return y * (dy - leading);
  }
  template <class V>
  static V result(const V& y, const V& dy, const V& leading, const V& sum) {
    return y * (dy - leading - sum);
  }
};
struct LogSoftmax {
  static constexpr double limit = log_softmax_leads;
  template <class V>
  static V leading(const V& dy) {
    return dy;
  }
  template <class V>
  static auto leads(const V& y) {
    return y > V(typename V::value_type(limit));
  }
  template <class V>
  static V term(const V& y, const V& dy, const V&) {
    return select(leads(y), V(0), dy);
  }
  template <class V>
  static V result(const V& y, const V& dy, const V& leading, const V& rest) {
    const V p = math::exp_limited(y), dx = fnma(p, leading + rest, dy);
    const auto here = leads(y);
    return any(here) ? select(here, -(dy * math::expm1(y)) - p * rest, dx) : dx;
  }
};

// dy of the element with y above the limit; 0 if there is none.
template <class T>
T of_leading(const T* y, const T* dy, std::int64_t n, T limit) {
  using V = Vec<T>;
  constexpr std::int64_t W = V::size;
  std::int64_t i = 0;
  while (i + W <= n && !any(load<V>(y + i) > V(limit))) i += W;
  while (i < n && !(y[i] > limit)) ++i;
  return i < n ? dy[i] : T(0);
}

template <class Op, class T>
void backward(T* dx, const T* y, const T* dy, std::int64_t slices, std::int64_t n, std::int64_t stride,
              bool nontemporal) {
  using V = Vec<T>;
  constexpr T limit = T(Op::limit);
  if (stride == 1) {
    for (std::int64_t l = 0; l < slices; ++l, dx += n, y += n, dy += n) {
      const V leading = Op::leading(V(of_leading(y, dy, n, limit)));
      Accumulators<T> sums(T(0));
      accumulate<T, 4>(n, [&](std::int64_t i, auto a, int j) {
        sums[j] += Op::term(a.template load<V>(y + i, T(0)), a.template load<V>(dy + i, T(0)), leading);
      });
      const V sum(sums.sum());
      for_each_vector_nontemporal<V>(nontemporal, dx, n, [&](std::int64_t i, auto a) {
        a.store(Op::result(a.template load<V>(y + i, T(0)), a.template load<V>(dy + i, T(0)), leading, sum), dx + i);
      });
    }
    if (nontemporal) fence_nontemporal_stores();
    return;
  }
  by_groups(slices, [&](std::int64_t first, std::int64_t count) {
    T leading[side_by_side];
    SliceSums<T> sum;
    fill(leading, T(0));
    T* const to = dx + first;
    const T *const py = y + first, *const pdy = dy + first;
    across_slices<V>(count, n, stride, [&](std::int64_t i, auto a, std::int64_t at) {
      const auto here = a.template load<V>(py + at, lowest<T>) > V(limit);
      if (any(here))
        store(select(here, Op::leading(a.template load<V>(pdy + at, T(0))), load<V>(leading + i)), leading + i);
    });
    const auto add_term = [&](std::int64_t i, auto a, std::int64_t at) {
      sum.add(i, Op::term(a.template load<V>(py + at, T(0)), a.template load<V>(pdy + at, T(0)), load<V>(leading + i)));
    };
    across_slices<V>(count, n, stride, add_term, sum);
    across_slices<V>(count, n, stride, [&](std::int64_t i, auto a, std::int64_t at) {
      const V v = a.template load<V>(py + at, T(0)), dv = a.template load<V>(pdy + at, T(0));
      a.store(Op::result(v, dv, load<V>(leading + i), sum.at(i)), to + at);
    });
  });
}

}  // namespace

template <class IsaTag, class T>
const SoftmaxRows<T>& softmax_table() {
  static constexpr SoftmaxRows<T> table{softmax<T>,      log_softmax<T>, backward<Softmax, T>, backward<LogSoftmax, T>,
                                        max_and_rest<T>, scaled_exp<T>,  add_log1p<T>,         exp_number<T>,
                                        log_number<T>,   log1p_number<T>};
  return table;
}

template const SoftmaxRows<float>& softmax_table<FIT_ISA, float>();
template const SoftmaxRows<double>& softmax_table<FIT_ISA, double>();

}  // namespace fit::kernels
