#include <algorithm>

#include "base/scratch.hpp"
#include "fit/threads/parallel.hpp"
#include "kernels/axis_view.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/function_list.hpp"
#include "ops/common/composed.hpp"
#include "ops/common/precision.hpp"
#include "ops/index/axis_slices.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

Tensor composed_glu(const Tensor& x, int axis) {
  const std::int64_t n = x.shape()[axis];
  return slice(x, axis, 0, n / 2) * sigmoid(slice(x, axis, n / 2, n));
}

// Whether calls of kernels for each half would take longer than copies of the halves.
bool has_short_halves(const Shape& shape, int axis) {
  const kernels::AxisView view(shape, axis);
  return view.outer > 1 && view.n / 2 * view.inner < 32;
}

// Calls f(value, gate, result, n) for the offsets of blocks that stay in the L1 cache: n elements of the first half of
// x, of the second half, and of y.
template <class F>
void each_block(const Tensor& x, int axis, const F& f) {
  constexpr std::int64_t most = 2048;
  const kernels::AxisView view(x.shape(), axis);
  const std::int64_t half = view.n / 2 * view.inner, blocks = (half + most - 1) / most;
  parallel_for(view.outer * blocks,
               std::max<std::int64_t>(1, (1 << 13) / std::min(most, std::max<std::int64_t>(half, 1))),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t row = i / blocks, at = i % blocks * most;
                   f(2 * row * half + at, (2 * row + 1) * half + at, row * half + at, std::min(most, half - at));
                 }
               });
}

// y = a sigmoid(b)
template <class T>
void forward(const Tensor& x, int axis, Tensor& y) {
  const auto& gate = kernels::function<T>(kernels::Function::sigmoid);
  const auto multiply = kernels::elementwise<T>().mul;
  each_block(x, axis, [&, from = x.data<T>().data(), to = y.fresh<T>()](auto a, auto b, auto out, std::int64_t n) {
    gate.forward(to + out, from + b, n, T(0));
    multiply(to + out, from + a, to + out, n, 1, 1);
  });
}

// da = dy sigmoid(b), db = dy a sigmoid'(b)
template <class T>
void backward(const Tensor& x, int axis, const Tensor& dy, Tensor& dx) {
  const auto& gate = kernels::function<T>(kernels::Function::sigmoid);
  const auto multiply = kernels::elementwise<T>().mul;
  each_block(x, axis,
             [&, from = x.data<T>().data(), seed = dy.data<T>().data(), to = dx.fresh<T>()](auto a, auto b, auto out,
                                                                                            std::int64_t n) {
               gate.forward(to + a, from + b, n, T(0));
               multiply(to + a, to + a, seed + out, n, 1, 1);
               multiply(to + b, from + a, seed + out, n, 1, 1);
               gate.backward(to + b, to + b, from + b, n, T(0));
             });
}

}  // namespace

Tensor glu(const Tensor& x, int axis) {
  check::floating("glu", "x", x);
  axis = check::axis("glu", x, axis);
  const std::int64_t n = x.shape()[axis];
  if (n % 2 != 0)
    check::fail("glu", "axis ", axis, " of shape ", x.shape(),
                " has an odd size: its halves are the value and the gate");
  return with_precision(Precision::rounded, {x}, [&](const Tensor& x) {
    if (has_short_halves(x.shape(), axis)) {
      const Tensor y = composed_glu(x, axis);
      if (detail::thread_state.observed) detail::notify_op({"glu", {{"axis", axis}}}, {x}, &y, 1);  // of the whole
      return y;
    }
    Tensor y = Tensor::empty(x.shape().with(axis, n / 2), x.dtype());
    dispatch_compute_floating(x.dtype(), [&](auto zero) { forward<decltype(zero)>(x, axis, y); });
    return record({"glu", {{"axis", axis}}}, {x}, std::move(y), keep::inputs, [axis](Backward& b) {
      if (b.recording())
        return give_by_decomposition(
            b, [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{composed_glu(in[0], axis)}; });
      const Tensor x = b.x(0), dy = b.dy();
      Tensor dx = Tensor::empty(x.shape(), x.dtype());
      dispatch_compute_floating(x.dtype(), [&](auto zero) { backward<decltype(zero)>(x, axis, dy, dx); });
      b.give(0, std::move(dx));
    });
  });
}

}  // namespace fit
