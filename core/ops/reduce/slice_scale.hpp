#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "fit/ops/ops.hpp"

// Powers of two that keep squares in range. Norms and variances compute plainly first. For slices whose result shows
// that squares have overflowed or underflowed, they compute again with numbers near 1, and scale the result back.
// Scaling by a power of two is exact, so other slices keep their bits, and both ways give the same bits where both are
// in range.
namespace fit {

/// Squares of numbers between 1 / limit and limit are normal numbers of T, and so are quotients of two of them.
template <class T>
inline constexpr double square_limit = sizeof(T) == sizeof(float) ? 0x1p60 : 0x1p500;

/// Whether |size| is between 1 / limit and limit.
template <class T>
bool squares_fit(double size) {
  return std::abs(size) >= 1 / square_limit<T> && std::abs(size) <= square_limit<T>;
}

/// The power of two that brings `largest`, the largest |x| of a slice, to 1 … 2, or to 2^-52 at least if it is
/// denormal. 1 if sums of squares fit, or if `largest` is 0 or not finite.
template <class T>
T scale_of(double largest) {
  if (largest == 0 || !std::isfinite(largest) || squares_fit<T>(largest * largest)) return 1;
  constexpr int most = std::numeric_limits<T>::max_exponent - 2;  // 1 / the smallest normal number
  return static_cast<T>(std::ldexp(1., -std::clamp(std::ilogb(largest), -most, most)));
}

/// scale_of() for each slice of x along the axes that are 1 in `kept`; 1 for slices whose `size` [kept] (a norm, or
/// another number whose square was needed) fits. Undefined if all are 1. x is float32 or float64.
Tensor slice_scale(const Tensor& x, const Shape& kept, const Tensor& size);

/// The axes that are 1 in `kept`.
Axes reduced_axes(const Shape& kept);

}  // namespace fit
