#pragma once
#include <cmath>
#include <limits>

#include "kernels/attention.hpp"
#include "kernels/simd/exp2.hpp"
#include "kernels/simd/narrow.hpp"

// Rows of a tile of scores: what is hidden, what is added, the softmax. For *.simd.cpp files.
//
// Letters: N = key_block keys; m and l as in the paper: a row's largest score, and the sum of e^(score - m); W: the
// type of scores.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

constexpr std::int64_t N = key_block;

// How many keys query i sees by causality.
inline std::int64_t visible(const AttentionParams& a, std::int64_t i) {
  if (!a.causal) return a.Sk;
  const std::int64_t n = i + a.Sk - a.Sq + 1;
  return n < 0 ? 0 : n > a.Sk ? a.Sk : n;
}

// The first key that query i sees by the window.
inline std::int64_t first_visible(const AttentionParams& a, std::int64_t i) {
  const std::int64_t j = i + a.Sk - a.Sq - a.window + 1;
  return a.window == 0 || j < 0 ? 0 : j;
}

// 0, 1, … in the lanes.
template <class W>
Vec<W> lane_numbers() {
  alignas(64) W lanes[Vec<W>::size];
  for (std::size_t l = 0; l < Vec<W>::size; ++l) lanes[l] = static_cast<W>(l);
  return Vec<W>::load_aligned(lanes);
}

// The keys of a block that a query sees: j counts from the block's first.
template <class W>
struct VisibleKeys {
  using V = Vec<W>;
  std::int64_t from, to;  // by window, causality and the number of keys
  const bool* mask;       // null: no mask

  template <class T>
  VisibleKeys(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j0,
              std::int64_t count)
      : from(first_visible(a, i) - j0),
        to(visible(a, i) - j0 < count ? visible(a, i) - j0 : count),
        mask(a.mask.data ? a.mask.at(b, h, i) + j0 : nullptr) {}

  bool operator()(std::int64_t j) const { return j >= from && j < to && (!mask || mask[j]); }
  // How many lanes of the vector at j lie before the end.
  std::int64_t lanes_at(std::int64_t j) const {
    constexpr std::int64_t size = V::size;
    return to - j < 0 ? 0 : to - j < size ? to - j : size;
  }
  // x at j where it is visible, else `hidden`. It is chosen, not multiplied: x may be NaN.
  V select(std::int64_t j, V x, const V& hidden, const V& lane_numbers) const {
    const std::int64_t left = lanes_at(j);
    if (mask != nullptr) x = xsimd::select(load_mask<V>(mask + j, left), x, hidden);
    if (left < static_cast<std::int64_t>(V::size)) x = xsimd::select(lane_numbers < V(static_cast<W>(left)), x, hidden);
    if (j < from) x = xsimd::select(lane_numbers < V(static_cast<W>(from - j)), hidden, x);
    return x;
  }
};

// Whether row i sees any key.
template <class T>
bool sees_any(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i) {
  const VisibleKeys<SumOf<T>> seen(a, b, h, i, 0, a.Sk);
  for (std::int64_t j = seen.from < 0 ? 0 : seen.from; j < seen.to; ++j)
    if (seen(j)) return true;
  return false;
}

// Finishes one row of products times `factor`: adds the bias, and puts -inf where a key is hidden. Gives back the
// largest score of each lane.
template <class T, class W>
Vec<W> finish_scores(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j0,
                     std::int64_t count, std::int64_t width, const Vec<W>& factor, W* s) {
  using V = Vec<W>;
  const VisibleKeys<W> seen(a, b, h, i, j0, count);
  const V lanes = lane_numbers<W>(), hidden(-std::numeric_limits<W>::infinity());
  V most = hidden;
  for (std::int64_t j = 0; j < width; j += V::size) {
    V x = load<V>(s + j) * factor;
    if (a.bias.data) {
      const W* const bias = a.bias.at(b, h, i) + j0 + j;
      const std::int64_t left = seen.lanes_at(j);
      x = x + (left == static_cast<std::int64_t>(V::size) ? load<V>(bias) : load_part<V>(bias, left));
    }
    if (a.alibi) {
      const V distance = xsimd::abs(lanes + V(static_cast<W>(j0 + j - (i + a.Sk - a.Sq))));
      x = x - V(a.alibi[h]) * distance;
    }
    x = seen.select(j, x, hidden, lanes);
    x.store_unaligned(s + j);
    most = xsimd::max(most, x);
  }
  return most;
}

