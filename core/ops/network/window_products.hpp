#pragma once
#include "fit/ops/ops.hpp"
#include "kernels/windows.hpp"

// The sums of a convolution and of its gradients, in float or double. The windows are copied block by block, into
// memory that stays in the caches.
namespace fit {

/// x [N, groups channels, rows, cols], weight [groups outputs, channels, height, width], y [N, groups outputs, down,
/// right]. Trivially copyable, so that an adjoint can capture it.
struct WindowProducts {
  kernels::WindowLayout w;  // of one group of x, with zeros around it
  std::int64_t n, groups, outputs;
  std::int64_t above, before;  // how many rows and columns of zeros, on both sides

  /// The elements of a window in all channels of a group.
  std::int64_t depth() const { return w.channels * w.in_window(); }
  std::int64_t rows() const { return w.rows - 2 * above; }
  std::int64_t cols() const { return w.cols - 2 * before; }
};

/// The type in which weight, and the dy of window_products_dweight(), are given for values of bfloat16: bfloat16 where
/// the processor multiplies it, else float32. x is float32 then.
DType factor_dtype(const WindowProducts& c);

/// Results of these shapes, which may have fewer axes, and of the type of x. bias [groups outputs] may be undefined.
Tensor window_products(const WindowProducts& c, const Shape& y, const Tensor& x, const Tensor& weight,
                       const Tensor& bias);
Tensor window_products_dx(const WindowProducts& c, const Shape& x, const Tensor& dy, const Tensor& weight);
Tensor window_products_dweight(const WindowProducts& c, const Shape& weight, const Tensor& x, const Tensor& dy);

}  // namespace fit
