#include "attention/kernel/tiles.hpp"

#include "attention/kernel/kernel.hpp"
#include "attention/kernel/rows.hpp"
#include "attention/kernel/score_rows.hpp"

// Letters as in rows.hpp. Tiles: VectorTiles or Bf16Tiles, of tiles.hpp.
namespace fit::kernels {
namespace {

// c += s x [rows, n], or c += s' x [count, n] if `transposed`, for the weights or gradients s of a tile. A row of x
// that is not finite is multiplied only for the rows of c that attend to it. s is 0 for all other rows of c, and finite
// or NaN for these: weights are, and a key or query that is not finite has scores that are not, so their gradients are
// 0 or NaN.
template <class T, class W>
FIT_ONE_COPY void attended_product(const Visibility& a, const TilePlace& t, bool transposed, const W* s, const T* x,
                                   std::int64_t ldx, std::int64_t n, W* c, std::int64_t ldc, Arena<W> arena) {
  const std::int64_t m = transposed ? t.count : t.rows, k = transposed ? t.rows : t.count;
  W* const finite = arena.take(query_block * n);
  for (std::int64_t p = 0; p < k; ++p) {
    const T* const from = x + p * ldx;
    W* const to = finite + p * n;
    if (no_nan(copy_scaled(from, W(1), n, to))) continue;
    for (std::int64_t j = 0; j < n; ++j) to[j] = 0;
    for (std::int64_t i = 0; i < m; ++i) {
      const std::int64_t query = transposed ? p : i, key = transposed ? i : p;
      if (!a.attends(t.b, t.h, t.i0 + query, t.j0 + key)) continue;
      const W weight = s[query * N + key];
      for (std::int64_t j = 0; j < n; ++j) c[i * ldc + j] += weight * static_cast<W>(from[j]);
    }
  }
  macro_kernel({m, n, k}, W(1), {s, N, transposed}, {finite, n}, {c, ldc}, Write::add);
}

// The keys from j0 on that a block of queries reads: up to the last key of the last query.
inline std::int64_t keys_from(std::int64_t j0, std::int64_t end) { return end - j0 < N ? end - j0 : N; }

// Multiplies a block of queries by its keys, tile by tile, without empty tiles. Calls each_row(i, row, its products in
// s) for the queries, and then each_tile(its place). With a function of scores, its results are given instead of
// products.
template <class T, class W, class Tiles, class EachRow, class EachTile>
void over_keys(const Attention<T>& a, ScoreRows<W>& score, const QueryBlock& q, Tiles& tiles, W* s,
               const EachRow& each_row, const EachTile& each_tile) {
  const Interval range = a.keys_of({q.i0, q.i0 + q.rows});
  tiles.take_queries(q.i0, q.rows);
  for (std::int64_t j0 = range.first / N * N; j0 < range.end; j0 += N) {
    if (a.skips(q.b, q.h, q.i0, j0)) continue;
    const std::int64_t count = keys_from(j0, range.end);
    tiles.take_keys(j0, count);
    tiles.scores(count, s);
    const TilePlace tile{q, j0, count, Tiles::width(count), Tiles::scaled ? 1 : a.scale};
    if (score) {
      score.take_tile(a, tile);
      for (std::int64_t i = 0; i < q.rows; i += score_block) score.forward(a, i, s + i * N, s + i * N);
    }
    for (std::int64_t i = 0; i < q.rows; ++i) each_row(i, Row<W>(a, tile, i, a.row(q.b, q.h, q.i0 + i, j0)), s + i * N);
    each_tile(tile);
  }
}

// The contexts of a block of queries from weights that are normalised first: no context is larger than the values.
template <class Tiles, class T, class W>
void exact_contexts(const Attention<T>& a, ScoreRows<W>& score, const QueryBlock& q, Tiles& tiles,
                    const HeadView<T>& out, const SoftmaxStats<const W>& stats, W* s, W* o, const Arena<W>& arena) {
  for (std::int64_t c = 0; c < q.rows * a.Dv; ++c) o[c] = 0;
  over_keys(
      a, score, q, tiles, s,
      [&](std::int64_t, const Row<W>& row, W* x) {
        row_weights(row, stats, x, x);
        drop(row, x);
      },
      [&](const TilePlace& t) {
        attended_product(a, t, false, s, a.v.at(t.b, t.h / a.group(), t.j0), a.v.row, a.Dv, o, a.Dv, arena);
      });
  (void)copy_finite(q.rows, a.Dv, W(1), o, a.Dv, out.at(q.b, q.h, q.i0), out.row);
}

template <class Tiles, class T = typename Tiles::T, class W = typename Tiles::W>
bool forward(const Attention<T>& a, const QueryBlock& q, const W* keys, const HeadView<T>& out,
             const SoftmaxStats<W>& stats, W* workspace) {
  Arena<W> arena(workspace);
  const std::int64_t o_row = filled_to(Tiles::step, a.Dv);
  W* const s = arena.take(query_block * N);
  W* const o = arena.take(query_block * o_row);
  const Softmax<W> softmax(arena.take(query_block * N), q.rows, a.sink ? a.sink + q.h : nullptr);
  ScoreRows<W> score(a, q.b, q.h, arena);
  Tiles tiles(a, q.b, q.h, keys, nullptr, nullptr, arena);
  bool any = false;  // whether o holds contexts

  over_keys(
      a, score, q, tiles, s,
      [&](std::int64_t i, const Row<W>& row, W* x) {
        softmax.add(i, row_scores(row, x), row.width, x, o + i * o_row, any ? a.Dv : 0);
        drop(row, x);
      },
      [&](const TilePlace& t) {
        tiles.contexts(t.count, s, o, o_row, any);
        any = true;
      });
  for (std::int64_t c = 0; !any && c < q.rows * o_row; ++c) o[c] = 0;
  const std::int64_t row = (q.b * a.H + q.h) * a.Sq + q.i0;
  for (std::int64_t i = 0; i < q.rows; ++i) {
    W m = softmax.m[i], inv_l = 1 / softmax.sum(i);
    if (!std::isfinite(m + inv_l)) {
      const Interval query{q.i0 + i, q.i0 + i + 1};
      const bool fully_masked = std::isinf(inv_l) && a.state(q.b, q.h, query, {0, a.Sk}) == TileState::empty;
      m = 0;
      inv_l = fully_masked ? W(0) : std::numeric_limits<W>::quiet_NaN();
    }
    stats.m[row + i] = m;
    stats.inv_l[row + i] = inv_l;
  }
  if (copy_rows(q.rows, a.Dv, stats.inv_l + row, 1, o, o_row, out.at(q.b, q.h, q.i0), out.row)) return true;
  exact_contexts(a, score, q, tiles, out, SoftmaxStats<const W>{stats.m, stats.inv_l}, s, o, arena);
  return false;
}

template <class Tiles, class T = typename Tiles::T, class W = typename Tiles::W>
void weights(const Attention<T>& a, const QueryBlock& q, const W* keys, const SoftmaxStats<const W>& stats, W* w,
             W* workspace) {
  Arena<W> arena(workspace);
  W* const s = arena.take(query_block * N);
  ScoreRows<W> score(a, q.b, q.h, arena);
  Tiles tiles(a, q.b, q.h, keys, nullptr, nullptr, arena);
  for (std::int64_t c = 0; c < q.rows * a.Sk; ++c) w[c] = 0;
  over_keys(
      a, score, q, tiles, s,
      [&](std::int64_t i, const Row<W>& row, W* x) {
        row_weights(row, stats, x, x);
        for (std::int64_t j = 0; j < row.count; ++j) w[i * a.Sk + row.j0 + j] = x[j];
      },
      [](const TilePlace&) {});
}

// Makes the weights p of a tile, and of the gradients ds of its weights those of its products. s: the products. delta:
// of all rows.
template <class T, class W>
void score_gradients(const AttentionBackward<T>& call, ScoreRows<W>& score, const TilePlace& tile, const W* delta, W* s,
                     W* p, W* ds) {
  const Attention<T>& a = call.a;
  if (score) score.take_tile(a, tile);
  for (std::int64_t first = 0; first < tile.rows;) {
    const auto [some, results] = score ? score.forward(a, first, s + first * N, nullptr) : ScoreBlock<W>{tile.rows, s};
    std::uint64_t attends[score_block];
    for (std::int64_t i = first; i < first + some; ++i) {
      const Row<W> r(a, tile, i, a.row(tile.b, tile.h, tile.i0 + i, tile.j0));
      W* const weight = p + i * N;
      W* const dscore = ds + i * N;
      alignas(64) W factors[N];
      if (a.dropout.p > 0) {
        drop_factors(r, factors);
        multiply_row(dscore, factors, r.width);
      }
      row_weights(r, call.stats, results + (i - first) * N, weight, dscore, delta[r.index()]);
      if (a.dropout.p > 0) multiply_row(weight, factors, r.width);
      if (score) attends[i - first] = r.attends;
    }
    if (score) score.backward(attends, ds + first * N, call.d.dtables);
    first += some;
  }
  if (score) score.leave_tile(call.d.dtables);
}

// Adds the gradients ds of a tile of scores to dbias, if there is one. With `check`, clears masked ones first.
template <class T, class W>
void bias_gradients(const AttentionBackward<T>& call, const TilePlace& tile, W* ds) {
  using V = Vec<W>;
  const Attention<T>& a = call.a;
  const HeadView<W>& dbias = call.d.dbias;
  for (std::int64_t i = 0; i < tile.rows && (call.check || dbias.data); ++i) {
    const Row<W> r(a, tile, i, a.row(tile.b, tile.h, tile.i0 + i, tile.j0));
    W* const dscore = ds + i * N;
    if (call.check) clear_masked(r, dscore);
    if (!dbias.data) continue;
    W* const to = dbias.at(tile.b, tile.h, tile.i0 + i) + tile.j0;
    transform(
        to, tile.count, [](const V& x, const V& y) { return x + y; }, to, dscore);
  }
}

// One head of queries over one block of keys: adds to dk, dv, dq (of queries 0 …), dbias and dtables.
template <class Tiles, class T = typename Tiles::T, class W = typename Tiles::W>
void backward_head(const AttentionBackward<T>& call, std::int64_t b, std::int64_t h, std::int64_t j0, const W* keys,
                   const W* queries, const W* delta, W* dq, W* dk, W* dv, Arena<W> arena) {
  const Attention<T>& a = call.a;
  const std::int64_t k_row = filled_to(Tiles::step, a.D), v_row = filled_to(Tiles::step, a.Dv);
  W* const p = arena.take(query_block * N);
  W* const ds = arena.take(query_block * N);
  W* const scores = a.score ? arena.take(query_block * N) : p;
  const std::int64_t all = keys_from(j0, a.Sk);
  ScoreRows<W> score(a, b, h, arena);
  Tiles tiles(a, b, h, keys, queries, &call.dout, arena);
  tiles.take_keys(j0, all);
  // dq is added to in whole steps. With tiles, blocks of queries are those of the tiles.
  const Interval range = a.queries_of({j0, j0 + all});
  const std::int64_t padded_end = filled_to(Tiles::step, range.end), end = padded_end < a.Sq ? padded_end : a.Sq;
  const std::int64_t step = query_step(a), align = a.tiles.data ? step : Tiles::step;
  for (std::int64_t i0 = range.first / align * align; i0 < end; i0 += step) {
    if (a.skips(b, h, i0, j0)) continue;
    const std::int64_t rows = end - i0 < step ? end - i0 : step;
    const std::int64_t limit = a.range(i0 + rows - 1).end - j0, count = limit < all ? limit : all;
    const TilePlace tile{{b, h, i0, rows}, j0, count, Tiles::width(count), Tiles::scaled ? 1 : a.scale};
    tiles.take_queries(i0, rows);
    tiles.scores(count, scores);
    tiles.dweights(count, ds);
    score_gradients(call, score, tile, delta, scores, p, ds);
    bias_gradients(call, tile, ds);
    W* const dq_at = dq + i0 * k_row;
    if (!call.check) {
      tiles.gradients(count, p, ds, dq_at, dk, dv);
      continue;
    }
    attended_product(a, tile, true, p, call.dout.at(b, h, i0), call.dout.row, a.Dv, dv, v_row, arena);
    attended_product(a, tile, true, ds, a.q.at(b, h, i0), a.q.row, a.D, dk, k_row, arena);
    attended_product(a, tile, false, ds, a.k.at(b, h / a.group(), j0), a.k.row, a.D, dq_at, k_row, arena);
  }
  if (score) score.leave_head(call.d.dtables);
}

// Writes the sums of a block of keys, [N, padded features] or, transposed, [padded features, N], times factor.
template <class T, class W>
bool write_gradient(bool transposed, std::int64_t rows, std::int64_t features, std::int64_t row, W factor,
                    const W* sums, T* to, std::int64_t to_row, Arena<W> arena) {
  if (!transposed) return copy_finite(rows, features, factor, sums, row, to, to_row);
  W* const straight = arena.take(N * row);
  transpose(features, rows, sums, N, straight, row);  // NOLINT(readability-suspicious-call-argument)
  return copy_finite(rows, features, factor, straight, row, to, to_row);
}

template <class Tiles, class T = typename Tiles::T, class W = typename Tiles::W>
bool backward(const AttentionBackward<T>& call, const BackwardTask& task, const W* keys, const W* queries,
              const W* delta, W* dq, W* workspace) {
  const Attention<T>& a = call.a;
  const std::int64_t k_row = filled_to(Tiles::step, a.D), v_row = filled_to(Tiles::step, a.Dv);
  const std::int64_t dq_size = filled_to(Tiles::step, a.Sq) * k_row, b = task.batch, kv = task.head;
  const bool transposed = Tiles::transposed && !call.check;
  bool finite = true;
  for (std::int64_t j0 = task.first_key; j0 <= task.last_key; j0 += N) {
    Arena<W> arena(workspace);
    W* const dk = arena.take(N * k_row);
    W* const dv = arena.take(N * v_row);
    const std::int64_t rows = keys_from(j0, a.Sk), used = Tiles::transposed ? N : rows;
    for (std::int64_t i = 0; i < used * k_row; ++i) dk[i] = 0;
    for (std::int64_t i = 0; i < used * v_row; ++i) dv[i] = 0;
    for (std::int64_t g = 0; g < a.group(); ++g)
      backward_head<Tiles>(call, b, kv * a.group() + g, j0, keys, queries + g * Tiles::queries_size(a), delta,
                           dq + g * dq_size, dk, dv, arena);
    finite &= write_gradient(transposed, rows, a.D, k_row, static_cast<W>(a.scale), dk, call.d.dk.at(b, kv, j0),
                             call.d.dk.row, arena);
    finite &= write_gradient(transposed, rows, a.Dv, v_row, W(1), dv, call.d.dv.at(b, kv, j0), call.d.dv.row, arena);
  }
  return finite;
}

template <class Tiles, class T = typename Tiles::T>
constexpr AttentionTable<T> table_of() {
  return {Tiles::step,         Tiles::begin,   Tiles::end,     Tiles::keys_size, Tiles::pack_keys, Tiles::queries_size,
          Tiles::pack_queries, forward<Tiles>, weights<Tiles>, row_dots<T>,      backward<Tiles>,  copy_finite<T>};
}

}  // namespace

template <class IsaTag, class T>
const AttentionTables<T>& attention_tables() {
  static constexpr AttentionTable<T> vectors = table_of<VectorTiles<T>>();
  static constexpr AttentionTables<T> same{vectors, vectors};
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, BFloat16>) {
    static constexpr AttentionTables<T> amx{vectors, table_of<Bf16Tiles<Amx>>()},
        avx512_bf16{vectors, table_of<Bf16Tiles<Avx512Bf16>>()};
    if (narrow_isa() == Isa::amx) return amx;
    if (narrow_isa() == Isa::avx512_bf16) return avx512_bf16;
  }
#endif
  return same;
}

template const AttentionTables<BFloat16>& attention_tables<FIT_ISA, BFloat16>();
template const AttentionTables<float>& attention_tables<FIT_ISA, float>();
template const AttentionTables<double>& attention_tables<FIT_ISA, double>();

}  // namespace fit::kernels
