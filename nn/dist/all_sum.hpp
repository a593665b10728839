#pragma once
#include "fit/tensor/tensor.hpp"

namespace fit::dist {

class World;

/// The sum of x over the ranks, in the order of ranks. All ranks get the same bits. The gradient of x is the sum of the
/// ranks' gradients of the result, so all ranks must run the backward pass alike. It may run while the gradients of
/// parameters travel.
Tensor all_sum(const Tensor& x, World& world);

}  // namespace fit::dist
