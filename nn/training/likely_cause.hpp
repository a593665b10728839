#pragma once
#include <string>

#include "fit/nn/data/data.hpp"
#include "fit/nn/layer/layer.hpp"

namespace fit {

/// A likely reason for a batch's loss that is not finite.
std::string likely_cause(const data::Batch& batch, const data::DataLoader& loader, const nn::Layer& model);

}  // namespace fit
