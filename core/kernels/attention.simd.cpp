#include "kernels/attention.hpp"

#include <cmath>
#include <limits>

#include "kernels/simd/exp2.hpp"
#include "kernels/simd/tile_product.hpp"
#include "kernels/simd/transpose.hpp"

// Letters: M queries of a block, N = key_block keys; m and l as in the paper: a row's largest score, and the sum of
// e^(score - m).
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

// The keys of a block that a query sees: j counts from the block's first.
template <class T>
struct VisibleKeys {
  using V = Vec<T>;
  std::int64_t from, to;  // by window, causality and the number of keys
  const bool* mask;       // null: no mask

  VisibleKeys(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j0,
              std::int64_t count)
      : from(first_visible(a, i) - j0),
        to(visible(a, i) - j0 < count ? visible(a, i) - j0 : count),
        mask(a.mask.data ? a.mask.at(b, h, i) + j0 : nullptr) {}

  bool operator()(std::int64_t j) const { return j >= from && j < to && (!mask || mask[j]); }
  // How many lanes of the vector at j lie before the end.
  std::int64_t lanes_at(std::int64_t j) const {
    constexpr std::int64_t W = V::size;
    return to - j < 0 ? 0 : to - j < W ? to - j : W;
  }
  // x at j where it is visible, else `hidden`. It is chosen, not multiplied: x may be NaN.
  V select(std::int64_t j, V x, const V& hidden, const V& lane_numbers) const {
    const std::int64_t left = lanes_at(j);
    if (mask) x = xsimd::select(load_mask<V>(mask + j, left), x, hidden);
    if (left < static_cast<std::int64_t>(V::size)) x = xsimd::select(lane_numbers < V(static_cast<T>(left)), x, hidden);
    if (j < from) x = xsimd::select(lane_numbers < V(static_cast<T>(from - j)), hidden, x);
    return x;
  }
};

// Finishes one row of scaled products: adds the bias, and puts -inf where a key is hidden. Gives back the largest score
// of each lane.
template <class T>
Vec<T> finish_scores(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j0,
                     std::int64_t count, std::int64_t width, T* s) {
  using V = Vec<T>;
  const VisibleKeys<T> seen(a, b, h, i, j0, count);
  const V lanes = lane_numbers<T>(), hidden(-std::numeric_limits<T>::infinity());
  V most = hidden;
  for (std::int64_t j = 0; j < width; j += V::size) {
    V x = load<V>(s + j);
    if (a.bias.data) {
      const T* const bias = a.bias.at(b, h, i) + j0 + j;
      const std::int64_t left = seen.lanes_at(j);
      x = x + (left == static_cast<std::int64_t>(V::size) ? load<V>(bias) : load_part<V>(bias, left));
    }
    if (a.alibi) {
      const V distance = xsimd::abs(lanes + V(static_cast<T>(j0 + j - (i + a.Sk - a.Sq))));
      x = x - V(a.alibi[h]) * distance;
    }
    x = seen.select(j, x, hidden, lanes);
    x.store_unaligned(s + j);
    most = xsimd::max(most, x);
  }
  return most;
}

// Makes scores of one row of scaled products; they are that already where every key of the block is seen and nothing is
// added. Gives back the largest score of each lane.
template <class T>
Vec<T> row_scores(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j0,
                  std::int64_t count, std::int64_t width, T* s) {
  using V = Vec<T>;
  if (visible(a, i) - j0 < width || count < width || first_visible(a, i) > j0 || a.bias.data || a.alibi || a.mask.data)
    return finish_scores(a, b, h, i, j0, count, width, s);
  V most = load<V>(s);
  for (std::int64_t j = V::size; j < width; j += V::size) most = xsimd::max(most, load<V>(s + j));
  return most;
}

