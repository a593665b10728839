#pragma once
#include "fit/int8/int8.hpp"
#include "ops/elementwise/functions.hpp"

namespace fit::detail {

/// apply_to_linear() of either type of weight.
Tensor apply_to_linear(const kernels::Function& f, const Tensor& x, const Int8Matrix& weight, const Tensor& bias);
Tensor apply_to_linear(const kernels::Function& f, const Tensor& x, const Weight& weight, const Tensor& bias);

}  // namespace fit::detail
