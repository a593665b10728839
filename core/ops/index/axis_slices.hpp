#pragma once
#include <algorithm>
#include <cstdint>

#include "fit/threads/parallel.hpp"
#include "kernels/axis_view.hpp"
#include "tensor/check.hpp"

namespace fit {

/// The axis as a number >= 0. As in NumPy and PyTorch, a scalar has one axis of size 1 here.
inline int slice_axis(const char* op, const Tensor& x, int axis) {
  check::defined(op, "x", x);
  return x.rank() == 0 && (axis == 0 || axis == -1) ? 0 : check::axis(op, x, axis);
}

/// The maximum number of neighbouring slices in one kernel call.
constexpr std::int64_t max_group = 256;

/// Calls body(offset, count) in parallel for groups of slices along an axis: consecutive slices if they are contiguous
/// (stride 1), otherwise neighbours side by side.
template <class Body>
void each_group_of_slices(const kernels::AxisView& l, const Body& body) {
  if (l.outer == 0 || l.n == 0 || l.inner == 0) return;
  constexpr std::int64_t work = 1 << 13;  // minimum of elements for a thread: each costs about an exponential
  const std::int64_t n = std::max<std::int64_t>(l.n, 1);
  if (l.inner == 1) {
    parallel_for(l.outer, std::max<std::int64_t>(1, work / n),
                 [&](std::int64_t begin, std::int64_t end) { body(begin * l.n, end - begin); });
    return;
  }
  constexpr std::int64_t width = max_group;
  const std::int64_t groups = (l.inner + width - 1) / width;
  parallel_for(l.outer * groups, std::max<std::int64_t>(1, work / (n * std::min(width, l.inner))),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t task = begin; task < end; ++task) {
                   const std::int64_t first = task % groups * width;
                   body(task / groups * l.n * l.inner + first, std::min(width, l.inner - first));
                 }
               });
}

}  // namespace fit
