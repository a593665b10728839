#pragma once
#include "fit/ops.hpp"
#include "kernels/functions.hpp"

namespace fit::detail {

/// dy f'(v; p), as an operation. v is x, or y = f(x; p), as kernels/functions.hpp says for f.
Tensor derivative(kernels::Function f, const Tensor& dy, const Tensor& v, double p = 0);

/// x summed to `shape` as sum_to() does, given in floating type t: from bfloat16 to float32 without a rounding between.
Tensor sum_to(const Tensor& x, const Shape& shape, DType t);

}  // namespace fit::detail
