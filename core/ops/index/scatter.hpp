#pragma once
#include "base/acc_type.hpp"
#include "fit/ops/ops.hpp"
#include "kernels/copy.hpp"
#include "kernels/gather.hpp"
#include "tensor/dispatch.hpp"

namespace fit {

/// Gives input 0 a gradient with few nonzero elements: add(sum) adds it to the gradient in place. op() computes it as a
/// separate tensor instead while gradients are recorded, and for narrow types, which must be added in a wide one.
template <class Add, class Op>
void give_sparse(Backward& b, const Add& add, const Op& op) {
  if (b.recording() || is_narrow(b.dtype(0))) return b.give(0, op());
  Backward::Target t = b.target(0);
  if (!t.add) kernels::zero(t.grad.fresh<char>(), t.grad.numel() * size_of(t.grad.dtype()));
  add(t.grad);
}

/// Checks x, the axis, ids of x's rank, which name elements along the axis, and src of the ids' shape. Returns the axis
/// as a number >= 0.
int expect_scatter(const char* op, const Tensor& x, int axis, const Tensor& ids, const Tensor& src);

/// The same for ids [N] of slices of x along the axis, and src with N slices of the same type.
int expect_slices(const char* op, const Tensor& x, int axis, const Tensor& ids, const Tensor& src);

/// sum[o, ids[o, i, k], k] += src[o, i, k] along an axis. The ids have been checked.
inline void scatter_into(Tensor& sum, int axis, const Tensor& ids, const Tensor& src) {
  dispatch_compute(sum.dtype(), [&](auto kind) {
    using T = decltype(kind);
    if constexpr (!std::is_same_v<T, bool>)
      kernels::scatter_add(sum.fresh<T>(), src.data<T>().data(), ids.data<std::int64_t>().data(), ids.shape(),
                           sum.shape(), axis);
  });
}

/// Gives input 0 the gradient dy of the elements that were read at `ids` along an axis.
inline void give_scattered(Backward& b, int axis, const Tensor& ids, const Tensor& dy) {
  give_sparse(
      b, [&](Tensor& sum) { scatter_into(sum, axis, ids, dy); },
      [&] { return scatter_add(zeros(b.shape(0), b.dtype(0)), axis, ids, dy); });
}

}  // namespace fit
