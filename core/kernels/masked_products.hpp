#pragma once
#include <cstdint>

namespace fit::kernels {

/// A matrix in memory: element (i, j) is data[i * stride + j].
template <class T>
struct MatrixView {
  T* data;
  std::int64_t stride;
};

/// One head of attention: queries x keys with `features` of the other axis, and which pairs count.
struct VisiblePairs {
  std::int64_t queries, keys, features;
  MatrixView<const bool> visible;  // [queries, keys]; stride 0 if all queries see the same keys
};

// Products over visible pairs alone. A pair that is hidden is not multiplied by 0 but left out: 0 * NaN is NaN. Rounded
// by operation, with 1 chain of additions (isa.hpp).

/// s[q, k] = sum over d of x[q, d] y[k, d]; 0 where hidden.
template <class T>
void masked_qk(const VisiblePairs& p, MatrixView<T> s, MatrixView<const T> x, MatrixView<const T> y);
/// o[q, d] = sum over visible k of s[q, k] y[k, d].
template <class T>
void masked_pv(const VisiblePairs& p, MatrixView<T> o, MatrixView<const T> s, MatrixView<const T> y);
/// o[k, d] = sum over visible q of s[q, k] x[q, d].
template <class T>
void masked_pt_q(const VisiblePairs& p, MatrixView<T> o, MatrixView<const T> s, MatrixView<const T> x);

/// Whether a [rows, columns] matrix holds neither NaN nor infinity.
template <class T>
bool all_finite(MatrixView<const T> p, std::int64_t rows, std::int64_t columns);

}  // namespace fit::kernels
