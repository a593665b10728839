#pragma once
#include <cstdint>

#include "attention/kernel/score_program.hpp"
#include "attention/visibility/visibility.hpp"
#include "base/acc_type.hpp"
#include "kernels/random.hpp"
#include "kernels/simd/isa.hpp"

// Attention in tiles (FlashAttention: Dao 2023, arXiv 2307.08691). The forward pass runs over blocks of keys with a
// running softmax, and keeps two numbers of each row. The backward pass computes the weights again from them. Nothing
// of size Sq x Sk is stored.
//
// Errors: rounded by operation of the formulas below, with at least 1 chain of additions in every sum. An exponential
// has 2 units in the last place, 4 where the running softmax has changed its m, and may be 0 below the smallest normal
// number.
//
// A key that a query does not attend to has no effect on it, even if it is NaN. A key that it attends to takes part
// even if its weight is 0 or dropped: 0 times NaN is NaN.
//
// Operands, contexts and their gradients may be BFloat16. Everything else, called W here, is then float. Processors
// with instructions for BFloat16 multiply by them (matmul/): weights and their gradients are then rounded to
// BFloat16. Other processors convert blocks of operands to float. Sums are float, and rounded once when written.
namespace fit::kernels {

/// A call:  scores = score(scale q k' + bias - alibi |place(i) - j|),  weights = softmax of the scores that the query
/// attends to, and of the sink, out = (weights after dropout) v.
template <class T = void>
struct Attention;

/// A call without its operands: numbers, which an adjoint may hold.
template <>
struct Attention<void> : Visibility {
  std::int64_t B = 0, H = 0, kv_heads = 0, D = 0, Dv = 0;
  double scale = 1;           // of the products of q and k
  Dropout dropout;            // of weights; (b, h, i, j) has number dropout.first + ((b H + h) Sq + i) Sk + j
  bool reproducible = false;  // Reproducible: few queries are computed in the order of many

