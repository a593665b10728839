#pragma once
#include <string>
#include <utility>
#include <vector>

#include "fit/tensor/tensor.hpp"

namespace fit {

/// Named tensors in a fixed order: the state of layers, optimisers, schedules and loaders, and the contents of files.
using StateDict = std::vector<std::pair<std::string, Tensor>>;

}  // namespace fit
