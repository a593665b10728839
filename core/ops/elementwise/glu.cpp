#include "ops/common/precision.hpp"
#include "ops/index/axis_slices.hpp"

namespace fit {

Tensor glu(const Tensor& x, int axis) {
  check::floating("glu", "x", x);
  axis = check::axis("glu", x, axis);
  const std::int64_t n = x.shape()[axis];
  if (n % 2 != 0)
    check::fail("glu", "axis ", axis, " of shape ", x.shape(),
                " has an odd size: its halves are the value and the gate");
  return with_precision(Precision::rounded, {x},
                        [&](const Tensor& x) { return slice(x, axis, 0, n / 2) * sigmoid(slice(x, axis, n / 2, n)); });
}

}  // namespace fit
