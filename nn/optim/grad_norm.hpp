#pragma once
#include <vector>

#include "fit/tensor/tensor.hpp"

namespace fit::optim {

/// The sum of squares of all elements, in double. The order of addition does not depend on the number of threads.
double sum_of_squares(const Tensor& x);

/// The p-norm of the elements of all tensors together, (sum |x|^p)^(1/p), or max |x| for infinite p. No power overflows
/// or underflows on the way: if the sum does, a second pass divides by the largest element first.
double joint_norm(const std::vector<Tensor>& all, double p);

/// Whether all elements are finite.
bool all_finite(const Tensor& x);

}  // namespace fit::optim
