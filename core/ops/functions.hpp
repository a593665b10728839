#pragma once
#include "fit/ops.hpp"
#include "kernels/functions.hpp"

namespace fit::detail {

/// dy f'(v; p), as an operation. v is x, or y = f(x; p), as kernels/functions.hpp says for f.
Tensor derivative(kernels::Function f, const Tensor& dy, const Tensor& v, double p = 0);

}  // namespace fit::detail
