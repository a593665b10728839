#pragma once
#include <string>
#include <vector>

#include "fit/nn/weights/weights.hpp"
#include "io/stored.hpp"

namespace fit::nn {

/// The steps of a name map, from foreign names to ours. Tensors are read on demand.
std::vector<io::Stored> mapped_to_ours(std::vector<io::Stored> theirs, const NameMap& map);

/// load_weights() of a layer that nobody has a tensor of yet: weights that are in the file as in the layer become
/// mappings of it, and are read at their first use.
void map_weights(Layer& layer, const std::string& path, const NameMap& map);

/// Throws Error in the name of `op` if a weight is parametrised or int8: a map has no names for it. `or_else` ends the
/// advice.
void check_plain_weights(const char* op, const Layer& layer, const char* or_else = "");

}  // namespace fit::nn
