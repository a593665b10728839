#pragma once
#include <cstdint>

#include "kernels/isa.hpp"
#include "kernels/random.hpp"

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
  HeadView<const T> q, k, v;  // [B, H, Sq, D], [B, kv_heads, Sk, D], [B, kv_heads, Sk, Dv]
  HeadView<const bool> mask;  // [B, H, Sq, Sk]: true = visible; data null: no mask
  HeadView<const T> bias;     // [B, H, Sq, Sk]; data null: none
  const T* alibi = nullptr;   // [H]: a slope for each head, or null
};

/// What is kept of each row's softmax, [B, H, Sq] of each: weight = exp(score - m) inv_l, where m is a score near the
/// largest and inv_l is 1 over the sum of the exponentials. They are two numbers, because m + log(l) would lose l where
/// m is large. A row that sees nothing has inv_l 0; one without a softmax (a NaN, +inf, or -inf everywhere) has NaN.
template <class T>
struct SoftmaxStats {
  T* m = nullptr;
  T* inv_l = nullptr;
};

/// out [B, H, Sq, Dv] and stats. No size may be 0. True if out was finite at once. Else blocks of queries were computed
/// a second time, with weights that are normalised first (so that large values don't overflow) and with values that
/// aren't finite multiplied for those alone who see them.
template <class T>
bool attention_forward(const Attention<T>& a, const HeadView<T>& out, const SoftmaxStats<T>& stats);

/// w [B, H, Sq, Sk] contiguous: the weights that attention_forward has used, before dropout.
template <class T>
void attention_weights(const Attention<T>& a, const SoftmaxStats<const T>& stats, T* w);

/// Where gradients go. All are overwritten. dbias lies as the bias does; its data may be null.
template <class T>
struct AttentionGradients {
  HeadView<T> dq, dk, dv, dbias;
};

/// With the weights P, and F, what dropout multiplies them by:
///   dS = P (F (dout v') - sum(dout out));  dq = scale dS k;  dk = scale dS' q;  dv = (F P)' dout;  dbias = dS
/// If something is hidden and a gradient isn't finite, all is computed a second time, and what isn't finite is
/// multiplied for those alone who see it. `check` says that this is likely, so that it is done at once.
template <class T>
void attention_backward(const Attention<T>& a, const HeadView<const T>& out, const SoftmaxStats<const T>& stats,
                        const HeadView<const T>& dout, const AttentionGradients<T>& d, bool check);

// ---- what is compiled for each instruction set ------------------------------------------------------------------

// Keys and values are read in blocks of this many.
constexpr std::int64_t key_block = 64;

template <class T>
struct AttentionTable {
  // x [rows, cols] (stride `row`), transposed block by block: out [rows / 64 (rounded up)][cols][64], with zeros after
  // the end.
  void (*pack)(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t row, T* out);
  // to = x, and whether all of it is finite.
  bool (*copy_finite)(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t x_row, T* to, std::int64_t to_row);
  // Queries i0 … i0 + rows - 1 of one head: out and stats. keys: the packed keys, or null: they are read as they lie.
  bool (*forward)(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows,
                  const T* keys, const HeadView<T>& out, const SoftmaxStats<T>& stats, T* scratch);
  void (*weights)(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows,
                  const T* keys, const SoftmaxStats<const T>& stats, T* w, T* scratch);
  // delta[i] = the sum of dout times out along row i.
  void (*row_dots)(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t x_row, const T* y, std::int64_t y_row,
                   T* dots);
  // Keys j0 … j0 + 63 of one head: adds to dk, dv [64, D], [64, Dv], to dq (rows `dq_row` apart) and to dbias. With
  // `check`, operands that aren't finite are multiplied for visible pairs alone.
  void (*backward)(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t j0, const T* keys,
                   const T* values, const SoftmaxStats<const T>& stats, const T* delta, const HeadView<const T>& dout,
                   bool check, T* dq, std::int64_t dq_row, T* dk, T* dv, const HeadView<T>& dbias, T* scratch);
};

// Elements of scratch that forward, weights and backward want: two tiles and a block of contexts; then, for operands
// that aren't finite, a tile and a block of them.
constexpr std::int64_t query_block = 64;
inline std::int64_t attention_scratch(const AttentionParams& a) {
  return query_block * (3 * key_block + a.Dv + (a.D > a.Dv ? a.D : a.Dv));
}

/// Whether some key may be hidden from some query.
template <class T>
bool hides(const Attention<T>& a) {
  return a.causal || a.window > 0 || a.mask.data;
}

/// Queries that are taken together. Short causal heads waste less above the diagonal in small steps.
template <class T>
std::int64_t query_step(const Attention<T>& a) {
  return a.causal && a.Sq <= 4 * query_block ? query_block / 2 : query_block;
}

/// Whether there are too few queries to be worth packing the keys: in decoding, one.
template <class T>
bool few_queries(const Attention<T>& a) {
  return a.Sq < 8;
}

template <class IsaTag, class T>
const AttentionTable<T>& attention_table();

}  // namespace fit::kernels
