#pragma once
#include <cstdint>

#include "kernels/simd/isa.hpp"

// The windows that slide over images, for convolutions: which elements of x [channels, rows, cols] element (k, l) of
// all windows reads. x has its zeros around it already, and `slack` numbers behind it that can be read. Copies are
// exact; sums are rounded by operation, with at least 1 chain of additions.
namespace fit::kernels {

/// Windows of height x width. A place is that of a window in y [down, right], counted row by row.
struct WindowLayout {
  std::int64_t channels, rows, cols;
  std::int64_t height, width;
  std::int64_t stride_down, stride_right;      // between windows
  std::int64_t dilation_down, dilation_right;  // between the elements of a window
  std::int64_t down, right;

  static constexpr std::int64_t slack = 16;
  std::int64_t plane() const { return rows * cols; }
  std::int64_t places() const { return down * right; }
  std::int64_t in_window() const { return height * width; }
  /// The element (k, l) of the window at (i, j), within its plane.
  std::int64_t at(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l) const {
    return (i * stride_down + k * dilation_down) * cols + j * stride_right + l * dilation_right;
  }
};

/// Some channels of x, and some places.
struct WindowBlock {
  std::int64_t channel, channels, place, places;
};

template <class T>
struct WindowKernels {
  // y[i] = value
  void (*fill)(T* y, std::int64_t n, T value);
  // out [channels height width, places]: the element (c, k, l) of each window (im2col). Writes `slack` numbers behind
  // out, too.
  void (*gather)(const WindowLayout& w, const WindowBlock& b, const T* x, T* out);
  // The adjoint (col2im): adds them to x.
  void (*scatter)(const WindowLayout& w, const WindowBlock& b, const T* from, T* x);
  // Of one channel, for y [places] of the block: y[place] += sum over (k, l) of weight[k, l] x[its element].
  void (*multiply)(const WindowLayout& w, const WindowBlock& b, const T* x, const T* weight, T* y);
  // Its adjoint: totals[k, l] += sum over the places of x[its element] y. A chain of additions goes along the places.
  void (*products)(const WindowLayout& w, const WindowBlock& b, const T* x, const T* y, double* totals);
};

template <class IsaTag, class T>
const WindowKernels<T>& window_table();

template <class T>
const WindowKernels<T>& windows() {
  return FIT_KERNELS(window_table, T);
}

}  // namespace fit::kernels
