// Exercise causal_bug: find two bugs in a causal layer.
//
// This code is from a notebook. It has two errors. Mend them. x is [B, n, d]; the weights are [B, n, n].
#include "exercises/exercises.hpp"

using namespace fit;

Tensor buggy_weights(const Tensor& x) {
  Tensor scores = matmul(x, transpose(x));
  const Tensor later = triu(ones({x.size(1), x.size(1)}), 1) != 0;
  masked_fill(scores, later, -INFINITY);
  return softmax(scores / std::sqrt(static_cast<double>(x.size(-1))), 1);
}

EXERCISE(causal_bug, buggy_weights)
