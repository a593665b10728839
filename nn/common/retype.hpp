#pragma once
#include "fit/tensor/tensor.hpp"

namespace fit::nn {

/// Moves the type and the elements of `other` into `t`. Tensors that share `t` see the change.
void retype(Tensor& t, const Tensor& other);

}  // namespace fit::nn