// Whether row i sees every key of a block, and nothing is added to its products.
template <class T>
bool plain_row(const Attention<T>& a, std::int64_t i, std::int64_t j0, std::int64_t count, std::int64_t width) {
  return visible(a, i) - j0 >= width && count >= width && first_visible(a, i) <= j0 && !a.bias.data && !a.alibi &&
         !a.mask.data;
}

// Makes scores of one row of products, which are scaled already if `Scaled`. Gives back the largest score of each lane.
template <bool Scaled, class T, class W>
Vec<W> row_scores(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j0,
                  std::int64_t count, std::int64_t width, W* s) {
  using V = Vec<W>;
  const V factor(Scaled ? W(1) : static_cast<W>(a.scale));
  if (!plain_row(a, i, j0, count, width)) return finish_scores(a, b, h, i, j0, count, width, factor, s);
  V most(-std::numeric_limits<W>::infinity());
  for (std::int64_t j = 0; j < width; j += V::size) {
    V x = load<V>(s + j);
    if constexpr (!Scaled) {
      x = x * factor;
      x.store_unaligned(s + j);
    }
    most = xsimd::max(most, x);
  }
  return most;
}

// e^x for x <= 8. The factor is applied to the difference of a score and m, which is small where it matters: scores may
// be as large as the type allows.
template <class V>
V exp_of(const V& x) {
  constexpr double log2_e = 1.4426950408889634;
  return pow2(x * V(static_cast<typename V::value_type>(log2_e)));
}

// to = factor x. Gives back a vector whose lanes add up to 0, or to NaN if something isn't finite.
template <class X, class Y, class W = SumOf<X>>
Vec<W> copy_scaled(const X* x, W factor, std::int64_t n, Y* to) {
  using V = Vec<W>;
  const V f(factor), zero(W(0));  // x times 0 is 0 or NaN
  V sum(W(0));
  std::int64_t c = 0;
  for (; c + static_cast<std::int64_t>(V::size) <= n; c += V::size) {
    const V y = load<V>(x + c) * f;
    store(y, to + c);
    sum = sum + y * zero;
  }
  if (c < n) {
    const V y = load_part<V>(x + c, n - c) * f;
    store_part(y, to + c, n - c);
    sum = sum + y * zero;
  }
  return sum;
}

template <class T, class W = SumOf<T>>
bool copy_finite(std::int64_t rows, std::int64_t cols, W factor, const W* x, std::int64_t x_row, T* to,
                 std::int64_t to_row) {
  Vec<W> zero(W(0));
  for (std::int64_t r = 0; r < rows; ++r) zero = zero + copy_scaled(x + r * x_row, factor, cols, to + r * to_row);
  return sum_lanes(zero) == W(0);
}

template <class T, class W = SumOf<T>>
void row_dots(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t x_row, const T* y, std::int64_t y_row,
              W* dots) {
  using V = Vec<W>;
  for (std::int64_t r = 0; r < rows; ++r) {
    V sum(W(0));
    std::int64_t c = 0;
    for (; c + static_cast<std::int64_t>(V::size) <= cols; c += V::size)
      sum = sum + load<V>(x + r * x_row + c) * load<V>(y + r * y_row + c);
    if (c < cols) sum = sum + load_part<V>(x + r * x_row + c, cols - c) * load_part<V>(y + r * y_row + c, cols - c);
    dots[r] = sum_lanes(sum);
  }
}

// to += x
template <class W>
void add_row(const W* x, std::int64_t count, W* to) {
  using V = Vec<W>;
  constexpr std::int64_t size = V::size;
  for (std::int64_t j = 0; j < count; j += size) {
    if (j + size <= count)
      (load<V>(to + j) + load<V>(x + j)).store_unaligned(to + j);
    else
      store_part(load_part<V>(to + j, count - j) + load<V>(x + j), to + j, count - j);
  }
}

// What dropout multiplies the weights of row i from key j0 on by: 0 or 1 / (1 - p). factors holds `width` of them.
template <class W>
void drop_factors(const AttentionParams& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j0,
                  std::int64_t count, std::int64_t width, W* factors) {
  alignas(64) std::uint32_t words[N];
  random<W>().words(words, a.key, a.first_weight + ((b * a.H + h) * a.Sq + i) * a.Sk + j0, count);
  const std::uint32_t limit = drop_limit(a.dropout);
  const W keep = static_cast<W>(keep_scale(a.dropout));
  for (std::int64_t j = 0; j < count; ++j) factors[j] = words[j] <= limit ? W(0) : keep;
  for (std::int64_t j = count; j < width; ++j) factors[j] = 0;
}

