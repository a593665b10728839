// Exercise causal: causal attention: no token sees a later one.
//
// Scaled attention in which query i attends to keys 0 ... i. q, k, v are [B, n, d].
#include "exercises/exercises.hpp"

using namespace fit;

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  return scaled_dot_product_attention(q, k, v);
}

EXERCISE(causal, causal_attention)
