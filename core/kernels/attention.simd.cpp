#include "kernels/attention.hpp"

#include <cmath>
#include <limits>

#include "kernels/simd/exp2.hpp"
#include "kernels/simd/tile_product.hpp"
#include "kernels/simd/transpose.hpp"

// Letters: M queries of a block, N = key_block keys. Scores are kept times log2(e), so that weights are 2^score.
namespace fit::kernels {
namespace {

constexpr std::int64_t N = key_block;
constexpr double log2_e = 1.4426950408889634;

template <class T>
void pack(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t row, T* out) {
  for (std::int64_t j0 = 0; j0 < rows; j0 += N, out += cols * N) {
    const std::int64_t count = rows - j0 < N ? rows - j0 : N;
    transpose(count, cols, x + j0 * row, row, out, N);
    for (std::int64_t c = 0; c < cols; ++c)
      for (std::int64_t j = count; j < N; ++j) out[c * N + j] = T(0);
  }
}

// How many keys query i sees by causality.
template <class T>
std::int64_t visible(const Attention<T>& a, std::int64_t i) {
  if (!a.causal) return a.Sk;
  const std::int64_t n = i + a.Sk - a.Sq + 1;
  return n < 0 ? 0 : n > a.Sk ? a.Sk : n;
}

// The first key that query i sees by the window.
template <class T>
std::int64_t first_visible(const Attention<T>& a, std::int64_t i) {
  const std::int64_t j = i + a.Sk - a.Sq - a.window + 1;
  return a.window == 0 || j < 0 ? 0 : j;
}

template <class T>
std::int64_t whole_vectors(std::int64_t n) {
  constexpr std::int64_t W = Vec<T>::size;
  return (n + W - 1) / W * W;
}

// 0, 1, … in the lanes.
template <class T>
Vec<T> lane_numbers() {
  alignas(64) T lanes[Vec<T>::size];
  for (std::size_t l = 0; l < Vec<T>::size; ++l) lanes[l] = static_cast<T>(l);
  return Vec<T>::load_aligned(lanes);
}

// What products are multiplied by: the scale, and log2(e).
template <class T>
T scale_of(const Attention<T>& a) {
  return static_cast<T>(a.scale * static_cast<T>(log2_e));
}

// Finishes one row of scaled products: adds the bias, and puts -inf before the window, from `seen` on, and where the
// mask is 0. Gives back the largest score of each lane.
template <class T>
Vec<T> finish_scores(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j0,
                     std::int64_t seen, std::int64_t width, T* s) {
  using V = Vec<T>;
  const std::int64_t from = first_visible(a, i) - j0;
  constexpr std::int64_t W = V::size;
  constexpr T hidden = -std::numeric_limits<T>::infinity();
  const V lanes = lane_numbers<T>();
  V most(hidden);
  for (std::int64_t j = 0; j < width; j += W) {
    V x = load<V>(s + j);
    const std::int64_t left = seen - j < 0 ? 0 : seen - j < W ? seen - j : W;
    if (a.bias.data) {
      const T* const bias = a.bias.at(b, h, i) + j0 + j;
      x = x + (left == W ? load<V>(bias) : load_part<V>(bias, left)) * V(static_cast<T>(log2_e));
    }
    if (a.mask.data) {
      const auto seen_lanes = load_mask<V>(a.mask.at(b, h, i) + j0 + j, left);
      x = xsimd::select(seen_lanes, x, V(hidden));  // chosen: x may have overflowed
    }
    if (left < W) x = xsimd::select(lanes < V(static_cast<T>(left)), x, V(hidden));
    if (j < from) x = xsimd::select(lanes < V(static_cast<T>(from - j)), V(hidden), x);
    x.store_unaligned(s + j);
    most = xsimd::max(most, x);
  }
  return most;
}

// Makes scores of one row of scaled products; they are that already where every key of the block is seen and no bias is
// added. Gives back the largest score of each lane.
template <class T>
Vec<T> row_scores(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j0,
                  std::int64_t count, std::int64_t width, T* s) {
  using V = Vec<T>;
  const std::int64_t seen = visible(a, i) - j0;
  if (seen < width || count < width || first_visible(a, i) > j0 || a.bias.data || a.mask.data)
    return finish_scores(a, b, h, i, j0, seen < count ? seen : count, width, s);
  V most = load<V>(s);
  for (std::int64_t j = V::size; j < width; j += V::size) most = xsimd::max(most, load<V>(s + j));
  return most;
}

template <class T>
Vec<T> copy_scaled(const T* x, T factor, std::int64_t n, T* to) {
  using V = Vec<T>;
  const V f(factor), zero(T(0));
  V sum(T(0));
  std::int64_t c = 0;
  for (; c + static_cast<std::int64_t>(V::size) <= n; c += V::size) {
    const V y = load<V>(x + c) * f;
    y.store_unaligned(to + c);
    sum = sum + y * zero;
  }
  if (c < n) {
    const V y = load_part<V>(x + c, n - c) * f;
    store_part(y, to + c, n - c);
    sum = sum + y * zero;
  }
  return sum;
}

template <class T>
bool copy_finite(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t x_row, T* to, std::int64_t to_row) {
  Vec<T> zero(T(0));
  for (std::int64_t r = 0; r < rows; ++r) zero = zero + copy_scaled(x + r * x_row, T(1), cols, to + r * to_row);
  return sum_lanes(zero) == T(0);
}

// What dropout multiplies the weights of row i from key j0 on by: 0 or 1 / (1 - p). factors holds `width` of them.
template <class T>
void drop_factors(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j0,
                  std::int64_t count, std::int64_t width, T* factors) {
  alignas(64) std::uint32_t words[N];
  random<T>().words(words, a.key, ((b * a.H + h) * a.Sq + i) * a.Sk + j0, count);
  const std::uint32_t limit = drop_limit(a.dropout);
  const T keep = static_cast<T>(keep_scale(a.dropout));
  for (std::int64_t j = 0; j < count; ++j) factors[j] = words[j] <= limit ? T(0) : keep;
  for (std::int64_t j = count; j < width; ++j) factors[j] = 0;
}

template <class T>
void multiply_row(T* x, const T* factors, std::int64_t width) {
  using V = Vec<T>;
  for (std::int64_t j = 0; j < width; j += V::size) (load<V>(x + j) * load<V>(factors + j)).store_unaligned(x + j);
}

// The width of a block that a query block needs to look at: up to the last query's last key.
template <class T>
std::int64_t block_keys(const Attention<T>& a, std::int64_t last_query, std::int64_t j0) {
  const std::int64_t n = visible(a, last_query) - j0;
  return n < N ? n : N;
}

template <class T>
void row_dots(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t x_row, const T* y, std::int64_t y_row,
              T* dots) {
  using V = Vec<T>;
  for (std::int64_t r = 0; r < rows; ++r) {
    V sum(T(0));
    std::int64_t c = 0;
    for (; c + static_cast<std::int64_t>(V::size) <= cols; c += V::size)
      sum = sum + load<V>(x + r * x_row + c) * load<V>(y + r * y_row + c);
    if (c < cols) sum = sum + load_part<V>(x + r * x_row + c, cols - c) * load_part<V>(y + r * y_row + c, cols - c);
    dots[r] = sum_lanes(sum);
  }
}

// Whether the tiles have the softmax of row i right. Where its largest score or its total isn't finite, a score has
// overflowed: hidden keys would get the NaN, too; or all are -inf, which is right only if the row sees no key.
template <class T>
bool sound(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i, T most, T total) {
  if (std::isfinite(most + total)) return true;
  if (total != T(0)) return !hides(a);
  const std::int64_t first = first_visible(a, i), seen = visible(a, i);
  if (!a.mask.data) return seen <= first;
  const bool* const mask = a.mask.at(b, h, i);
  for (std::int64_t j = first; j < seen; ++j)
    if (mask[j]) return false;
  return true;
}

// s [M, N] = the scaled products of a block of queries and one of keys, in whole vectors. Every pass computes them
// alike: the weights must be those that the row sums were made of.
template <class T>
void products(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows,
              std::int64_t j0, std::int64_t count, const T* keys, T* s) {
  const std::int64_t width = whole_vectors<T>(count);
  if (!few_queries(a))
    return tile_product<false>(rows, width, a.D, scale_of(a), a.q.at(b, h, i0), a.q.row, keys + j0 * a.D, N, s, N,
                               false);
  const std::int64_t kv = h / (a.H / a.kv_heads);
  for (std::int64_t i = 0; i < rows; ++i) {
    row_dots(count, a.D, a.q.at(b, h, i0 + i), std::int64_t{0}, a.k.at(b, kv, j0), a.k.row, s + i * N);
    for (std::int64_t j = 0; j < width; ++j) s[i * N + j] = j < count ? s[i * N + j] * scale_of(a) : T(0);
  }
}

// The running softmax of a block of queries.
template <class T>
struct Softmax {
  using V = Vec<T>;
  T* base;   // [M]: weights are 2^(score - base) until they are divided by their total; -inf: nothing seen yet
  T* total;  // [M, lanes]: the sums of the weights, lane by lane
  // A base need not be the largest score: any near it keeps the weights in range, and a new one has its price.
  static constexpr T slack = 8;

