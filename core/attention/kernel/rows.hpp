#pragma once
#include <cmath>
#include <limits>

#include "attention/kernel/kernel.hpp"
#include "kernels/simd/exp2.hpp"
#include "kernels/simd/matrix_rows.hpp"
#include "kernels/simd/transform.hpp"

// Rows of a tile of scores: masking, bias, softmax, dropout. For *.simd.cpp files.
//
// Letters: N = key_block keys; m and l as in the paper: the maximum of a row, and the sum of e^(score - m); W: the type
// of scores.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

constexpr std::int64_t N = key_block;

// Query i of a call, in a tile. Below, j counts keys from j0, up to `width`.
template <class W>
struct Row {
  using V = Vec<W>;
  const AttentionScores<W>& a;
  std::int64_t b, h, i, j0, count, width;
  std::int64_t to;        // no key from here on is read
  std::uint64_t attends;  // bit j: the query attends to key j
  W factor;

  // The query with number `row` of the tile. bits: its Visibility::row() in the tile.
  Row(const AttentionScores<W>& a, const TilePlace& t, std::int64_t row, std::uint64_t bits)
      : a(a),
        b(t.b),
        h(t.h),
        i(t.i0 + row),
        j0(t.j0),
        count(t.count),
        width(t.width),
        attends(bits & Visibility::bits_below(t.count)),
        factor(static_cast<W>(t.factor)) {
    const std::int64_t end = a.range(i).end - j0;
    to = end < count ? end : count;
  }

  // Of this row among all [B, H, Sq].
  std::int64_t index() const { return (b * a.H + h) * a.Sq + i; }
  // Whether the query attends to every key of the block.
  bool full() const { return (~attends & Visibility::bits_below(width)) == 0; }
  // Whether a bias or alibi is added to its products.
  bool biased() const { return a.bias.data || a.alibi; }
  // How many lanes of the vector at j lie before `to`.
  std::int64_t lanes_at(std::int64_t j) const {
    constexpr std::int64_t size = V::size;
    return to - j < 0 ? 0 : to - j < size ? to - j : size;
  }
  // x at j if the query attends to that key, else `masked`. A choice, not a product: x may be NaN.
  V select(std::int64_t j, const V& x, const V& masked) const {
    return xsimd::select(mask_of_bits<V>(attends >> j), x, masked);
  }
};

// Products x, times `factor`, of the keys from j on, with the bias and alibi.
template <class W>
[[gnu::always_inline]] inline Vec<W> biased_score(const Row<W>& r, std::int64_t j, const Vec<W>& lanes,
                                                  const Vec<W>& factor, Vec<W> x) {
  using V = Vec<W>;
  const AttentionScores<W>& a = r.a;
  x = x * factor;
  if (a.bias.data) {
    const W* const bias = a.bias.at(r.b, r.h, r.i) + r.j0 + j;
    const std::int64_t left = r.lanes_at(j);
    x = x + (left == static_cast<std::int64_t>(V::size) ? load<V>(bias) : load_part<V>(bias, left));
  }
  if (a.alibi) {
    const V distance = xsimd::abs(lanes + V(static_cast<W>(r.j0 + j - a.place(r.i))));
    x = xsimd::fnma(V(a.alibi[r.h]), distance, x);
  }
  return x;
}

// Calls f(j, r) for the registers of a row, from j on; r is the one of a pack.
template <class W, class F>
inline void each_register(std::int64_t width, const F& f) {
  constexpr std::int64_t size = Vec<W>::size, pack = Pack<W>::size;
  std::int64_t j = 0;
  for (; j + pack <= width; j += pack) FIT_UNROLL for (int r = 0; r < pack / size; ++r) f(j + r * size, r);
  FIT_UNROLL for (int r = 0; r + 1 < pack / size; ++r, j += size) if (j < width) f(j, r);
}

// The maximum or the sum of each lane of a pack.
template <class W>
using RowLanes = Accumulators<W, 1>;

// s = score(j, s) for the keys of a row, -inf where the query does not attend. Returns the maximum of each lane.
template <class W, class Score>
RowLanes<W> masked_scores(const Row<W>& r, W* s, const Score& score) {
  using V = Vec<W>;
  const V masked(-std::numeric_limits<W>::infinity());
  RowLanes<W> max(-std::numeric_limits<W>::infinity());
  each_register<W>(r.width, [&](std::int64_t j, int of_pack) {
    const V x = r.select(j, score(j, load<V>(s + j)), masked);
    x.store_unaligned(s + j);
    max[of_pack] = xsimd::max(max[of_pack], x);
  });
  return max;
}

// Makes of a row of products what a function of scores takes: multiplies by the factor, and adds the bias and alibi.
template <class W>
FIT_ONE_COPY void biased_scores(const Row<W>& r, W* s) {
  using V = Vec<W>;
  const V factor(r.factor), lanes = lane_numbers<V>();
  for (std::int64_t j = 0; j < r.width; j += V::size)
    biased_score(r, j, lanes, factor, load<V>(s + j)).store_unaligned(s + j);
}

