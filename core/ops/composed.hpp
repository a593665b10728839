#pragma once
#include <functional>
#include <vector>

#include "fit/graph.hpp"

namespace fit {

/// Computes the outputs of a fused operation from its inputs by other operations. Some may be undefined, as the inputs.
using ComposedForm = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Gives a node's inputs their gradients by way of its composed form, which can be differentiated again where what is
/// fused can't.
void give_composed(Backward& b, const ComposedForm& form);

}  // namespace fit
