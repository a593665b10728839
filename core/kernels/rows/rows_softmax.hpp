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
//
// One term of a slice may be far larger than the sum of all others. Its own part is kept apart, so that the others are
// not lost beside it: the sum of e^(x - max) is 1 + rest, its logarithm log1p(rest); and each adjoint treats the
// element with more than half of the softmax, the `leading` one, separately.
namespace fit::kernels {

/// The leading element of a slice is the one with y above this. A little more than 1/2, so that there is one at most.
constexpr double softmax_leads = 0.51, log_softmax_leads = -0.67;

/// Reference implementations for one slice of n numbers.
namespace reference {

template <class N>
N largest_of(const N* x, std::int64_t n) {
  using std::max;
  N m = x[0];
  for (std::int64_t i = 1; i < n; ++i) m = max(m, x[i]);
  return m;
}

/// The sum of e^(x - m) without the 1 of one maximum: e^0 = 1 for each of the maxima.
template <class N>
N rest_of_exps(const N* x, std::int64_t n, const N& m) {
  using std::exp;
  std::int64_t first = 0;
  while (first < n - 1 && !(x[first] == m)) ++first;
  return sum_of<N>(n, [&](std::int64_t i) { return i == first ? N(0) : exp(x[i] - m); });
}

/// y = e^(x - m) / (1 + rest); m = max(x) prevents overflow of e^x
template <class N>
void softmax(N* y, const N* x, std::int64_t n) {
  using std::exp;
  const N m = largest_of(x, n), scale = N(1) / (N(1) + rest_of_exps(x, n, m));
  for (std::int64_t i = 0; i < n; ++i) y[i] = exp(x[i] - m) * scale;
}

/// Index of the element of y above `limit`, or n.
template <class N>
std::int64_t leading(const N* y, std::int64_t n, double limit) {
  std::int64_t i = 0;
  while (i < n && !(N(limit) < y[i])) ++i;
  return i;
}

/// dx = y (dy - sum(y dy)). y sums to 1, so the same number may be subtracted from every dy: that of the leading
/// element, if it is finite. Then its own term of the sum is 0.
template <class N>
void softmax_backward(N* dx, const N* y, const N* dy, std::int64_t n) {
  const std::int64_t k = leading(y, n, softmax_leads);
  const N shift = k < n ? dy[k] : N(0);
  const N sum = sum_of<N>(n, [&](std::int64_t i) { return i == k ? N(0) : y[i] * (dy[i] - shift); });
  for (std::int64_t i = 0; i < n; ++i) dx[i] = i == k ? -(y[i] * sum) : y[i] * (dy[i] - shift - sum);
}

/// y = x - m - log1p(rest)
template <class N>
void log_softmax(N* y, const N* x, std::int64_t n) {
  using std::log1p;
  const N m = largest_of(x, n), log_sum = log1p(rest_of_exps(x, n, m));
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] - m - log_sum;
}

/// dx = dy - e^y sum(dy); for the leading element dy (1 - e^y) - e^y (the sum of the other dy)
template <class N>
void log_softmax_backward(N* dx, const N* y, const N* dy, std::int64_t n) {
  using std::exp;
  using std::expm1;
  const std::int64_t k = leading(y, n, log_softmax_leads);
  const N rest = sum_of<N>(n, [&](std::int64_t i) { return i == k ? N(0) : dy[i]; });
  const N sum = k < n ? rest + dy[k] : rest;
  for (std::int64_t i = 0; i < n; ++i)
    dx[i] = i == k ? -(dy[i] * expm1(y[i])) - exp(y[i]) * rest : dy[i] - exp(y[i]) * sum;
}

/// -ln(softmax(x)[target])
template <class N>
N cross_entropy(const N* x, std::int64_t n, std::int64_t target) {
  using std::log1p;
  const N m = largest_of(x, n);
  return log1p(rest_of_exps(x, n, m)) + (m - x[target]);
}

}  // namespace reference

// `slices` slices of n numbers each, in one of two layouts. stride = 1: contiguous, one after another. Otherwise side
// by side: the elements of a slice are `stride` apart, and the next slice begins one element later. nontemporal: the
// result (contiguous slices) bypasses the caches (stores_nontemporal()).
template <class T>
struct SoftmaxRows {
  // y = e^(x - max) / (1 + rest)
  void (*softmax)(T* y, const T* x, std::int64_t slices, std::int64_t n, std::int64_t stride, bool nontemporal);
  // y = x - max - log1p(rest)
  void (*log_softmax)(T* y, const T* x, std::int64_t slices, std::int64_t n, std::int64_t stride, bool nontemporal);
  // dx = y (dy - sum(y dy))
  void (*softmax_backward)(T* dx, const T* y, const T* dy, std::int64_t slices, std::int64_t n, std::int64_t stride,
                           bool nontemporal);
  // dx = dy - e^y sum(dy)
  void (*log_softmax_backward)(T* dx, const T* y, const T* dy, std::int64_t slices, std::int64_t n, std::int64_t stride,
                               bool nontemporal);
  // For one contiguous slice: its maximum, and the sum of e^(x - max) without the 1 of one maximum.
  void (*max_and_rest)(const T* x, std::int64_t n, T& max, T& rest);
  // y = e^(x - max) scale, for one contiguous slice.
  void (*scaled_exp)(T* y, const T* x, std::int64_t n, T max, T scale, bool nontemporal);
  // y += log1p(x)
  void (*add_log1p)(T* y, const T* x, std::int64_t n);
  // Of one number, with the bits that vectors have everywhere. (Those of the C library depend on it and the processor.)
  T (*exp)(T x);
  T (*log)(T x);
  T (*log1p)(T x);
};

template <class IsaTag, class T>
const SoftmaxRows<T>& softmax_table();

template <class T>
const SoftmaxRows<T>& softmax_rows() {
  return FIT_KERNELS(softmax_table, T);
}

}  // namespace fit::kernels