// Makes scores of a row of products. With a function of scores, the row has its results, and is only masked. Returns
// the maximum of each lane.
template <class W>
RowLanes<W> row_scores(const Row<W>& r, W* s) {
  using V = Vec<W>;
  const bool scaled = r.a.score || r.factor == W(1);
  const V factor(scaled ? W(1) : r.factor);
  if (r.biased() && !r.a.score) {
    const V lanes = lane_numbers<V>();
    return masked_scores(r, s, [&](std::int64_t j, const V& x) { return biased_score(r, j, lanes, factor, x); });
  }
  if (!r.full()) return masked_scores(r, s, [&](std::int64_t, const V& x) { return x * factor; });
  RowLanes<W> max(-std::numeric_limits<W>::infinity());
  each_register<W>(r.width, [&](std::int64_t j, int of_pack) {
    V x = load<V>(s + j);
    if (!scaled) {
      x = x * factor;
      x.store_unaligned(s + j);
    }
    max[of_pack] = xsimd::max(max[of_pack], x);
  });
  return max;
}

// The factors of dropout for a row of weights: 0 or 1 / (1 - p); 0 from `count` to `width`.
template <class W>
FIT_ONE_COPY void drop_factors(const Row<W>& r, W* factors) {
  alignas(64) std::uint32_t words[N];
  const Dropout& d = r.a.dropout;
  random<W>().words(words, d.key, d.first + r.index() * r.a.Sk + r.j0, r.count);
  const std::uint32_t limit = d.limit;
  const W kept = static_cast<W>(d.kept);
  for (std::int64_t j = 0; j < r.count; ++j) factors[j] = words[j] <= limit ? W(0) : kept;
  for (std::int64_t j = r.count; j < r.width; ++j) factors[j] = 0;
}

template <class W>
void multiply_row(W* x, const W* factors, std::int64_t width) {
  transform(
      x, width, [](const Vec<W>& a, const Vec<W>& b) { return a * b; }, x, factors);
}

// Applies dropout to a row of weights.
template <class W>
void drop(const Row<W>& r, W* weights) {
  if (r.a.dropout.p == 0) return;
  alignas(64) W factors[N];
  drop_factors(r, factors);
  multiply_row(weights, factors, r.width);
}

// Writes 0 over x where the query does not attend.
template <class W>
void clear_masked(const Row<W>& r, W* x) {
  using V = Vec<W>;
  const V zero(W(0));
  for (std::int64_t j = 0; j < r.width; j += V::size) r.select(j, load<V>(x + j), zero).store_unaligned(x + j);
}

// The running softmax of a block of queries.
template <class W>
struct Softmax {
  using V = Vec<W>;
  static constexpr std::int64_t size = Pack<W>::size;
  W* m;  // [query_block]: -inf before the first key
  W* l;  // [query_block, size]: lane by lane
  // m need not be the maximum: any score near it keeps the exponentials in range, and a new m costs a pass over o.
  static constexpr W slack = 5;

  // A sink is the first score.
  Softmax(W* buffer, std::int64_t rows, const W* sink) : m(buffer), l(buffer + query_block) {
    const W first = sink ? *sink : -std::numeric_limits<W>::infinity();
    for (std::int64_t i = 0; i < rows; ++i) m[i] = first;
    for (std::int64_t i = 0; i < rows * size; ++i) l[i] = 0;
    if (first == -std::numeric_limits<W>::infinity()) return;
    for (std::int64_t i = 0; i < rows; ++i) *lanes(i) = 1;
  }
  W* lanes(std::int64_t i) const { return l + i * size; }
  W sum(std::int64_t i) const { return sum_lanes(Pack<W>::load(lanes(i))); }

  // Makes exponentials of row i of scores s with the maximum `max`. o [cols] is the row's context so far.
  void add(std::int64_t i, const RowLanes<W>& max, std::int64_t width, W* s, W* o, std::int64_t cols) const {
    if (max.any_above(m[i] + slack)) {
      const W high = max.max();
      if (m[i] != -std::numeric_limits<W>::infinity()) {
        const W shrink = exp_of(V(m[i] - high)).get(0);
        copy_scaled(lanes(i), shrink, size, lanes(i));
        copy_scaled(o, shrink, cols, o);
      }
      m[i] = high;
    }
    // In a row without a key so far all scores are -inf, and so are their differences from 0.
    const V from(m[i] == -std::numeric_limits<W>::infinity() ? W(0) : m[i]);
    RowLanes<W> sum(Pack<W>::load(lanes(i)));
    each_register<W>(width, [&](std::int64_t j, int of_pack) {
      const V p = exp_of(load<V>(s + j) - from);
      p.store_unaligned(s + j);
      sum[of_pack] += p;
    });
    sum.packs[0].store(lanes(i));
  }
};

// Makes weights w of a row of products s, which may be w. Masked ones are exactly 0: e^-inf, unless the row has no
// softmax. dw, if it is not null, are gradients of the weights, and become those of the scores: dS = P (dP - delta).
template <class W>
void row_weights(const Row<W>& r, const SoftmaxStats<const W>& stats, W* s, W* w, W* dw = nullptr, W delta = 0) {
  using V = Vec<W>;
  // Products that are scores already need a mask only.
  const bool scores = r.a.score || (r.factor == W(1) && !r.biased()), masks = scores && !r.full();
  if (!scores) row_scores(r, s);
  const V m(stats.m[r.index()]), inv_l(stats.inv_l[r.index()]), masked(-std::numeric_limits<W>::infinity());
  for (std::int64_t j = 0; j < r.width; j += V::size) {
    V x = load<V>(s + j);
    if (masks) x = r.select(j, x, masked);
    const V weight = exp_of(x - m) * inv_l;
    weight.store_unaligned(w + j);
    if (dw) (weight * (load<V>(dw + j) - V(delta))).store_unaligned(dw + j);
  }
  if (std::isnan(stats.inv_l[r.index()])) clear_masked(r, w);
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
