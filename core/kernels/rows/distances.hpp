#pragma once
#include <cstdint>

#include "kernels/simd/isa.hpp"

// Distances between rows, and their gradient, in double; rounded by operation, with blocks of 64 terms.
namespace fit::kernels {

/// Rows of one side in a call, at most.
constexpr std::int64_t distance_rows = 32;

template <class T>
struct DistanceKernels {
  /// y[i, j] = sqrt(sum over c of (a[i, c] - b[j, c])^2), for a [m, C] and b [n, C] of any n. `wide` has room for
  /// distance_rows * C numbers.
  void (*euclidean)(T* y, const T* a, std::int64_t m, const T* b, std::int64_t n, std::int64_t C, double* wide);
  /// w = dy / y; 0 where y is 0. Returns whether each is as exact as dy and y: normal numbers of T or 0, or NaN.
  bool (*weights)(double* w, const T* dy, const T* y, std::int64_t n);
  /// dx[i, c] = sum over j of w[i wi + j wj] (x[i, c] - y[j, c]), for x [m, C] and y [n, C] of any n.
  void (*weighted)(T* dx, const T* x, std::int64_t m, const T* y, std::int64_t n, std::int64_t C, const double* w,
                   std::int64_t wi, std::int64_t wj);
};

template <class IsaTag, class T>
const DistanceKernels<T>& distance_table();

template <class T>
const DistanceKernels<T>& distances() {
  return FIT_KERNELS(distance_table, T);
}

}  // namespace fit::kernels
