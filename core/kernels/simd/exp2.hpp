#pragma once
#include "kernels/simd/simd.hpp"

namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// 2^(n + f) for whole n and |f| <= 1/2: 2^f by the polynomial of degree 6, 1 at 0, whose largest relative error is
// least: 3e-9. float only; without AVX-512 for n <= 127, and 0 for n < -126.
template <class V>
inline V pow2(const V& n, const V& f) {
  using T = typename V::value_type;
  V p(T(1.53264715e-4));
  p = p * f + V(T(1.33908063e-3));
  p = p * f + V(T(9.61850584e-3));
  p = p * f + V(T(5.55035993e-2));
  p = p * f + V(T(2.40226477e-1));
  p = p * f + V(T(6.93147182e-1));
  p = p * f + V(T(1));
#if defined(__AVX512F__)
  return V(_mm512_maskz_scalef_ps(static_cast<__mmask16>(-1), p, n));
#else
  // Whatever ldexp makes of a smaller n is not chosen.
  return xsimd::select(n < V(T(-126)), V(T(0)), xsimd::ldexp(p, xsimd::to_int(n)));
#endif
}

// 2^x for x <= 127, with 0 for -inf and NaN for NaN; float: within 2 units in the last place
// (tests/core/attention_tiles_test.cpp), and 0 under the smallest normal number unless there is AVX-512.
template <class V>
inline V pow2(const V& x) {
  if constexpr (sizeof(typename V::value_type) == 8) {
    return xsimd::exp2(x);
  } else {
    const V n = xsimd::nearbyint(x);
    return pow2(n, x - n);
  }
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
