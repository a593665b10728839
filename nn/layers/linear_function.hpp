#pragma once
#include "fit/nn/layers/linear.hpp"
#include "ops/elementwise/functions.hpp"

namespace fit::nn {

/// f(layer(x)). Offers layer(x) as "pre". Computes both in one pass unless something observes the run or the layer.
Tensor apply_to_linear(const kernels::Function& f, const Linear& layer, const Tensor& x);

}  // namespace fit::nn
