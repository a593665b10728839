#pragma once
#include "fit/ops/ops.hpp"

namespace fit {

/// The windows on the last two axes of x [N, C, H, W]. Trivially copyable, so that an adjoint can capture it.
struct Windows {
  std::int64_t height, width;                          // of a window
  std::int64_t stride_down = 1, stride_right = 1;      // between windows
  std::int64_t dilation_down = 1, dilation_right = 1;  // between the elements of a window
};

/// How many windows of `size` elements fit along an axis of n.
inline std::int64_t places(std::int64_t n, std::int64_t size, std::int64_t stride, std::int64_t dilation) {
  return (n - dilation * (size - 1) - 1) / stride + 1;
}

/// Throws Error if there are more numbers than axes along which windows slide.
void expect_axes(const char* op, const char* name, int axes, const PerAxis& given);

/// The elements of every window (im2col): [N, C, height, width, windows down, windows right]. The caller checks that
/// the windows fit.
Tensor patches(const char* op, const Tensor& x, const Windows& w);

}  // namespace fit
