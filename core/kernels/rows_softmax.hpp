#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/simd/isa.hpp"
#include "kernels/simd/nontemporal.hpp"
#include "kernels/simd/reference.hpp"

// Softmax, log_softmax and their adjoints on slices of numbers, float and double. Rounded by operation; the error of
// e^x is 3 units in the last place (float), 2 (double). e^x is 0 below the smallest normal number. Sums of e^x have at
// least 2 chains of additions, other sums 8; slices side by side have 1.
namespace fit::kernels {

/// Reference implementations for one slice of n numbers.
namespace reference {

template <class N>
N largest_of(const N* x, std::int64_t n) {
  using std::max;
  N m = x[0];
  for (std::int64_t i = 1; i < n; ++i) m = max(m, x[i]);
  return m;
}

/// sum(e^(x - m))
template <class N>
N sum_of_exps(const N* x, std::int64_t n, const N& m) {
  using std::exp;
  return sum_of<N>(n, [&](std::int64_t i) { return exp(x[i] - m); });
}

/// y = e^(x - m) / sum(e^(x - m)); m = max(x) prevents overflow of e^x
template <class N>
void softmax(N* y, const N* x, std::int64_t n) {
  using std::exp;
  const N m = largest_of(x, n), scale = N(1) / sum_of_exps(x, n, m);
  for (std::int64_t i = 0; i < n; ++i) y[i] = exp(x[i] - m) * scale;
}

/// dx = y (dy - sum(y dy))
template <class N>
void softmax_backward(N* dx, const N* y, const N* dy, std::int64_t n) {
  const N sum = sum_of<N>(n, [&](std::int64_t i) { return y[i] * dy[i]; });
  for (std::int64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - sum);
}

/// y = x - m - ln(sum(e^(x - m)))
template <class N>
void log_softmax(N* y, const N* x, std::int64_t n) {
  using std::log;
  const N m = largest_of(x, n), log_sum = log(sum_of_exps(x, n, m));
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] - m - log_sum;
}

/// dx = dy - e^y sum(dy)
template <class N>
void log_softmax_backward(N* dx, const N* y, const N* dy, std::int64_t n) {
  using std::exp;
  const N sum = sum_of<N>(n, [&](std::int64_t i) { return dy[i]; });
  for (std::int64_t i = 0; i < n; ++i) dx[i] = dy[i] - exp(y[i]) * sum;
}

/// -ln(softmax(x)[target])
template <class N>
N cross_entropy(const N* x, std::int64_t n, std::int64_t target) {
  using std::log;
  const N m = largest_of(x, n);
  return log(sum_of_exps(x, n, m)) + (m - x[target]);
}

}  // namespace reference

// `slices` slices of n numbers each, in one of two layouts. stride = 1: contiguous, one after another. Otherwise side
// by side: the elements of a slice are `stride` apart, and the next slice begins one element later. nontemporal: the
// result (contiguous slices aligned to 64 bytes) bypasses the caches (stores_nontemporal()).
template <class T>
struct SoftmaxRows {
  // y = e^(x - max) / sum(e^(x - max))
  void (*softmax)(T* y, const T* x, std::int64_t slices, std::int64_t n, std::int64_t stride, bool nontemporal);
  // y = x - max - ln(sum(e^(x - max)))
  void (*log_softmax)(T* y, const T* x, std::int64_t slices, std::int64_t n, std::int64_t stride, bool nontemporal);
  // dx = y (dy - sum(y dy))
  void (*softmax_backward)(T* dx, const T* y, const T* dy, std::int64_t slices, std::int64_t n, std::int64_t stride,
                           bool nontemporal);
  // dx = dy - e^y sum(dy)
  void (*log_softmax_backward)(T* dx, const T* y, const T* dy, std::int64_t slices, std::int64_t n, std::int64_t stride,
                               bool nontemporal);
  // For one contiguous slice: its maximum, and sum(e^(x - max)).
  void (*max_and_sum)(const T* x, std::int64_t n, T& max, T& sum);
  // y = e^(x - max) scale, for one contiguous slice.
  void (*scaled_exp)(T* y, const T* x, std::int64_t n, T max, T scale);
};

template <class IsaTag, class T>
const SoftmaxRows<T>& softmax_table();

template <class T>
const SoftmaxRows<T>& softmax_rows() {
  return FIT_KERNELS(softmax_table, T);
}

}  // namespace fit::kernels
