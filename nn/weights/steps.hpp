#pragma once
#include <vector>

#include "fit/nn/weights.hpp"
#include "io/stored.hpp"

namespace fit::nn {

/// The steps of a map, from their names to ours or back, on tensors that are read only when they are asked for.
std::vector<io::Stored> mapped_to_ours(std::vector<io::Stored> theirs, const NameMap& map);
std::vector<io::Stored> mapped_to_theirs(std::vector<io::Stored> ours, const NameMap& map);

}  // namespace fit::nn
