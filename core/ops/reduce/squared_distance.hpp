#pragma once
#include "fit/tensor/tensor.hpp"

namespace fit::detail {

/// The sum, or the mean, of (a - b)^2 over all elements of two floating tensors of one shape: as one operation, because
/// several take half as long again if the tensors are large.
Tensor squared_distance(const Tensor& a, const Tensor& b);
Tensor mean_squared_distance(const Tensor& a, const Tensor& b);

}  // namespace fit::detail