  [[gnu::always_inline]] std::int64_t group() const { return H / kv_heads; }  // query heads that share one of k and v
};

/// A call without q, k and v: what the rows of scores depend on.
template <class W>
struct AttentionScores : Attention<void> {
  HeadView<const W> bias;                  // [B, H, Sq, Sk]; data null: none
  const W* alibi = nullptr;                // [H]: a slope for each head, or null
  const W* sink = nullptr;                 // [H]: a score for each head that has no value, or null
  const ScoreProgram<W>* score = nullptr;  // a function of the scores, or null
};

template <class T>
struct Attention : AttentionScores<AccT<T>> {
  HeadView<const T> q, k, v;  // [B, H, Sq, D], [B, kv_heads, Sk, D], [B, kv_heads, Sk, Dv]
};

/// Two numbers of each row's softmax, [B, H, Sq] each: weight = exp(score - m) inv_l, where m is a score near the
/// maximum and inv_l is 1 over the sum of the exponentials. One number, m + log(l), would lose l where m is large.
/// inv_l is 0 in a fully masked row, NaN in a row without a softmax (a NaN, +inf, or -inf everywhere).
template <class W>
struct SoftmaxStats {
  W* m = nullptr;
  W* inv_l = nullptr;
};

/// out [B, H, Sq, Dv] and stats. No size may be 0. Returns whether out was finite at once. Otherwise blocks of queries
/// were computed again: with weights that are normalised first, so that large values do not overflow, and with values
/// that are not finite multiplied only for the queries that attend to them.
template <class T>
bool attention_forward(const Attention<T>& a, const HeadView<T>& out, const SoftmaxStats<AccT<T>>& stats);

/// The weights of attention_forward, before dropout, for some elements of the batch: w [elements, H, Sq, Sk]
/// contiguous.
template <class T>
void attention_weights(const Attention<T>& a, const SoftmaxStats<const AccT<T>>& stats, const Interval& elements,
                       AccT<T>* w);

/// The gradients, all overwritten. dbias has the layout of the bias; its data may be null.
template <class T>
struct AttentionGradients {
  HeadView<T> dq, dk, dv;
  HeadView<AccT<T>> dbias;
  AccT<T>* dsink = nullptr;    // [H], or null
  AccT<T>* dtables = nullptr;  // of the tables of `score`, one after another
};

/// A call of the backward pass.
template <class T>
struct AttentionBackward {
  const Attention<T>& a;
  HeadView<const T> out;              // of the forward pass
  SoftmaxStats<const AccT<T>> stats;  // of the forward pass
  HeadView<const T> dout;             // the gradient of out
  AttentionGradients<T> d;            // the results
  bool check = false;                 // whether the results are likely not to be finite
  const AccT<T>* dlse = nullptr;      // [B, H, Sq]: the gradient of log(l) + m, or null
};

/// With the weights P, F, the factors of dropout:
///   delta = sum(dout out) - dlse;  dsink = -sum over the rows of e^(sink - m) inv_l delta
///   dS = P (F (dout v') - delta);  dq = scale dS k;  dk = scale dS' q;  dv = (F P)' dout;  dbias = dS
/// With a function of the scores, dS is multiplied by its derivative, and its tables get gradients, too.
/// If some pair may not attend and a gradient is not finite, all is computed again, and numbers that are not finite are
/// multiplied only for pairs that attend. With `check` this is done at once.
template <class T>
void attention_backward(const AttentionBackward<T>& call);

// ---- compiled for each instruction set ---------------------------------------------------------------------------

// Queries, keys and values are read in blocks of this many.
constexpr std::int64_t key_block = tile_size, query_block = tile_size;

/// n rounded up to a multiple of `step`.
constexpr std::int64_t filled_to(std::int64_t step, std::int64_t n) { return (n + step - 1) / step * step; }

/// Queries i0 … i0 + rows - 1 of head h, at most query_block.
struct QueryBlock {
  std::int64_t b, h, i0, rows;
};

/// Some queries with the keys j0 … j0 + count - 1. Rows of scores are computed up to `width` keys: full vectors. The
/// products of q and k are to be multiplied by `factor`: the scale, or 1 if they are scaled.
struct TilePlace : QueryBlock {
  std::int64_t j0, count, width;
  double factor;
};

/// Keys first_key … last_key of one head of k and v, with the queries of all heads that share it: a part of the
/// backward pass. Tasks of one slot share their sums, so they run one after another, in the order of the list.
struct BackwardTask {
  std::int64_t batch, head, first_key, last_key, slot;
};

enum class AttentionPass { forward, backward };

/// The kernels decide which operands to pack. The caller provides buffers of the sizes below, in elements of W.
template <class T>
struct AttentionTable {
  using W = AccT<T>;
  // Both dimensions of sums [rows, cols] are padded to a multiple of this.
  std::int64_t step;
  // Called before and after forward, weights and backward on each thread.
  void (*begin)();
  void (*end)();
  // Packs a head of keys and values, without blocks of keys that causality and the window mask for all queries. Forward
  // and weights do not pack keys when there are few queries.
  std::int64_t (*keys_size)(const Attention<>& a, AttentionPass pass);
  void (*pack_keys)(const Attention<T>& a, std::int64_t b, std::int64_t kv, AttentionPass pass, W* out);
  // For backward: packs a head of queries and of gradients of the contexts.
  std::int64_t (*queries_size)(const Attention<>& a);
  void (*pack_queries)(const Attention<T>& a, const HeadView<const T>& dout, std::int64_t b, std::int64_t h, W* out);
  // out and stats of a block of queries. keys: packed, of their head. Returns whether out was finite at once.
  bool (*forward)(const Attention<T>& a, const QueryBlock& q, const W* keys, const HeadView<T>& out,
                  const SoftmaxStats<W>& stats, W* workspace);
  // w [rows, Sk]: the weights of a block of queries.
  void (*weights)(const Attention<T>& a, const QueryBlock& q, const W* keys, const SoftmaxStats<const W>& stats, W* w,
                  W* workspace);
  // dots[r] = sum over c of x[r, c] y[r, c]
  void (*row_dots)(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t x_row, const T* y, std::int64_t y_row,
                   W* dots);
  // Writes dk and dv of a task; adds dS k to dq [heads, padded Sq, padded D], dS to dbias, and to dtables. queries:
  // packed, of all heads that share the keys. delta: see attention_backward(). With `check`, operands that are not
  // finite are multiplied only for pairs that attend. Returns whether dk and dv are finite.
  bool (*backward)(const AttentionBackward<T>& call, const BackwardTask& task, const W* keys, const W* queries,
                   const W* delta, W* dq, W* workspace);
  // to = factor x. Returns whether all of it is finite.
  bool (*copy_finite)(std::int64_t rows, std::int64_t cols, W factor, const W* x, std::int64_t x_row, T* to,
                      std::int64_t to_row);
};

/// The size of the workspace of forward, weights and backward: five tiles, six blocks of features, and that of a
/// function of scores.
template <class W>
std::int64_t attention_workspace(const AttentionScores<W>& a) {
  const std::int64_t features = filled_to(64, a.D > a.Dv ? a.D : a.Dv);
  return query_block * (5 * key_block + 6 * features) + (a.score ? a.score->workspace : 0);
}

/// The rows of a block of queries. For short causal heads, small blocks compute fewer pairs above the diagonal.
inline std::int64_t query_step(const Attention<>& a) {
  return a.causal && a.Sq <= 4 * query_block ? query_block / 2 : query_block;
}

/// Whether there are too few queries to be worth packing the keys (in decoding: one).
inline bool few_queries(const Attention<>& a) { return a.Sq < 8 && !a.reproducible; }

template <class T>
struct AttentionTables {
  AttentionTable<T> few, many;  // queries
};
template <class IsaTag, class T>
const AttentionTables<T>& attention_tables();

/// The kernels of a call on this processor.
template <class T>
const AttentionTable<T>& attention_table(const Attention<T>& a) {
  const AttentionTables<T>& tables = FIT_KERNELS(attention_tables, T);
  return few_queries(a) ? tables.few : tables.many;
}

}  // namespace fit::kernels
