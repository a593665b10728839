#pragma once
#include "fit/ops/ops.hpp"
#include "ops/index/axis_slices.hpp"

namespace fit {

/// y, a cumulative result along an axis, without each element's own share: y[i - 1] at i, and `start` at the beginning
/// (or at the end, if it was cumulated from there).
inline Tensor exclusive(const Tensor& y, int axis, const CumulativeOptions& o, double start) {
  if (!o.exclusive()) return y;
  if (y.rank() == 0) return reshape(exclusive(reshape(y, Shape{1}), 0, o, start), Shape{});  // with its graph
  const std::int64_t n = y.size(axis);
  if (n == 0) return y;
  const Tensor first = full(y.shape().with(axis, 1), start, y.dtype());
  return o.reverse() ? cat({slice(y, axis, 1, n), first}, axis) : cat({first, slice(y, axis, 0, n - 1)}, axis);
}

}  // namespace fit