// e^x for x <= 8. The factor is applied to the difference of a score and m, which is small where it matters: scores may
// be as large as the type allows.
template <class V>
V exp_of(const V& x) {
  return pow2(x * V(static_cast<typename V::value_type>(log2_e)));
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
  random<T>().words(words, a.key, a.first_weight + ((b * a.H + h) * a.Sq + i) * a.Sk + j0, count);
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

// Dropout of row i of weights.
template <class T>
void drop(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j0, std::int64_t count,
          std::int64_t width, T* weights) {
  if (a.dropout == 0) return;
  alignas(64) T factors[N];
  drop_factors(a, b, h, i, j0, count, width, factors);
  multiply_row(weights, factors, width);
}

// Makes 0 of what stands at hidden keys, whatever it is.
template <class T>
void clear_hidden(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j0,
                  std::int64_t count, std::int64_t width, T* x) {
  using V = Vec<T>;
  const VisibleKeys<T> seen(a, b, h, i, j0, count);
  const V lanes = lane_numbers<T>(), zero(T(0));
  for (std::int64_t j = 0; j < width; j += V::size) seen.select(j, load<V>(x + j), zero, lanes).store_unaligned(x + j);
}

// Where visible_product() finds room in the scratch.
template <class T>
T* checked_room(const Attention<T>& a, T* scratch) {
  return scratch + query_block * (2 * N + a.Dv);
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

// Whether row i sees any key.
template <class T>
bool sees_any(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i) {
  const VisibleKeys<T> seen(a, b, h, i, 0, a.Sk);
  for (std::int64_t j = seen.from < 0 ? 0 : seen.from; j < seen.to; ++j)
    if (seen(j)) return true;
  return false;
}

// s [M, N] = the scaled products of a block of queries and one of keys, in whole vectors. Every pass computes them
// alike: the weights must be those that the row sums were made of.
template <class T>
void products(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows,
              std::int64_t j0, std::int64_t count, const T* keys, T* s) {
  const std::int64_t width = whole_vectors<T>(count);
  if (!few_queries(a))
    return tile_product<false>(rows, width, a.D, static_cast<T>(a.scale), a.q.at(b, h, i0), a.q.row, keys + j0 * a.D, N,
                               s, N, false);
  const std::int64_t kv = h / (a.H / a.kv_heads);
  for (std::int64_t i = 0; i < rows; ++i) {
    row_dots(count, a.D, a.q.at(b, h, i0 + i), std::int64_t{0}, a.k.at(b, kv, j0), a.k.row, s + i * N);
    for (std::int64_t j = 0; j < width; ++j) s[i * N + j] = j < count ? s[i * N + j] * static_cast<T>(a.scale) : T(0);
  }
}

// The running softmax of a block of queries.
template <class T>
struct Softmax {
  using V = Vec<T>;
  T* m;  // [M]: -inf: nothing seen yet
  T* l;  // [M, lanes]: lane by lane
  // m need not be the largest score: any near it keeps the exponentials in range, and a new one has its price.
  static constexpr T slack = 5;

  Softmax(T* room, std::int64_t rows) : m(room), l(room + rows) {
    for (std::int64_t i = 0; i < rows; ++i) m[i] = -std::numeric_limits<T>::infinity();
    for (std::int64_t i = 0; i < rows * static_cast<std::int64_t>(V::size); ++i) l[i] = 0;
  }
  T* lanes(std::int64_t i) const { return l + i * static_cast<std::int64_t>(V::size); }

  // Makes exponentials of row i of scores s, the largest of which are given; o [cols] is the row's context so far.
  void add(std::int64_t i, const V& most, std::int64_t width, T* s, T* o, std::int64_t cols) const {
    V sum = load<V>(lanes(i));
    if (xsimd::any(most > V(m[i] + slack))) {
      const T high = max_lanes(most);
      if (m[i] != -std::numeric_limits<T>::infinity()) {
        const T shrink = std::exp(m[i] - high);
        sum = sum * V(shrink);
        copy_scaled(o, shrink, cols, o);
      }
      m[i] = high;
    }
    // Of a row that has seen nothing yet all scores are -inf, and so are their differences from 0.
    const V from(m[i] == -std::numeric_limits<T>::infinity() ? T(0) : m[i]);
    for (std::int64_t j = 0; j < width; j += V::size) {
      const V p = exp_of(load<V>(s + j) - from);
      p.store_unaligned(s + j);
      sum = sum + p;
    }
    sum.store_unaligned(lanes(i));
  }
};

// Makes weights of row i of scaled products s. Those of hidden keys are exactly 0: e^-inf, unless the row has no
// softmax.
template <class T>
void row_weights(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j0,
                 std::int64_t count, std::int64_t width, const SoftmaxStats<const T>& stats, T* s) {
  using V = Vec<T>;
  row_scores(a, b, h, i, j0, count, width, s);
  const std::int64_t row = (b * a.H + h) * a.Sq + i;
  const V m(stats.m[row]), inv_l(stats.inv_l[row]);
  for (std::int64_t j = 0; j < width; j += V::size) (exp_of(load<V>(s + j) - m) * inv_l).store_unaligned(s + j);
  if (std::isnan(stats.inv_l[row])) clear_hidden(a, b, h, i, j0, count, width, s);
}

// c [m, n] += op(a) b as tile_product<TransA>, but rows of b that aren't finite are multiplied for those rows of c
// alone that see them: sees(row of c, row of b). a is 0 for all others.
template <bool TransA, class T, class Sees>
void visible_product(std::int64_t m, std::int64_t n, std::int64_t k, const T* a, const T* b, std::int64_t ldb, T* c,
                     std::int64_t ldc, T alpha, const Sees& sees, T* scratch) {
  const auto element = [](auto* x, std::int64_t row, std::int64_t p) {
    return x + (TransA ? p * N + row : row * N + p);
  };
  T* const finite_a = scratch;
  T* const finite_b = scratch + N * N;
  bool all = true;
  for (std::int64_t p = 0; p < k; ++p) {
    const T* const from = b + p * ldb;
    T* const to = finite_b + p * n;
    if (sum_lanes(copy_scaled(from, T(1), n, to)) == T(0)) continue;
    if (all)
      for (std::int64_t i = 0; i < (TransA ? k : m) * N; ++i) finite_a[i] = a[i];
    all = false;
    for (std::int64_t j = 0; j < n; ++j) to[j] = 0;
    for (std::int64_t i = 0; i < m; ++i) {
      *element(finite_a, i, p) = 0;
      if (!sees(i, p)) continue;
      const T weight = *element(a, i, p);
      for (std::int64_t j = 0; j < n; ++j) c[i * ldc + j] += alpha * (weight * from[j]);
    }
  }
  if (all)
    tile_product<TransA>(m, n, k, alpha, a, N, b, ldb, c, ldc, true);
  else
    tile_product<TransA>(m, n, k, alpha, finite_a, N, finite_b, n, c, ldc, true);
}

// The contexts of a block of queries from weights that are normalised first: they are as large as the values, at most.
template <class T>
void exact_contexts(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows,
                    const T* keys, const HeadView<T>& out, const SoftmaxStats<const T>& stats, T* scratch) {
  const std::int64_t kv = h / (a.H / a.kv_heads);
  T* const s = scratch;
  T* const o = s + query_block * N;
  for (std::int64_t c = 0; c < rows * a.Dv; ++c) o[c] = 0;
  const std::int64_t end = visible(a, i0 + rows - 1);
  for (std::int64_t j0 = first_visible(a, i0) / N * N; j0 < end; j0 += N) {
    const std::int64_t count = block_keys(a, i0 + rows - 1, j0), width = whole_vectors<T>(count);
    products(a, b, h, i0, rows, j0, count, keys, s);
    for (std::int64_t i = 0; i < rows; ++i) {
      row_weights(a, b, h, i0 + i, j0, count, width, stats, s + i * N);
      drop(a, b, h, i0 + i, j0, count, width, s + i * N);
    }
    const auto sees = [&](std::int64_t i, std::int64_t j) { return VisibleKeys<T>(a, b, h, i0 + i, j0, count)(j); };
    visible_product<false>(rows, a.Dv, count, s, a.v.at(b, kv, j0), a.v.row, o, a.Dv, T(1), sees,
                           checked_room(a, scratch));
  }
  for (std::int64_t i = 0; i < rows; ++i) copy_scaled(o + i * a.Dv, T(1), a.Dv, out.at(b, h, i0 + i));
}

template <class T>
bool forward(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows, const T* keys,
             const HeadView<T>& out, const SoftmaxStats<T>& stats, T* scratch) {
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
      drop(a, b, h, i0 + i, j0, count, width, row);
    }
    tile_product<false>(rows, a.Dv, count, T(1), s, N, a.v.at(b, kv, j0), a.v.row, o, a.Dv, j0 > begin);
  }
  const std::int64_t row = (b * a.H + h) * a.Sq + i0;
  V zero(T(0));  // x times 0 is 0 or NaN
  for (std::int64_t i = 0; i < rows; ++i) {
    T m = softmax.m[i], inv_l = 1 / sum_lanes(load<V>(softmax.lanes(i)));
    if (!std::isfinite(m + inv_l)) {
      const bool blind = std::isinf(inv_l) && !sees_any(a, b, h, i0 + i);
      m = 0;
      inv_l = blind ? T(0) : std::numeric_limits<T>::quiet_NaN();
    }
    zero = zero + copy_scaled(o + i * a.Dv, inv_l, a.Dv, out.at(b, h, i0 + i));
    stats.m[row + i] = m;
    stats.inv_l[row + i] = inv_l;
  }
  if (sum_lanes(zero) == T(0)) return true;
  exact_contexts(a, b, h, i0, rows, keys, out, {stats.m, stats.inv_l}, scratch);
  return false;
}

