#pragma once
#include <cstdint>

#include "kernels/isa.hpp"
#include "kernels/random.hpp"

// Attention in tiles (Dao 2023, arXiv 2307.08691): a running softmax forward, recomputation from the row log-sum-exp
// backward. Nothing of size Sq x Sk is stored. Rounded by operation of the formulas below, with at least 1 chain of
// additions in every sum; a power of two 2 units in the last place, and 4 where the running softmax has changed its
// base, or 0 where it is under the least normal number.
namespace fit::kernels {

// A stack of matrices [B, H, S, D] whose last axis is contiguous: heads are addressed where they lie, be it [B, H, S,
// D], [B, S, H D] or a part of [B, S, 3 H D].
template <class T>
struct Heads {
  T* data = nullptr;
  std::int64_t batch = 0, head = 0, row = 0;  // strides in elements
  T* at(std::int64_t b, std::int64_t h, std::int64_t s) const { return data + b * batch + h * head + s * row; }
};

template <class T>
struct Attention {
  std::int64_t B = 0, H = 0, kv_heads = 0, Sq = 0, Sk = 0, D = 0, Dv = 0;
  T scale = 1;
  bool causal = false;      // query i sees keys j <= i + Sk - Sq
  std::int64_t window = 0;  // and j > i + Sk - Sq - window, unless it is 0
  Heads<const T> q, k, v;   // [B, H, Sq, D], [B, kv_heads, Sk, D], [B, kv_heads, Sk, Dv]
  Heads<const bool> mask;   // [B, H, Sq, Sk], strides 0 where it broadcasts; data null: none
  Heads<const T> bias;      // the same; added to the scaled scores. -inf masks.
  double dropout = 0;       // of weights; element (b, h, i, j) has index ((b H + h) Sq + i) Sk + j
  RandomKey key{};
};

// out [B, H, Sq, Dv], lse [B, H, Sq]: log2 of the sum of 2^(score log2 e); +inf for a row that sees nothing, whose out
// is 0. False, and out is not to be used, if a size is 0; if out isn't finite although something is hidden from
// somebody: what is hidden was multiplied by 0, and 0 times a NaN or an infinity is NaN; or if the visible scores of a
// row have all overflowed to -inf. Then the composed form has to serve.
template <class T>
bool attention_forward(const Attention<T>& a, const Heads<T>& out, T* lse);

// w [B, H, Sq, Sk] contiguous: the weights that attention_forward has used, before dropout.
template <class T>
void attention_weights(const Attention<T>& a, const T* lse, T* w);

// Where gradients go. dq, dk and dv are overwritten. dbias lies as the bias does, is added to, and may be null.
template <class T>
struct AttentionGradients {
  Heads<T> dq, dk, dv, dbias;
};

// With the weights P = 2^(score log2 e - lse) and what dropout multiplies them by, F:
//   dS = P (F (dout v') - sum(dout out));  dq = scale dS k;  dk = scale dS' q;  dv = (F P)' dout;  dbias += dS
// False if a gradient isn't finite although something is hidden: as above.
template <class T>
bool attention_backward(const Attention<T>& a, const Heads<const T>& out, const T* lse, const Heads<const T>& dout,
                        const AttentionGradients<T>& d);

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
  // Queries i0 … i0 + rows - 1 of one head: out and lse. keys: the packed keys, or null: they are read as they lie.
  // False if a score has overflowed so that the composed form has to serve.
  bool (*forward)(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows,
                  const T* keys, const Heads<T>& out, T* lse, T* scratch);
  void (*weights)(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows,
                  const T* keys, const T* lse, T* w, T* scratch);
  // delta[i] = the sum of dout times out along row i.
  void (*row_dots)(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t x_row, const T* y, std::int64_t y_row,
                   T* dots);
  // Keys j0 … j0 + 63 of one head: adds to dk, dv [64, D], [64, Dv], to dq (rows `dq_row` apart) and to dbias.
  void (*backward)(const Attention<T>& a, std::int64_t b, std::int64_t h, std::int64_t j0, const T* keys,
                   const T* values, const T* lse, const T* delta, const Heads<const T>& dout, T* dq,
                   std::int64_t dq_row, T* dk, T* dv, const Heads<T>& dbias, T* scratch);
};

// Elements of scratch that forward, weights and backward want.
constexpr std::int64_t query_block = 64;
inline std::int64_t attention_scratch(std::int64_t Dv) { return query_block * (2 * key_block + Dv); }

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
