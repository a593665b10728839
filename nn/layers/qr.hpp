#pragma once
#include "fit/tensor.hpp"

namespace fit::nn::init {

/// Replaces a [m, n], float64, m >= n > 0, by the Q of its decomposition QR in which R has a positive diagonal.
void orthonormalise(Tensor& a);

}  // namespace fit::nn::init