template <class T>
void weights(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows, const T* keys,
             const SoftmaxStats<const T>& stats, T* w, T* s) {
  for (std::int64_t j0 = 0; j0 < a.Sk; j0 += N) {
    const std::int64_t left = a.Sk - j0 < N ? a.Sk - j0 : N;
    products(a, b, h, i0, rows, j0, left, keys, s);
    for (std::int64_t i = 0; i < rows; ++i) {
      row_weights(a, b, h, i0 + i, j0, left, whole_vectors<T>(left), stats, s + i * N);
      for (std::int64_t j = 0; j < left; ++j) w[((b * a.H + h) * a.Sq + i0 + i) * a.Sk + j0 + j] = s[i * N + j];
    }
  }
}

// to += x
template <class T>
void add_row(const T* x, std::int64_t count, T* to) {
  using V = Vec<T>;
  constexpr std::int64_t W = V::size;
  for (std::int64_t j = 0; j < count; j += W) {
    if (j + W <= count)
      (load<V>(to + j) + load<V>(x + j)).store_unaligned(to + j);
    else
      store_part(load_part<V>(to + j, count - j) + load<V>(x + j), to + j, count - j);
  }
}

template <class T>
void backward(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t j0, const T* keys, const T* values,
              const SoftmaxStats<const T>& stats, const T* delta, const HeadView<const T>& dout, bool check, T* dq,
              std::int64_t dq_row, T* dk, T* dv, const HeadView<T>& dbias, T* scratch) {
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
  const T scale = static_cast<T>(a.scale);
  for (; i0 < end; i0 += step) {
    const std::int64_t rows = end - i0 < step ? end - i0 : step;
    const std::int64_t limit = visible(a, i0 + rows - 1) - j0, count = limit < all ? limit : all;
    const std::int64_t width = whole_vectors<T>(count);
    products(a, b, h, i0, rows, j0, count, keys, p);
    tile_product<false>(rows, width, a.Dv, T(1), dout.at(b, h, i0), dout.row, values + j0 * a.Dv, N, ds, N, false);
    for (std::int64_t i = 0; i < rows; ++i) {
      T* const weight = p + i * N;
      T* const dscore = ds + i * N;
      row_weights(a, b, h, i0 + i, j0, count, width, stats, weight);
      alignas(64) T factors[N];
      if (a.dropout > 0) {
        drop_factors(a, b, h, i0 + i, j0, count, width, factors);
        multiply_row(dscore, factors, width);
      }
      const V sum(delta[(b * a.H + h) * a.Sq + i0 + i]);
      for (std::int64_t j = 0; j < width; j += V::size)  // dS = P (dP - delta)
        (load<V>(weight + j) * (load<V>(dscore + j) - sum)).store_unaligned(dscore + j);
      if (check) clear_hidden(a, b, h, i0 + i, j0, count, width, dscore);
      if (dbias.data) add_row(dscore, count, dbias.at(b, h, i0 + i) + j0);
      if (a.dropout > 0) multiply_row(weight, factors, width);
    }
    const T* const q = a.q.at(b, h, i0);
    const T* const k = a.k.at(b, kv, j0);
    if (check) {
      const auto sees = [&](std::int64_t i, std::int64_t j) { return VisibleKeys<T>(a, b, h, i0 + i, j0, count)(j); };
      const auto seen_by = [&](std::int64_t j, std::int64_t i) { return sees(i, j); };
      T* const room = checked_room(a, scratch);
      visible_product<true>(count, a.Dv, rows, p, dout.at(b, h, i0), dout.row, dv, a.Dv, T(1), seen_by, room);
      visible_product<true>(count, a.D, rows, ds, q, a.q.row, dk, a.D, scale, seen_by, room);
      visible_product<false>(rows, a.D, count, ds, k, a.k.row, dq + i0 * dq_row, dq_row, scale, sees, room);
    } else {
      tile_product<true>(count, a.Dv, rows, T(1), p, N, dout.at(b, h, i0), dout.row, dv, a.Dv, true);
      tile_product<true>(count, a.D, rows, scale, ds, N, q, a.q.row, dk, a.D, true);
      tile_product<false>(rows, a.D, count, scale, ds, N, k, a.k.row, dq + i0 * dq_row, dq_row, true);
    }
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
