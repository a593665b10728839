#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/simd/isa.hpp"
#include "kernels/simd/nontemporal.hpp"
#include "kernels/simd/reference.hpp"

// Normalisation of contiguous rows of n numbers, float and double. `layer` subtracts the row's mean; `rms` does not
// (its mean is 0). weight and bias have n numbers and may be null. mean and rstd = 1 / sqrt(variance + eps) are one
// double for each row: for rows far from 0, a float mean would lose the precision of the differences. nontemporal: y or
// dx bypasses the caches (stores_nontemporal()). Rounded by operation, with at least 8
// chains of additions along a row and 1 across rows. Squares may leave the range of T: rstd is then far from 1,
// infinite or NaN, and network/normalization.cpp calls again with a scaled row.
namespace fit::kernels {

/// Reference implementations for one row of n numbers.
namespace reference {

/// y = (x - mean) / sqrt(variance + eps) weight + bias; weight and bias may be null
template <class N>
void layer_norm(N* y, const N* x, const N* weight, const N* bias, std::int64_t n, const N& eps) {
  using std::sqrt;
  const N size(static_cast<float>(n)), mean = sum_of<N>(n, [&](std::int64_t i) { return x[i]; }) / size;
  const N variance = sum_of<N>(n, [&](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); }) / size;
  const N rstd = N(1) / sqrt(variance + eps);
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = (x[i] - mean) * rstd;
    if (weight) y[i] = y[i] * weight[i];
    if (bias) y[i] = y[i] + bias[i];
  }
}

/// y = x / sqrt(mean(x^2) + eps) weight + bias
template <class N>
void rms_norm(N* y, const N* x, const N* weight, const N* bias, std::int64_t n, const N& eps) {
  using std::sqrt;
  const N size(static_cast<float>(n)), mean_square = sum_of<N>(n, [&](std::int64_t i) { return x[i] * x[i]; }) / size;
  const N rstd = N(1) / sqrt(mean_square + eps);
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = x[i] * rstd;
    if (weight) y[i] = y[i] * weight[i];
    if (bias) y[i] = y[i] + bias[i];
  }
}

/// The gradients of one row. With h = (x - mean) rstd and g = dy weight:
///   dx = rstd (g - mean(g) - h mean(g h)), for rms without the term mean(g);
///   dweight += dy h;  dbias += dy. weight, dweight and dbias may be null.
template <class N>
void norm_backward(bool layer, N* dx, N* dweight, N* dbias, const N* h, const N& rstd, const N* dy, const N* weight,
                   std::int64_t n) {
  const auto g = [&](std::int64_t i) { return weight ? dy[i] * weight[i] : dy[i]; };
  const N size(static_cast<float>(n)), mean_g = layer ? sum_of<N>(n, g) / size : N(0);
  const N mean_gh = sum_of<N>(n, [&](std::int64_t i) { return g(i) * h[i]; }) / size;
  for (std::int64_t i = 0; i < n; ++i) {
    dx[i] = rstd * (g(i) - mean_g - h[i] * mean_gh);
    if (dweight) dweight[i] = dweight[i] + dy[i] * h[i];
    if (dbias) dbias[i] = dbias[i] + dy[i];
  }
}

}  // namespace reference

template <class T>
struct NormRows {
  // y = (x - mean) rstd weight + bias; also returns mean (layer) and rstd.
  using Forward = void (*)(T* y, double* mean, double* rstd, const T* x, const T* weight, const T* bias,
                           std::int64_t rows, std::int64_t n, double eps, bool nontemporal);
  // With h = (x - mean) rstd and g = dy weight:
  //   dx = rstd (g - mean(g) - h mean(g h)), without the term mean(g) for rms;
  //   dweight += sum over the rows of dy h;  dbias += sum over the rows of dy.
  // dx, dweight and dbias may be null if not needed. A null mean means 0.
  using Backward = void (*)(T* dx, T* dweight, T* dbias, const T* x, const T* dy, const T* weight, const double* mean,
                            const double* rstd, std::int64_t rows, std::int64_t n, bool nontemporal);
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
