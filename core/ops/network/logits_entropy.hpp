#pragma once
#include "fit/ops/ops.hpp"

namespace fit {

/// -(t ln p + (1 - t) ln(1 - p)) with p = sigmoid(x), for x and t of one shape and floating type: t softplus(-x) +
/// (1 - t) softplus(x), where nothing cancels. `op` names it in the graph.
Tensor logits_entropy(const char* op, const Tensor& x, const Tensor& t);

}  // namespace fit
