#pragma once
#include <string>

#include "fit/tensor.hpp"

namespace fit::detail {

/// einsum() of two floating operands, without the reading of a formula: the letters of the axes of a, b and the result.
/// Each letter of a or b is in two of the three, at least.
Tensor contract(const Tensor& a, const std::string& a_axes, const Tensor& b, const std::string& b_axes,
                const std::string& axes);

}  // namespace fit::detail
