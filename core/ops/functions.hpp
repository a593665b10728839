#pragma once
#include "fit/ops.hpp"
#include "kernels/functions.hpp"

namespace fit::detail {

/// dy f'(v; p), as an operation. v is x, or y = f(x; p); kernels/functions.hpp says which.
Tensor derivative(kernels::Function f, const Tensor& dy, const Tensor& v, double p = 0);

/// sum_to() with a result of floating type t: from bfloat16 to float32 without rounding in between.
Tensor sum_to(const Tensor& x, const Shape& shape, DType t);

}  // namespace fit::detail
