#pragma once
#include <cstdint>

#include "base/sum_of.hpp"
#include "kernels/random.hpp"
#include "kernels/simd/isa.hpp"

// Attention in tiles (FlashAttention: Dao 2023, arXiv 2307.08691). The forward pass runs over blocks of keys with a
// running softmax, and keeps two numbers of each row. The backward pass computes the weights again from them. Nothing
// of size Sq x Sk is stored.
//
// Rounded by operation of the formulas below, with at least 1 chain of additions in every sum; an exponential 2 units
// in the last place, and 4 where the running softmax has changed its m, or 0 where it is under the smallest normal
// number.
//
// What a query doesn't see has no effect on anything, even if it is NaN. What it sees takes part even where its weight
// is 0 or dropped: 0 times NaN is NaN.
//
// Operands, contexts and their gradients may be BFloat16: all else, called W here, then is float. They are multiplied
// by the processor's instructions for BFloat16 where it has them (matmul/gemm_kernels_bf16.hpp), for which weights and
// their gradients are rounded to BFloat16; elsewhere blocks of operands are widened while they are read. Sums are
// floats until they are written, rounded once.
namespace fit::kernels {

/// Matrices [B, H, S, D] where they lie, be it as [B, H, S, D], as [B, S, H, D] or as a part of [B, S, 3 H D]: element
/// (b, h, s, d) is data[b batch + h head + s row + d]. A stride of 0 repeats.
template <class T>
struct HeadView {
  T* data = nullptr;
  std::int64_t batch = 0, head = 0, row = 0;
  T* at(std::int64_t b, std::int64_t h, std::int64_t s) const { return data + b * batch + h * head + s * row; }
};

/// The numbers of a call: all but its operands.
struct AttentionParams {
  std::int64_t B = 0, H = 0, kv_heads = 0, Sq = 0, Sk = 0, D = 0, Dv = 0;
  double scale = 1;         // of the products of q and k
  bool causal = false;      // query i sees keys j <= i + Sk - Sq
  std::int64_t window = 0;  // and j > i + Sk - Sq - window, unless it is 0
  double dropout = 0;       // of weights; element (b, h, i, j) has number first_weight + ((b H + h) Sq + i) Sk + j
  RandomKey key{};          // what is dropped depends on it and on the number alone
  std::int64_t first_weight = 0;
};

/// A call:  scores = scale q k' + bias - alibi |i + Sk - Sq - j|,  weights = softmax of the visible scores,
/// out = (weights, dropped out) v.
template <class T>
struct Attention : AttentionParams {
  using W = SumOf<T>;
  HeadView<const T> q, k, v;  // [B, H, Sq, D], [B, kv_heads, Sk, D], [B, kv_heads, Sk, Dv]
  HeadView<const bool> mask;  // [B, H, Sq, Sk]: true = visible; data null: no mask
  HeadView<const W> bias;     // [B, H, Sq, Sk]; data null: none
  const W* alibi = nullptr;   // [H]: a slope for each head, or null
};

/// What is kept of each row's softmax, [B, H, Sq] of each: weight = exp(score - m) inv_l, where m is a score near the
/// largest and inv_l is 1 over the sum of the exponentials. They are two numbers, because m + log(l) would lose l where
/// m is large. A row that sees nothing has inv_l 0; one without a softmax (a NaN, +inf, or -inf everywhere) has NaN.
template <class W>
struct SoftmaxStats {
  W* m = nullptr;
  W* inv_l = nullptr;
};

/// out [B, H, Sq, Dv] and stats. No size may be 0. True if out was finite at once. Else blocks of queries were computed
/// a second time, with weights that are normalised first (so that large values don't overflow) and with values that
/// aren't finite multiplied for those alone who see them.
template <class T>
bool attention_forward(const Attention<T>& a, const HeadView<T>& out, const SoftmaxStats<SumOf<T>>& stats);

/// w [B, H, Sq, Sk] contiguous: the weights that attention_forward has used, before dropout.
template <class T>
void attention_weights(const Attention<T>& a, const SoftmaxStats<const SumOf<T>>& stats, SumOf<T>* w);

/// Where gradients go. All are overwritten. dbias lies as the bias does; its data may be null.
template <class T>
struct AttentionGradients {
  HeadView<T> dq, dk, dv;
  HeadView<SumOf<T>> dbias;
};

/// With the weights P, and F, what dropout multiplies them by:
///   dS = P (F (dout v') - sum(dout out));  dq = scale dS k;  dk = scale dS' q;  dv = (F P)' dout;  dbias = dS
/// If something is hidden and a gradient isn't finite, all is computed a second time, and what isn't finite is
/// multiplied for those alone who see it. `check` says that this is likely, so that it is done at once.
template <class T>
void attention_backward(const Attention<T>& a, const HeadView<const T>& out, const SoftmaxStats<const SumOf<T>>& stats,
                        const HeadView<const T>& dout, const AttentionGradients<T>& d, bool check);

// ---- what is compiled for each instruction set ------------------------------------------------------------------

// Queries, keys and values are read in blocks of this many.
constexpr std::int64_t key_block = 64, query_block = 64;

constexpr std::int64_t filled_to(std::int64_t step, std::int64_t n) { return (n + step - 1) / step * step; }

// Which operands are packed is the kernels' own affair: they lie in rooms of so many W.
enum class AttentionPass { forward, backward };

template <class T>
struct AttentionTable {
  using W = SumOf<T>;
  // Sums [rows, cols] have room for both filled up to a multiple of this.
  std::int64_t step;
  // Around calls of forward, weights and backward on a thread.
  void (*begin)();
  void (*end)();
  // A head of keys and values: room for keys_size, and their packing. Of few queries forward and weights pack nothing.
  std::int64_t (*keys_size)(const AttentionParams& a, AttentionPass pass);
  void (*pack_keys)(const Attention<T>& a, std::int64_t b, std::int64_t kv, AttentionPass pass, W* out);
  // For backward: a head of queries and of gradients of the contexts.
  std::int64_t (*queries_size)(const AttentionParams& a);
  void (*pack_queries)(const Attention<T>& a, const HeadView<const T>& dout, std::int64_t b, std::int64_t h, W* out);
  // Queries i0 … i0 + rows - 1 of one head: out and stats. keys: what was packed of their head.
  bool (*forward)(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows,
                  const W* keys, const HeadView<T>& out, const SoftmaxStats<W>& stats, W* scratch);
  void (*weights)(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows,
                  const W* keys, const SoftmaxStats<const W>& stats, W* w, W* scratch);
  // delta[i] = the sum of dout times out along row i.
  void (*row_dots)(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t x_row, const T* y, std::int64_t y_row,
                   W* dots);
  // Keys j0 … j0 + 63 of a head of keys, and the queries of all heads that share it: writes dk and dv, adds dS k to dq
  // [heads, filled Sq, filled D], and to dbias. queries: those of the first such head, others follow. With `check`,
  // operands that aren't finite are multiplied for visible pairs alone. False if dk or dv isn't finite.
  bool (*backward)(const Attention<T>& a, std::int64_t b, std::int64_t kv, std::int64_t j0, const W* keys,
                   const W* queries, const SoftmaxStats<const W>& stats, const W* delta, const HeadView<const T>& dout,
                   bool check, W* dq, const AttentionGradients<T>& d, W* scratch);
  // to = factor x, and whether all of it is finite.
  bool (*copy_finite)(std::int64_t rows, std::int64_t cols, W factor, const W* x, std::int64_t x_row, T* to,
                      std::int64_t to_row);
};

// Elements of scratch that forward, weights and backward want, at most: five tiles, and six blocks of features.
inline std::int64_t attention_scratch(const AttentionParams& a) {
  return query_block * (5 * key_block + 6 * filled_to(64, a.D > a.Dv ? a.D : a.Dv));
}

/// Whether some key may be hidden from some query.
template <class T>
bool hides(const Attention<T>& a) {
  return a.causal || a.window > 0 || a.mask.data;
}

/// Queries that are taken together. Short causal heads waste less above the diagonal in small steps.
inline std::int64_t query_step(const AttentionParams& a) {
  return a.causal && a.Sq <= 4 * query_block ? query_block / 2 : query_block;
}

/// Whether there are too few queries to be worth packing the keys: in decoding, one. They are multiplied as they lie.
inline bool few_queries(const AttentionParams& a) { return a.Sq < 8; }

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
