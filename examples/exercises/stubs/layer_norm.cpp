// Exercise layer_norm: the adjoint of LayerNorm.
//
// y = (x - mean) / sqrt(var + eps), over the last axis, without weights. Return dx for a gradient dy.
#include "exercises/exercises.hpp"

using namespace fit;

Tensor layer_norm_adjoint(const Tensor& x, const Tensor& dy, double eps) {
  return dy / sqrt(var(x, -1, Correction{0}, keepdims) + eps);
}

EXERCISE(layer_norm, layer_norm_adjoint)
