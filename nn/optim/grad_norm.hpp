#pragma once
#include "fit/tensor.hpp"

namespace fit::optim {

/// Of all elements, in double, in an order that does not depend on the threads.
double sum_of_squares(const Tensor& x);

/// Whether no element is infinite or NaN.
bool all_finite(const Tensor& x);

}  // namespace fit::optim
