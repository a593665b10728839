#pragma once
#include "fit/nn/attention/attention.hpp"

namespace fit::nn {

/// The features of heads that are not first, [B, S, heads D].
Tensor features_of(const Heads& h);

}  // namespace fit::nn
