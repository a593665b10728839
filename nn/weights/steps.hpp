#pragma once
#include <vector>

#include "fit/nn/weights/weights.hpp"
#include "io/stored.hpp"

namespace fit::nn {

/// The steps of a name map, from foreign names to ours. Tensors are read on demand.
std::vector<io::Stored> mapped_to_ours(std::vector<io::Stored> theirs, const NameMap& map);

}  // namespace fit::nn
