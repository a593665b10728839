// Exercise by_hand: simple attention, step by step.
//
// The exercise of the lesson: scores = q k^T, weights = softmax of each row, result = weights v. No scale, no mask.
// q is [n, d], k is [m, d], v is [m, e].
#include "exercises/exercises.hpp"

using namespace fit;

Tensor simple_attention(const Tensor& q, const Tensor& k, const Tensor& v) { return q; }

EXERCISE(by_hand, simple_attention)
