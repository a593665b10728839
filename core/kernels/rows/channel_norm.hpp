#pragma once
#include <cstdint>

#include "kernels/simd/isa.hpp"
#include "kernels/simd/nontemporal.hpp"
#include "kernels/simd/reference.hpp"

// Normalisation by numbers of channels, float and double, for batch_norm and group_norm: the sums of their gradients,
// and the last step of both. Rounded by operation, with at least 4 chains of additions.
namespace fit::kernels {

/// Rows `first` … `last` - 1 of n elements. Several lists have `count` numbers each, one list after the other. A row
/// takes the numbers at r % count, or, if `across`, its element i those at (r n + i) % count, where n divides count.
struct NumberedRows {
  std::int64_t first, last, n, count;
  bool across;
};

/// Reference implementations for one element, with its numbers of the lists.
namespace reference {

/// y = (x - high - low) scale + shift. high + low is a mean in double.
template <class N>
N channel_forward(const N& x, const N (&lists)[4]) {
  return (x - lists[0] - lists[1]) * lists[2] + lists[3];
}

/// dx = scale dy - (h slope + shift) with h = (x - high - low) rstd; the lists are high, low, rstd, scale, slope, shift
template <class N>
N channel_backward(const N& x, const N& dy, const N (&lists)[6]) {
  const N h = (x - lists[0] - lists[1]) * lists[2];
  return lists[3] * dy - (h * lists[4] + lists[5]);
}

/// a + sum((x - c) y)
template <class N>
N products(const N& a, const N* x, const N* y, std::int64_t n, const N& c) {
  return sum_of<N>(n + 1, [&](std::int64_t i) { return i == 0 ? a : (x[i - 1] - c) * y[i - 1]; });
}

}  // namespace reference

template <class T>
struct ChannelNorm {
  // acc += the sums of (x - centre) y, for two tensors of one layout, as kernels::Fold.
  void (*products)(double* acc, const T* x, const T* y, const double* centre, std::int64_t kept, std::int64_t ks,
                   std::int64_t reduced, std::int64_t rs);
  void (*forward)(T* y, const T* x, const T* lists, const NumberedRows& rows, bool nontemporal);
  void (*backward)(T* dx, const T* x, const T* dy, const T* lists, const NumberedRows& rows, bool nontemporal);
};

template <class IsaTag, class T>
const ChannelNorm<T>& channel_norm_table();

template <class T>
const ChannelNorm<T>& channel_norm() {
  return FIT_KERNELS(channel_norm_table, T);
}

}  // namespace fit::kernels
