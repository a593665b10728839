#pragma once
#include <cstdint>

#include "kernels/isa.hpp"
#include "kernels/nontemporal.hpp"

// Normalisation of contiguous rows of n numbers, float and double. `layer` subtracts the row's mean, `rms` does not
// (its mean is 0). weight and bias, of n numbers, may be null. mean and rstd = 1 / sqrt(variance + eps) are one number
// a row, in double: of rows far from 0 a float mean would lose what the differences keep. past: y or dx, aligned to 64
// bytes row by row, is stored past the caches (goes_past()). Rounded by operation, with at least 8 chains of additions
// along a row and 1 from row to row.
namespace fit::kernels {

template <class T>
struct NormRows {
  // y = (x - mean) rstd weight + bias; leaves mean (layer) and rstd.
  using Forward = void (*)(T* y, double* mean, double* rstd, const T* x, const T* weight, const T* bias,
                           std::int64_t rows, std::int64_t n, double eps, bool past);
  // With h = (x - mean) rstd and g = dy weight:
  //   dx = rstd (g - mean(g) - h mean(g h)), without the term mean(g) for rms;
  //   dweight += sum over the rows of dy h;  dbias += sum over the rows of dy.
  // Each of dx, dweight and dbias may be null: not wanted. mean may be null: 0.
  using Backward = void (*)(T* dx, T* dweight, T* dbias, const T* x, const T* dy, const T* weight, const double* mean,
                            const double* rstd, std::int64_t rows, std::int64_t n, bool past);
  Forward layer, rms;
  Backward layer_backward, rms_backward;
};

template <class IsaTag, class T>
const NormRows<T>& norm_table();

template <class T>
const NormRows<T>& norm_rows() {
  return FIT_KERNELS(norm_table, T);
}

}  // namespace fit::kernels
