#pragma once
#include <cmath>
#include <limits>

#include "attention/visibility.hpp"
#include "fit/tensor.hpp"

// The products of attention over the pairs of query and key that attend. A masked pair is left out, not multiplied by
// 0: 0 * NaN is NaN.
namespace fit {
namespace detail {

/// The three tensors of a product: s [B, H, Sq, Sk], x [B, H, Sq, D] and y [B, H, Sk, D].
enum class ProductRole { scores, queries, keys };

/// The tensor of role `out` from the two others, in the order of the roles, over the pairs in `attends`: boolean (B|1,
/// H|1, 1|Sq, Sk), or undefined if all pairs attend:
///   s = x y',  x = s y,  y = s' x
/// s must be 0 for masked pairs; the result s is not to be read there. These are plain products, but a head with a NaN
/// or an infinity is computed pair by pair.
Tensor masked_matmul(ProductRole out, const Tensor& a, const Tensor& b, const Tensor& attends);

}  // namespace detail

namespace kernels {

/// One head of s, x or y: element (query i, key j, feature d) is data[i query + j key + d feature]; s has feature 0, x
/// key 0 and y query 0.
template <class T>
struct ProductView {
  T* data;
  std::int64_t query, key, feature;
};

/// out += a b, added up over all `features` of the pairs of a head that attend. Rounded by operation, with 1 chain of
/// additions (kernels/simd/isa.hpp).
template <class T>
void masked_matmul(const Visibility& v, std::int64_t b, std::int64_t h, std::int64_t features, ProductView<T> out,
                   ProductView<const T> x, ProductView<const T> y) {
  for (std::int64_t i = 0; i < v.Sq; ++i)
    for (std::int64_t j = 0; j < v.Sk; ++j) {
      if (!v.attends(b, h, i, j)) continue;
      T* const to = out.data + i * out.query + j * out.key;
      const T *const p = x.data + i * x.query + j * x.key, *const q = y.data + i * y.query + j * y.key;
      for (std::int64_t d = 0; d < features; ++d) to[d * out.feature] += p[d * x.feature] * q[d * y.feature];
    }
}

/// Whether n numbers are all finite.
template <class T>
bool all_finite(const T* x, std::int64_t n) {
  int bad = 0;  // a NaN fails every comparison
  for (std::int64_t i = 0; i < n; ++i) bad |= !(std::abs(x[i]) <= std::numeric_limits<T>::max());
  return !bad;
}

}  // namespace kernels
}  // namespace fit
