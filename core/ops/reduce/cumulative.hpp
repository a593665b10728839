#pragma once
#include "fit/ops/ops.hpp"
#include "ops/index/axis_slices.hpp"

namespace fit {

/// cumulate(x) along an axis; exclusive: of the elements before each one, and `start` where there are none. The element
/// that no result depends on is left out before: not finite, it would spoil gradients.
template <class Cumulate>
Tensor cumulated(const Tensor& x, int axis, const CumulativeOptions& o, double start, const Cumulate& cumulate) {
  if (!o.exclusive()) return cumulate(x);
  if (x.rank() == 0) return reshape(cumulated(reshape(x, Shape{1}), 0, o, start, cumulate), Shape{});  // with its graph
  const std::int64_t n = x.size(axis);
  if (n == 0) return cumulate(x);
  const Tensor y = cumulate(o.reverse() ? slice(x, axis, 1, n) : slice(x, axis, 0, n - 1));
  const Tensor first = full(x.shape().with(axis, 1), start, y.dtype());
  return o.reverse() ? cat({y, first}, axis) : cat({first, y}, axis);
}

}  // namespace fit
