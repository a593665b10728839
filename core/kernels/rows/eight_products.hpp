#pragma once
#include <cstdint>

#include "kernels/simd/isa.hpp"

// Running products of eight slices at once, in double; rounded by operation.
namespace fit::kernels {

/// Eight slices of n numbers that are `step` from each other. Neighbours are `apart`. One of the two is 1.
struct EightSlices {
  std::int64_t n, step, apart;
};

/// Each function returns a bit for each slice in which a product of two numbers other than 0 is below the normal
/// numbers of double, or a result is not finite. `before` has room for 8 n numbers.
template <class T>
struct ProductKernels {
  /// y[i] = x[0] … x[i]
  unsigned (*running)(T* y, const T* x, const EightSlices& s);
  /// dx[j] = x[0] … x[j - 1] g[j], with g[j] = dy[j] + x[j + 1] g[j + 1]
  unsigned (*running_gradient)(T* dx, const T* x, const T* dy, const EightSlices& s, double* before);
  /// dx[j] = dy times the product of all x but x[j]; dy has one number for each slice.
  unsigned (*others)(T* dx, const T* x, const T* dy, const EightSlices& s, double* before);
};

template <class IsaTag, class T>
const ProductKernels<T>& product_table();

template <class T>
const ProductKernels<T>& products() {
  return FIT_KERNELS(product_table, T);
}

}  // namespace fit::kernels
