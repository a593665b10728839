#pragma once
#include <cstdint>

namespace fit::kernels {

/// A matrix in memory: element (i, j) is data[i * stride + j].
template <class T>
struct Panel {
  T* data;
  std::int64_t stride;
};

/// One head of attention: queries x keys with `features` of the other axis, and which pairs count.
struct VisiblePairs {
  std::int64_t queries, keys, features;
  Panel<const bool> visible;  // [queries, keys]; stride 0 if all queries see the same keys
};

// Products over visible pairs alone. A pair that is hidden is not multiplied by 0 but left out: 0 * NaN is NaN. Rounded
// by operation, with 1 chain of additions (isa.hpp).

/// s[q, k] = sum over d of x[q, d] y[k, d]; 0 where hidden.
template <class T>
void visible_scores(const VisiblePairs& p, Panel<T> s, Panel<const T> x, Panel<const T> y);
/// o[q, d] = sum over visible k of s[q, k] y[k, d].
template <class T>
void visible_to_queries(const VisiblePairs& p, Panel<T> o, Panel<const T> s, Panel<const T> y);
/// o[k, d] = sum over visible q of s[q, k] x[q, d].
template <class T>
void visible_to_keys(const VisiblePairs& p, Panel<T> o, Panel<const T> s, Panel<const T> x);

/// Whether a [rows, columns] panel holds neither NaN nor infinity.
template <class T>
bool all_finite(Panel<const T> p, std::int64_t rows, std::int64_t columns);

}  // namespace fit::kernels
