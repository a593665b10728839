#include "kernels/attention.hpp"

#include "kernels/attention_rows.hpp"
#include "kernels/attention_tiles.hpp"

// Letters as in attention_rows.hpp. Tiles: WideTiles or Bf16Tiles, of attention_tiles.hpp.
namespace fit::kernels {
namespace {

// The width of a block that a query block needs to look at: up to the last query's last key.
std::int64_t block_keys(const AttentionParams& a, std::int64_t last_query, std::int64_t j0) {
  const std::int64_t n = visible(a, last_query) - j0;
  return n < N ? n : N;
}

// c [m, n] += op(a) b as macro_kernel<TransA>, but rows of b that aren't finite are multiplied for those rows of c
// alone that see them: sees(row of c, row of b). a is 0 for all others, and finite or NaN for these: weights are, and
// where a key or a query isn't finite, its scores aren't, so that their gradients are 0 or NaN.
template <bool TransA, class T, class W, class Sees>
void visible_product(std::int64_t m, std::int64_t n, std::int64_t k, const W* a, const T* b, std::int64_t ldb, W* c,
                     std::int64_t ldc, const Sees& sees, Arena<W> arena) {
  W* const finite = arena.take(query_block * n);
  for (std::int64_t p = 0; p < k; ++p) {
    const T* const from = b + p * ldb;
    W* const to = finite + p * n;
    if (sum_lanes(copy_scaled(from, W(1), n, to)) == W(0)) continue;
    for (std::int64_t j = 0; j < n; ++j) to[j] = 0;
    for (std::int64_t i = 0; i < m; ++i) {
      if (!sees(i, p)) continue;
      const W weight = a[TransA ? p * N + i : i * N + p];
      for (std::int64_t j = 0; j < n; ++j) c[i * ldc + j] += weight * static_cast<W>(from[j]);
    }
  }
  macro_kernel<TransA>(m, n, k, W(1), a, N, finite, n, c, ldc, true);
}

// The contexts of a block of queries from weights that are normalised first: they are as large as the values, at most.
template <class Tiles, class T, class W>
void exact_contexts(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows,
                    const Tiles& tiles, const HeadView<T>& out, const SoftmaxStats<const W>& stats, W* s, W* o,
                    const Arena<W>& arena) {
  const std::int64_t kv = h / (a.H / a.kv_heads);
  for (std::int64_t c = 0; c < rows * a.Dv; ++c) o[c] = 0;
  const std::int64_t end = visible(a, i0 + rows - 1);
  for (std::int64_t j0 = first_visible(a, i0) / N * N; j0 < end; j0 += N) {
    const std::int64_t count = block_keys(a, i0 + rows - 1, j0), width = Tiles::width(count);
    tiles.scores(j0, count, s);
    for (std::int64_t i = 0; i < rows; ++i) {
      row_weights<Tiles::scaled>(a, b, h, i0 + i, j0, count, width, stats, s + i * N);
      drop(a, b, h, i0 + i, j0, count, width, s + i * N);
    }
    const auto sees = [&](std::int64_t i, std::int64_t j) { return VisibleKeys<W>(a, b, h, i0 + i, j0, count)(j); };
    visible_product<false>(rows, a.Dv, count, s, a.v.at(b, kv, j0), a.v.row, o, a.Dv, sees, arena);
  }
  for (std::int64_t i = 0; i < rows; ++i) copy_scaled(o + i * a.Dv, W(1), a.Dv, out.at(b, h, i0 + i));
}

template <class Tiles, class T = typename Tiles::T, class W = typename Tiles::W>
bool forward(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows, const W* keys,
             const HeadView<T>& out, const SoftmaxStats<W>& stats, W* scratch) {
  Arena<W> arena(scratch);
  const std::int64_t o_row = filled_to(Tiles::step, a.Dv);
  W* const s = arena.take(query_block * N);
  W* const o = arena.take(query_block * o_row);
  const Softmax<W> softmax(arena.take(query_block * N), rows);
  Tiles tiles(a, b, h, keys, nullptr, arena);
  tiles.take_queries(i0, rows);
  const typename Tiles::Forward products(tiles, arena);
  const std::int64_t begin = first_visible(a, i0) / N * N, end = visible(a, i0 + rows - 1);
  if (end == 0)
    for (std::int64_t c = 0; c < rows * o_row; ++c) o[c] = 0;

  for (std::int64_t j0 = begin; j0 < end; j0 += N) {
    const std::int64_t count = block_keys(a, i0 + rows - 1, j0), width = Tiles::width(count);
    tiles.scores(j0, count, s);
    for (std::int64_t i = 0; i < rows; ++i) {
      W* const row = s + i * N;
      softmax.add(i, row_scores<Tiles::scaled>(a, b, h, i0 + i, j0, count, width, row), width, row, o + i * o_row,
                  j0 > begin ? a.Dv : 0);
      drop(a, b, h, i0 + i, j0, count, width, row);
    }
    products.contexts(j0, count, s, o, o_row, j0 > begin);
  }
  const std::int64_t row = (b * a.H + h) * a.Sq + i0;
  Vec<W> zero(W(0));
  for (std::int64_t i = 0; i < rows; ++i) {
    W m = softmax.m[i], inv_l = 1 / sum_lanes(load<Vec<W>>(softmax.lanes(i)));
    if (!std::isfinite(m + inv_l)) {
      const bool blind = std::isinf(inv_l) && !sees_any(a, b, h, i0 + i);
      m = 0;
      inv_l = blind ? W(0) : std::numeric_limits<W>::quiet_NaN();
    }
    zero = zero + copy_scaled(o + i * o_row, inv_l, a.Dv, out.at(b, h, i0 + i));
    stats.m[row + i] = m;
    stats.inv_l[row + i] = inv_l;
  }
  if (sum_lanes(zero) == W(0)) return true;
  exact_contexts(a, b, h, i0, rows, tiles, out, SoftmaxStats<const W>{stats.m, stats.inv_l}, s, o, arena);
  return false;
}

template <class Tiles, class T = typename Tiles::T, class W = typename Tiles::W>
void weights(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows, const W* keys,
             const SoftmaxStats<const W>& stats, W* w, W* scratch) {
  Arena<W> arena(scratch);
  W* const s = arena.take(query_block * N);
  Tiles tiles(a, b, h, keys, nullptr, arena);
  tiles.take_queries(i0, rows);
  for (std::int64_t j0 = 0; j0 < a.Sk; j0 += N) {
    const std::int64_t left = a.Sk - j0 < N ? a.Sk - j0 : N;
    tiles.scores(j0, left, s);
    for (std::int64_t i = 0; i < rows; ++i) {
      row_weights<Tiles::scaled>(a, b, h, i0 + i, j0, left, Tiles::width(left), stats, s + i * N);
      for (std::int64_t j = 0; j < left; ++j) w[((b * a.H + h) * a.Sq + i0 + i) * a.Sk + j0 + j] = s[i * N + j];
    }
  }
}

// One head of queries over one block of keys: adds to dk, dv, dq (of queries 0 …) and dbias.
template <class Tiles, class T = typename Tiles::T, class W = typename Tiles::W>
void backward_head(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t j0, const W* keys,
                   const W* queries, const SoftmaxStats<const W>& stats, const W* delta, const HeadView<const T>& dout,
                   bool check, W* dq, W* dk, W* dv, const HeadView<W>& dbias, Arena<W> arena) {
  using V = Vec<W>;
  const std::int64_t kv = h / (a.H / a.kv_heads);
  const std::int64_t k_row = filled_to(Tiles::step, a.D), v_row = filled_to(Tiles::step, a.Dv);
  W* const p = arena.take(query_block * N);
  W* const ds = arena.take(query_block * N);
  const std::int64_t all = a.Sk - j0 < N ? a.Sk - j0 : N;
  Tiles tiles(a, b, h, keys, queries, arena);
  typename Tiles::Backward products(tiles, dout, j0, all, arena);
  // The first query that sees a key of this block, or one before it.
  std::int64_t i0 = a.causal ? j0 - (a.Sk - a.Sq) : 0;
  i0 = i0 < 0 ? 0 : i0 / Tiles::step * Tiles::step;
  // The end of those whose window reaches back to one, or one behind it: dq may be added to in whole steps.
  std::int64_t end = a.window > 0 ? j0 + all - 1 + a.window - (a.Sk - a.Sq) : a.Sq;
  end = filled_to(Tiles::step, end < 0 ? 0 : end);
  if (end > a.Sq) end = a.Sq;
  const std::int64_t step = query_step(a);
  for (; i0 < end; i0 += step) {
    const std::int64_t rows = end - i0 < step ? end - i0 : step;
    const std::int64_t limit = visible(a, i0 + rows - 1) - j0, count = limit < all ? limit : all;
    const std::int64_t width = Tiles::width(count);
    tiles.take_queries(i0, rows);
    tiles.scores(j0, count, p);
    products.dweights(count, ds);
    for (std::int64_t i = 0; i < rows; ++i) {
      W* const weight = p + i * N;
      W* const dscore = ds + i * N;
      alignas(64) W factors[N];
      if (a.dropout > 0) {
        drop_factors(a, b, h, i0 + i, j0, count, width, factors);
        multiply_row(dscore, factors, width);
      }
      const V sum(delta[(b * a.H + h) * a.Sq + i0 + i]);
      row_weights<Tiles::scaled>(  // dS = P (dP - delta)
          a, b, h, i0 + i, j0, count, width, stats, weight,
          [&](std::int64_t j, const V& w) { (w * (load<V>(dscore + j) - sum)).store_unaligned(dscore + j); });
      if (check) clear_hidden(a, b, h, i0 + i, j0, count, width, dscore);
      if (dbias.data) add_row(dscore, count, dbias.at(b, h, i0 + i) + j0);
      if (a.dropout > 0) multiply_row(weight, factors, width);
    }
    W* const dq_at = dq + i0 * k_row;
    if (!check) {
      products.gradients(count, p, ds, dq_at, dk, dv);
      continue;
    }
    const auto sees = [&](std::int64_t i, std::int64_t j) { return VisibleKeys<W>(a, b, h, i0 + i, j0, count)(j); };
    const auto seen_by = [&](std::int64_t j, std::int64_t i) { return sees(i, j); };
    visible_product<true>(count, a.Dv, rows, p, dout.at(b, h, i0), dout.row, dv, v_row, seen_by, arena);
    visible_product<true>(count, a.D, rows, ds, a.q.at(b, h, i0), a.q.row, dk, k_row, seen_by, arena);
    visible_product<false>(rows, a.D, count, ds, a.k.at(b, kv, j0), a.k.row, dq_at, k_row, sees, arena);
  }
}

// What is added up for a block of keys, [N, filled features] or, transposed, [filled features, N], times factor.
template <class T, class W>
bool write_gradient(bool transposed, std::int64_t rows, std::int64_t features, std::int64_t row, W factor,
                    const W* sums, T* to, std::int64_t to_row, Arena<W> arena) {
  if (!transposed) return copy_finite(rows, features, factor, sums, row, to, to_row);
  W* const straight = arena.take(N * row);
  transpose(features, rows, sums, N, straight, row);  // NOLINT(readability-suspicious-call-argument)
  return copy_finite(rows, features, factor, straight, row, to, to_row);
}

template <class Tiles, class T = typename Tiles::T, class W = typename Tiles::W>
bool backward(const Attention<T>& a, std::int64_t b, std::int64_t kv, std::int64_t j0, const W* keys, const W* queries,
              const SoftmaxStats<const W>& stats, const W* delta, const HeadView<const T>& dout, bool check, W* dq,
              const AttentionGradients<T>& d, W* scratch) {
  Arena<W> arena(scratch);
  const std::int64_t k_row = filled_to(Tiles::step, a.D), v_row = filled_to(Tiles::step, a.Dv);
  const std::int64_t dq_size = filled_to(Tiles::step, a.Sq) * k_row, group = a.H / a.kv_heads;
  W* const dk = arena.take(N * k_row);
  W* const dv = arena.take(N * v_row);
  const std::int64_t rows = a.Sk - j0 < N ? a.Sk - j0 : N, used = Tiles::transposed ? N : rows;
  for (std::int64_t i = 0; i < used * k_row; ++i) dk[i] = 0;
  for (std::int64_t i = 0; i < used * v_row; ++i) dv[i] = 0;
  for (std::int64_t g = 0; g < group; ++g)
    backward_head<Tiles>(a, b, kv * group + g, j0, keys, queries + g * Tiles::queries_size(a), stats, delta, dout,
                         check, dq + g * dq_size, dk, dv, d.dbias, arena);
  const bool transposed = Tiles::transposed && !check;
  const bool dk_finite =
      write_gradient(transposed, rows, a.D, k_row, static_cast<W>(a.scale), dk, d.dk.at(b, kv, j0), d.dk.row, arena);
  return write_gradient(transposed, rows, a.Dv, v_row, W(1), dv, d.dv.at(b, kv, j0), d.dv.row, arena) && dk_finite;
}

template <class Tiles, class T = typename Tiles::T>
constexpr AttentionTable<T> table_of() {
  return {Tiles::step,         Tiles::begin,   Tiles::end,     Tiles::keys_size, Tiles::pack_keys, Tiles::queries_size,
          Tiles::pack_queries, forward<Tiles>, weights<Tiles>, row_dots<T>,      backward<Tiles>,  copy_finite<T>};
}

}  // namespace

template <class IsaTag, class T>
const AttentionTables<T>& attention_tables() {
  static constexpr AttentionTable<T> wide = table_of<WideTiles<T>>();
  static constexpr AttentionTables<T> same{wide, wide};
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, BFloat16>) {
    static constexpr AttentionTables<T> amx{wide, table_of<Bf16Tiles<Amx>>()},
        avx512_bf16{wide, table_of<Bf16Tiles<Avx512Bf16>>()};
    if (chosen_isa == Isa::amx) return amx;
    if (chosen_isa == Isa::avx512_bf16) return avx512_bf16;
  }
#endif
  return same;
}

template const AttentionTables<BFloat16>& attention_tables<FIT_ISA, BFloat16>();
template const AttentionTables<float>& attention_tables<FIT_ISA, float>();
template const AttentionTables<double>& attention_tables<FIT_ISA, double>();

}  // namespace fit::kernels
