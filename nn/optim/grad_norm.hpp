#pragma once
#include "fit/tensor.hpp"

namespace fit::optim {

/// The sum of squares of all elements, in double. The order of addition does not depend on the number of threads.
double sum_of_squares(const Tensor& x);

/// Whether all elements are finite.
bool all_finite(const Tensor& x);

}  // namespace fit::optim