  Softmax(T* room, std::int64_t rows) : base(room), total(room + rows) {
    for (std::int64_t i = 0; i < rows; ++i) base[i] = -std::numeric_limits<T>::infinity();
    for (std::int64_t i = 0; i < rows * static_cast<std::int64_t>(V::size); ++i) total[i] = 0;
  }
  V lanes(std::int64_t i) const { return load<V>(total + i * static_cast<std::int64_t>(V::size)); }

  // Makes weights of row i of scores s, the largest of which are given; o [cols] is the row's context so far.
  void add(std::int64_t i, const V& most, std::int64_t width, T* s, T* o, std::int64_t cols) const {
    V sum = lanes(i);
    if (xsimd::any(most > V(base[i] + slack))) {
      const T high = max_lanes(most);
      if (base[i] != -std::numeric_limits<T>::infinity()) {
        const T shrink = std::exp2(base[i] - high);
        sum = sum * V(shrink);
        copy_scaled(o, shrink, cols, o);
      }
      base[i] = high;
    }
    // Of a row that has seen nothing yet all scores are -inf, and so are their differences from 0.
    const V from(base[i] == -std::numeric_limits<T>::infinity() ? T(0) : base[i]);
    for (std::int64_t j = 0; j < width; j += V::size) {
      const V p = two_to(load<V>(s + j) - from);
      p.store_unaligned(s + j);
      sum = sum + p;
    }
    sum.store_unaligned(total + i * static_cast<std::int64_t>(V::size));
  }
};

template <class T>
bool forward(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows, const T* keys,
             const Heads<T>& out, T* lse, T* scratch) {
  using V = Vec<T>;
  const std::int64_t kv = h / (a.H / a.kv_heads);
  T* const s = scratch;
  T* const o = s + query_block * N;
  const Softmax<T> softmax(o + query_block * a.Dv, rows);
  const std::int64_t begin = first_visible(a, i0) / N * N, end = visible(a, i0 + rows - 1);
  if (end == 0)
    for (std::int64_t c = 0; c < rows * a.Dv; ++c) o[c] = 0;

  for (std::int64_t j0 = begin; j0 < end; j0 += N) {
    const std::int64_t count = block_keys(a, i0 + rows - 1, j0), width = whole_vectors<T>(count);
    products(a, b, h, i0, rows, j0, count, keys, s);
    for (std::int64_t i = 0; i < rows; ++i) {
      T* const row = s + i * N;
      softmax.add(i, row_scores(a, b, h, i0 + i, j0, count, width, row), width, row, o + i * a.Dv,
                  j0 > begin ? a.Dv : 0);
      if (a.dropout > 0) {
        alignas(64) T factors[N];
        drop_factors(a, b, h, i0 + i, j0, count, width, factors);
        multiply_row(row, factors, width);
      }
    }
    tile_product<false>(rows, a.Dv, count, T(1), s, N, a.v.at(b, kv, j0), a.v.row, o, a.Dv, j0 > begin);
  }
  constexpr T infinity = std::numeric_limits<T>::infinity();
  T* const sums = lse + (b * a.H + h) * a.Sq + i0;
  bool ok = true;
  V zero(T(0));  // x times 0 is 0 or NaN
  for (std::int64_t i = 0; i < rows; ++i) {
    const T base = softmax.base[i], total = sum_lanes(softmax.lanes(i));
    zero = zero + copy_scaled(o + i * a.Dv, total == T(0) ? T(0) : T(1) / total, a.Dv, out.at(b, h, i0 + i));
    ok = ok && sound(a, b, h, i0 + i, base, total);
    sums[i] = total;
  }
  for (std::int64_t i = 0; i < rows; i += V::size) {
    const std::int64_t left = rows - i < static_cast<std::int64_t>(V::size) ? rows - i : V::size;
    const V base = load<V>(softmax.base + i), total = load_part<V>(sums + i, left);
    store_part(xsimd::select(total == V(0), V(infinity), base + xsimd::log2(total)), sums + i, left);
  }
  return ok && (!hides(a) || sum_lanes(zero) == T(0));
}

// Makes weights of row i of scaled products s, from the stored row sum.
template <class T>
void row_weights(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j0,
                 std::int64_t count, std::int64_t width, const T* lse, T* s) {
  using V = Vec<T>;
  row_scores(a, b, h, i, j0, count, width, s);
  const V base(lse[(b * a.H + h) * a.Sq + i]);
  for (std::int64_t j = 0; j < width; j += V::size) two_to(load<V>(s + j) - base).store_unaligned(s + j);
}

template <class T>
void weights(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows, const T* keys,
             const T* lse, T* w, T* s) {
  for (std::int64_t j0 = 0; j0 < a.Sk; j0 += N) {
    const std::int64_t left = a.Sk - j0 < N ? a.Sk - j0 : N;
    products(a, b, h, i0, rows, j0, left, keys, s);
    for (std::int64_t i = 0; i < rows; ++i) {
      row_weights(a, b, h, i0 + i, j0, left, whole_vectors<T>(left), lse, s + i * N);
      for (std::int64_t j = 0; j < left; ++j) w[((b * a.H + h) * a.Sq + i0 + i) * a.Sk + j0 + j] = s[i * N + j];
    }
  }
}

// to += P (dP - delta), the gradient of a row's scores.
template <class T>
void add_slopes(const T* weight, const T* slope, const Vec<T>& delta, std::int64_t count, T* to) {
  using V = Vec<T>;
  constexpr std::int64_t W = V::size;
  for (std::int64_t j = 0; j < count; j += W) {
    const V ds = load<V>(weight + j) * (load<V>(slope + j) - delta);
    if (j + W <= count)
      (load<V>(to + j) + ds).store_unaligned(to + j);
    else
      store_part(load_part<V>(to + j, count - j) + ds, to + j, count - j);
  }
}

template <class T>
void backward(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t j0, const T* keys, const T* values,
              const T* lse, const T* delta, const Heads<const T>& dout, T* dq, std::int64_t dq_row, T* dk, T* dv,
              const Heads<T>& dbias, T* scratch) {
  using V = Vec<T>;
  const std::int64_t kv = h / (a.H / a.kv_heads);
  T* const p = scratch;
  T* const ds = p + query_block * N;
  const std::int64_t all = a.Sk - j0 < N ? a.Sk - j0 : N;
  // The first query that sees a key of this block.
  std::int64_t i0 = a.causal ? j0 - (a.Sk - a.Sq) : 0;
  if (i0 < 0) i0 = 0;
  // The end of those whose window reaches back to one.
  std::int64_t end = a.window > 0 ? j0 + all - 1 + a.window - (a.Sk - a.Sq) : a.Sq;
  if (end > a.Sq) end = a.Sq;
  const std::int64_t step = query_step(a);
  for (; i0 < end; i0 += step) {
    const std::int64_t rows = end - i0 < step ? end - i0 : step;
    const std::int64_t limit = visible(a, i0 + rows - 1) - j0, count = limit < all ? limit : all;
    const std::int64_t width = whole_vectors<T>(count);
    products(a, b, h, i0, rows, j0, count, keys, p);
    tile_product<false>(rows, width, a.Dv, T(1), dout.at(b, h, i0), dout.row, values + j0 * a.Dv, N, ds, N, false);
    const V factor(a.scale);
    for (std::int64_t i = 0; i < rows; ++i) {
      T* const weight = p + i * N;
      T* const slope = ds + i * N;
      alignas(64) T factors[N];
      row_weights(a, b, h, i0 + i, j0, count, width, lse, weight);
      if (a.dropout > 0) {
        drop_factors(a, b, h, i0 + i, j0, count, width, factors);
        multiply_row(slope, factors, width);
      }
      const V sum(delta[(b * a.H + h) * a.Sq + i0 + i]);
      if (dbias.data) add_slopes(weight, slope, sum, count, dbias.at(b, h, i0 + i) + j0);
      for (std::int64_t j = 0; j < width; j += V::size)  // dS = P (dP - delta) scale
        (load<V>(weight + j) * (load<V>(slope + j) - sum) * factor).store_unaligned(slope + j);
      if (a.dropout > 0) multiply_row(weight, factors, width);
    }
    tile_product<true>(count, a.Dv, rows, T(1), p, N, dout.at(b, h, i0), dout.row, dv, a.Dv, true);
    tile_product<true>(count, a.D, rows, T(1), ds, N, a.q.at(b, h, i0), a.q.row, dk, a.D, true);
    tile_product<false>(rows, a.D, count, T(1), ds, N, a.k.at(b, kv, j0), a.k.row, dq + i0 * dq_row, dq_row, true);
  }
}

}  // namespace

template <class IsaTag, class T>
const AttentionTable<T>& attention_table() {
  static constexpr AttentionTable<T> table{pack<T>, copy_finite<T>, forward<T>, weights<T>, row_dots<T>, backward<T>};
  return table;
}

template const AttentionTable<float>& attention_table<FIT_ISA, float>();
template const AttentionTable<double>& attention_table<FIT_ISA, double>();

}  // namespace fit::kernels
