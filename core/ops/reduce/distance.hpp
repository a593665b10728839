#pragma once
#include "fit/tensor/tensor.hpp"

namespace fit::detail {

// Of floating tensors of one shape. Each is one operation: several would take two to five times as long.

/// The sum, or the mean, of (a - b)^2 over all elements.
Tensor squared_distance(const Tensor& a, const Tensor& b);
Tensor mean_squared_distance(const Tensor& a, const Tensor& b);

/// For each element, with d = |a - b| and c = min(d, bound): scale c (d - c / 2), which is quadratic up to `bound`,
/// then linear.
Tensor huber(const Tensor& a, const Tensor& b, double bound, double scale);

}  // namespace fit::detail
