#pragma once
#include "fit/ops/ops.hpp"
#include "kernels/random.hpp"

namespace fit {

/// What the next call of g, or of the default generator if it is null, drops of a tensor of this shape. With p = 0
/// nothing is drawn.
kernels::Dropout draw_dropout(double p, Generator* g, const Shape& shape);

/// x without what `d` drops. It is linear in x, so it is its own adjoint and stores no mask.
Tensor dropped(const Tensor& x, const kernels::Dropout& d);

}  // namespace fit
