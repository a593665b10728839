#pragma once
#include <cstdint>

#include "kernels/simd/isa.hpp"

// The windows that slide over images, for convolutions and pools: which elements of x [channels, rows, cols] element
// (k, l) of all windows reads. For convolutions, x has its zeros around it already, and `slack` numbers behind it that
// can be read. Copies and maxima are exact; sums are rounded by operation, with at least 1 chain of additions.
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

/// Windows that may lie beyond x, whose first one begins `above` and `before` it: what is outside does not count.
struct PoolLayout {
  WindowLayout w;
  std::int64_t above, before;
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

/// Pools of one plane x [rows, cols] into y [places].
template <class T>
struct PoolKernels {
  // y = the maximum of the elements of the window; NaN wins.
  void (*max)(const PoolLayout& p, const T* x, T* y);
  // dx[the first element that is y] += dy. Overwrites dy.
  void (*max_back)(const PoolLayout& p, const T* x, const T* y, T* dy, T* dx);
  // sums += the elements of the window
  void (*add)(const PoolLayout& p, const T* x, double* sums);
  // dx[each element of the window] += dy
  void (*add_back)(const PoolLayout& p, const T* dy, T* dx);
};

template <class IsaTag, class T>
const PoolKernels<T>& pool_table();

template <class T>
const PoolKernels<T>& pools() {
  return FIT_KERNELS(pool_table, T);
}

template <class IsaTag, class T>
const WindowKernels<T>& window_table();

template <class T>
const WindowKernels<T>& windows() {
  return FIT_KERNELS(window_table, T);
}

}  // namespace fit::kernels
