#pragma once
#include <string>
#include <utility>
#include <vector>

#include "fit/tensor.hpp"

namespace fit {

/// Tensors by name, in an order: what layers, optimisers, schedules and loaders save, and what files hold.
using StateDict = std::vector<std::pair<std::string, Tensor>>;

}  // namespace fit