template <class W>
void multiply_row(W* x, const W* factors, std::int64_t width) {
  using V = Vec<W>;
  for (std::int64_t j = 0; j < width; j += V::size) (load<V>(x + j) * load<V>(factors + j)).store_unaligned(x + j);
}

// Dropout of row i of weights.
template <class W>
void drop(const AttentionParams& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j0, std::int64_t count,
          std::int64_t width, W* weights) {
  if (a.dropout == 0) return;
  alignas(64) W factors[N];
  drop_factors(a, b, h, i, j0, count, width, factors);
  multiply_row(weights, factors, width);
}

// Makes 0 of what stands at hidden keys, whatever it is.
template <class T, class W>
void clear_hidden(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j0,
                  std::int64_t count, std::int64_t width, W* x) {
  using V = Vec<W>;
  const VisibleKeys<W> seen(a, b, h, i, j0, count);
  const V lanes = lane_numbers<W>(), zero(W(0));
  for (std::int64_t j = 0; j < width; j += V::size) seen.select(j, load<V>(x + j), zero, lanes).store_unaligned(x + j);
}

// The running softmax of a block of queries.
template <class W>
struct Softmax {
  using V = Vec<W>;
  W* m;  // [M]: -inf: nothing seen yet
  W* l;  // [M, lanes]: lane by lane
  // m need not be the largest score: any near it keeps the exponentials in range, and a new one has its price.
  static constexpr W slack = 5;

  Softmax(W* room, std::int64_t rows) : m(room), l(room + query_block) {
    for (std::int64_t i = 0; i < rows; ++i) m[i] = -std::numeric_limits<W>::infinity();
    for (std::int64_t i = 0; i < rows * static_cast<std::int64_t>(V::size); ++i) l[i] = 0;
  }
  W* lanes(std::int64_t i) const { return l + i * static_cast<std::int64_t>(V::size); }

  // Makes exponentials of row i of scores s, the largest of which are given; o [cols] is the row's context so far.
  void add(std::int64_t i, const V& most, std::int64_t width, W* s, W* o, std::int64_t cols) const {
    V sum = load<V>(lanes(i));
    if (xsimd::any(most > V(m[i] + slack))) {
      const W high = max_lanes(most);
      if (m[i] != -std::numeric_limits<W>::infinity()) {
        const W shrink = std::exp(m[i] - high);
        sum = sum * V(shrink);
        copy_scaled(o, shrink, cols, o);
      }
      m[i] = high;
    }
    // Of a row that has seen nothing yet all scores are -inf, and so are their differences from 0.
    const V from(m[i] == -std::numeric_limits<W>::infinity() ? W(0) : m[i]);
    for (std::int64_t j = 0; j < width; j += V::size) {
      const V p = exp_of(load<V>(s + j) - from);
      p.store_unaligned(s + j);
      sum = sum + p;
    }
    sum.store_unaligned(lanes(i));
  }
};

// Makes weights of row i of products s. Those of hidden keys are exactly 0: e^-inf, unless the row has no softmax.
// Calls more(j, weights) for each vector of them, before they are stored and those of hidden keys are cleared.
template <bool Scaled, class T, class W, class More>
void row_weights(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j0,
                 std::int64_t count, std::int64_t width, const SoftmaxStats<const W>& stats, W* s, const More& more) {
  using V = Vec<W>;
  if (!Scaled || !plain_row(a, i, j0, count, width)) row_scores<Scaled>(a, b, h, i, j0, count, width, s);
  const std::int64_t row = (b * a.H + h) * a.Sq + i;
  const V m(stats.m[row]), inv_l(stats.inv_l[row]);
  for (std::int64_t j = 0; j < width; j += V::size) {
    const V weight = exp_of(load<V>(s + j) - m) * inv_l;
    weight.store_unaligned(s + j);
    more(j, weight);
  }
  if (std::isnan(stats.inv_l[row])) clear_hidden(a, b, h, i, j0, count, width, s);
}
template <bool Scaled, class T, class W>
void row_weights(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j0,
                 std::int64_t count, std::int64_t width, const SoftmaxStats<const W>& stats, W* s) {
  row_weights<Scaled>(a, b, h, i, j0, count, width, stats, s, [](std::int64_t, const Vec<W>&) {});
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
