#pragma once
#include <cstdint>

#include "kernels/isa.hpp"
#include "kernels/nontemporal.hpp"

// Softmax and its kin on lines of numbers, float and double. Rounded by operation; e^x 3 units in the last place
// (float), 2 (double), or 0 where it is under the least normal number. Sums of e^x have at least 2 chains of additions,
// the others 8, and side by side all have 1.
namespace fit::kernels {

// `lines` lines of n numbers each, in one of two layouts. stride = 1: contiguous, one after another. Otherwise side by
// side: the elements of a line are `stride` apart, and each line begins one element after the one before. past: the
// result, contiguous lines aligned to 64 bytes, is stored past the caches (goes_past()).
template <class T>
struct SoftmaxRows {
  // y = e^(x - max) / sum(e^(x - max))
  void (*softmax)(T* y, const T* x, std::int64_t lines, std::int64_t n, std::int64_t stride, bool past);
  // y = x - max - ln(sum(e^(x - max)))
  void (*log_softmax)(T* y, const T* x, std::int64_t lines, std::int64_t n, std::int64_t stride, bool past);
  // dx = y (dy - sum(y dy))
  void (*softmax_backward)(T* dx, const T* y, const T* dy, std::int64_t lines, std::int64_t n, std::int64_t stride,
                           bool past);
  // dx = dy - e^y sum(dy)
  void (*log_softmax_backward)(T* dx, const T* y, const T* dy, std::int64_t lines, std::int64_t n, std::int64_t stride,
                               bool past);
  // Of one contiguous line: its largest element, and sum(e^(x - max)).
  void (*max_and_sum)(const T* x, std::int64_t n, T& max, T& sum);
  // y = e^(x - max) scale, on one contiguous line.
  void (*scaled_exp)(T* y, const T* x, std::int64_t n, T max, T scale);
};

template <class IsaTag, class T>
const SoftmaxRows<T>& softmax_table();

template <class T>
const SoftmaxRows<T>& softmax_rows() {
  return FIT_KERNELS(softmax_table, T);
}

}  // namespace fit::kernels
