// Exercise scaled: scaled dot-product attention, also between two sequences.
//
// softmax(q k^T / sqrt(d)) v for q [B, H, n, d], k [B, H, m, d], v [B, H, m, e]. n and m may differ, as between a
// decoder and an encoder.
#include "exercises/exercises.hpp"

using namespace fit;

Tensor scaled_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  return matmul(softmax(matmul(q, transpose(k))), v);
}

EXERCISE(scaled, scaled_attention)
