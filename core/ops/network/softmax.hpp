#pragma once
#include "fit/tensor/tensor.hpp"

namespace fit::detail {

/// dx = dy - e^y sum(dy): the adjoint of log_softmax, as an operation. y is the result of log_softmax.
Tensor log_softmax_backward(const Tensor& y, const Tensor& dy, int axis);

}  // namespace fit::detail
