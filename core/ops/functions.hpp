#pragma once
#include "fit/int8.hpp"
#include "fit/ops.hpp"
#include "kernels/functions.hpp"

namespace fit::detail {

/// f(x; p)
Tensor apply(const kernels::Function& f, const Tensor& x, double p = 0);

/// Records y, which is f(x; p) computed elsewhere, as apply() does. For types in which f computes natively.
Tensor record_function(const kernels::Function& f, const Tensor& x, Tensor y, double p = 0);

/// f(linear(x, weight, bias)), as two operations of the graph. f is computed while a tile of the product is in the
/// cache; in bfloat16 only without a graph. Without a graph, the result of linear() is not stored.
Tensor apply_to_linear(const kernels::Function& f, const Tensor& x, const Weight& weight, const Tensor& bias);

/// dy f'(v; p), as an operation. v is x, or y = f(x; p); kernels/functions.hpp says which.
Tensor derivative(const kernels::Function& f, const Tensor& dy, const Tensor& v, double p = 0);

/// sum_to() with a result of floating type t: from bfloat16 to float32 without rounding in between.
Tensor sum_to(const Tensor& x, const Shape& shape, DType t);

}  // namespace fit::detail
