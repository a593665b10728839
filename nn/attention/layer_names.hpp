#pragma once
#include <string>
#include <unordered_map>

#include "fit/nn/layer/layer.hpp"

namespace fit::nn {

/// The dotted names of a model and its layers; "" for the model. A ScaledDotProductAttention member "attention" has the
/// name of its layer. A shared layer has its first name.
std::unordered_map<const Layer*, std::string> layer_names(const Layer& model);

}  // namespace fit::nn
