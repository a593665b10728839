#pragma once
#include <vector>

#include "fit/graph/graph.hpp"

namespace fit::detail {

/// grad() where outputs may be constants and inputs may have no effect: their gradients are zeros.
std::vector<Tensor> gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                              const std::vector<Tensor>& seeds, GraphFlags flags = {});

}  // namespace fit::detail
