#pragma once
#include <functional>
#include <vector>

#include "fit/graph/graph.hpp"

namespace fit {

/// The decomposition of a fused operation: computes its outputs by other operations. Any tensor may be undefined.
using Decomposition = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Computes a fused node's gradients through its decomposition. Unlike the fused adjoint, they are differentiable
/// again.
void give_by_decomposition(Backward& b, const Decomposition& form);

}  // namespace fit
