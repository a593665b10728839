#pragma once
#include "kernels/simd/simd.hpp"

namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// 2^(n + f) for integer n and |f| <= 1/2. 2^f is the minimax polynomial of degree 6 with value 1 at 0; its relative
// error is 3e-9. float only. Without AVX-512, n <= 127, and the result is 0 for n < -126.
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
  // ldexp is invalid for smaller n; that result is not selected.
  return xsimd::select(n < V(T(-126)), V(T(0)), xsimd::ldexp(p, xsimd::to_int(n)));
#endif
}

// 2^x for x <= 127; 0 for -inf, NaN for NaN. float: within 2 units in the last place
// (tests/core/attention/attention_tiles_test.cpp), and 0 below the smallest normal number unless there is AVX-512.
template <class V>
inline V pow2(const V& x) {
  if constexpr (sizeof(typename V::value_type) == 8) {
    return xsimd::exp2(x);
  } else {
    const V n = xsimd::nearbyint(x);
    return pow2(n, x - n);
  }
}

// e^x for x <= 8, by 2^(x log2(e)). The product is rounded, so the relative error grows with |x|: x should be a
// difference that is small where the result matters, as a score minus the maximum of its row.
template <class V>
V exp_of(const V& x) {
  constexpr double log2_e = 1.4426950408889634;
  return pow2(x * V(static_cast<typename V::value_type>(log2_e)));
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
