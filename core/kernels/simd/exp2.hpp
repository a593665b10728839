#pragma once
#include "kernels/simd/simd.hpp"

namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// 2^f for |f| <= 1/2: the minimax polynomial of degree 6 with value 1 at 0; its relative error is 3e-9. float only.
template <class V>
inline V pow2_of_fraction(const V& f) {
  using T = typename V::value_type;
  V p(T(1.53264715e-4));
  p = xsimd::fma(p, f, V(T(1.33908063e-3)));
  p = xsimd::fma(p, f, V(T(9.61850584e-3)));
  p = xsimd::fma(p, f, V(T(5.55035993e-2)));
  p = xsimd::fma(p, f, V(T(2.40226477e-1)));
  p = xsimd::fma(p, f, V(T(6.93147182e-1)));
  return xsimd::fma(p, f, V(T(1)));
}

// The number t = n + exponent_bits has n + 254 in its last bits: two exponents with their bias.
constexpr float exponent_bits = 0x1.8p23F + 254;

// y 2^n for an integer n = t - exponent_bits, -254 <= n <= 200, float only: rounded once, also where the result is
// denormal or infinite.
template <class V>
inline V scaled(const V& y, [[maybe_unused]] const V& t, [[maybe_unused]] const V& n) {
#if defined(__AVX512F__)
  return V(_mm512_scalef_ps(y, n));
#else
  // Of two products, the first is exact; it is 0 for n = -254. (A product that only rounds to 0 takes much longer.)
  const auto power = [](const auto& exponent) { return xsimd::bitwise_cast<V>(exponent << 23); };
  const auto both = xsimd::bitwise_cast<xsimd::as_integer_t<V>>(t), half = both >> 1;
  return y * power(half) * power(both - half);
#endif
}

// y, or 0 where n < least: for scaled() where it gives 0 there. AVX-512's instruction would round to 0, which takes
// Intel's processors 150 cycles.
template <class V>
inline V zero_below(const V& y, [[maybe_unused]] const V& n, [[maybe_unused]] float least) {
#if defined(__AVX512F__)
  return V(_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(n, _mm512_set1_ps(least), _CMP_NLT_UQ), y));  // keeps NaN
#else
  return y;
#endif
}

// x, but at least `low` where zero_below() does nothing: so that n >= -254. NaN stays.
template <class V>
inline V exponent_from(const V& x, [[maybe_unused]] float low) {
#if defined(__AVX512F__)
  return x;
#else
  return xsimd::max(V(low), x);
#endif
}

// 2^x for x <= 60; NaN for NaN. float: within 2 units in the last place
// (tests/core/attention/attention_tiles_test.cpp), and 0 for x < -99.5. Weights that are so small beside others change
// no sum, and their products would be subnormal numbers, which Intel's processors multiply a hundred times as slowly.
template <class V>
inline V pow2(const V& x) {
  if constexpr (sizeof(typename V::value_type) == 8) {
    return xsimd::exp2(x);
  } else {
    constexpr float zero = -100;  // the exponent of what becomes 0
#if defined(__AVX512F__)
    const V n = xsimd::nearbyint(x);
    return V(_mm512_scalef_ps(zero_below(pow2_of_fraction(V(x - n)), n, zero + 1), n));
#else
    // The last bits of t are n - zero, an exponent with its bias; for the least n it is that of 0.
    const V c = xsimd::max(V(zero), x), shift(0x1.8p23F - zero), t = c + shift, n = t - shift;  // keeps NaN
    const V power = xsimd::bitwise_cast<V>(xsimd::bitwise_cast<xsimd::as_integer_t<V>>(t) << 23);
    // power is 2^(n - 27). Multiplied by it first, a fraction below 1 would become subnormal for the least n but one.
    return pow2_of_fraction(V(c - n)) * V(0x1p27F) * power;
#endif
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
