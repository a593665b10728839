#pragma once
#include "fit/ops.hpp"

namespace fit {

/// How windows lie on the last two axes of x [N, C, H, W]; a plain value, so that an adjoint can hold it.
struct Windows {
  std::int64_t height, width;                          // of a window
  std::int64_t stride_down = 1, stride_right = 1;      // from window to window
  std::int64_t dilation_down = 1, dilation_right = 1;  // from element to element within one
};

/// The elements of every window: [N, C, height, width, windows down, windows right]. The windows have been checked to
/// fit.
Tensor patches(const char* op, const Tensor& x, const Windows& w);

}  // namespace fit
