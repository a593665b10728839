#pragma once
#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include <cmath>
#include <type_traits>

#include "kernels/simd/isa_namespace.hpp"

// x y + z, rounded once on every processor, for one register. Without instructions for it, it is computed exactly from
// sums and products without error.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

#if defined(__AVX512F__)
inline __m512 fused(__m512 x, __m512 y, __m512 z) { return _mm512_fmadd_ps(x, y, z); }
inline __m512d fused(__m512d x, __m512d y, __m512d z) { return _mm512_fmadd_pd(x, y, z); }
#elif defined(__SSE2__) && !defined(__FMA__)
// x + y and its rounding error (Knuth).
inline __m128d sum_and_error(__m128d x, __m128d y, __m128d& error) {
  const __m128d s = _mm_add_pd(x, y), part = _mm_sub_pd(s, x);
  error = _mm_add_pd(_mm_sub_pd(x, _mm_sub_pd(s, part)), _mm_sub_pd(y, part));
  return s;
}
// x + y rounded to odd: unless it is exact, the one of its two neighbours whose last bit is 1. Rounding that to fewer
// bits gives the same as rounding the sum once (Boldo and Melquiond 2008).
inline __m128d odd_sum(__m128d x, __m128d y) {
  __m128d error;
  const __m128d s = sum_and_error(x, y, error), zero = _mm_setzero_pd();
  const __m128i one = _mm_set1_epi64x(1), bits = _mm_castpd_si128(s);
  // NaN, the error of an infinite sum, is neither.
  const __m128d inexact = _mm_or_pd(_mm_cmplt_pd(error, zero), _mm_cmpgt_pd(error, zero));
  const __m128i even = _mm_sub_epi64(_mm_and_si128(bits, one), one);
  // 1 away from zero if the error has the sign of the sum, else -1
  const __m128i sign = _mm_srai_epi32(_mm_castpd_si128(_mm_xor_pd(error, s)), 31);
  const __m128i step = _mm_or_si128(_mm_shuffle_epi32(sign, _MM_SHUFFLE(3, 3, 1, 1)), one);
  return _mm_castsi128_pd(_mm_add_epi64(bits, _mm_and_si128(_mm_and_si128(step, even), _mm_castpd_si128(inexact))));
}
// A call: in every kernel, its code would make programs a sixth larger. What is rare is a function of its own.
[[gnu::noinline, gnu::cold]] inline __m128 odd_sums(__m128d x0, __m128d y0, __m128d x1, __m128d y1) {
  return _mm_movelh_ps(_mm_cvtpd_ps(odd_sum(x0, y0)), _mm_cvtpd_ps(odd_sum(x1, y1)));
}
// A product of floats is exact in double. The sum, rounded to double and then to float, is rounded once, unless it lies
// in the middle between two floats after the first time. Denormal floats have other middles.
[[gnu::noinline]] inline __m128 fused(__m128 x, __m128 y, __m128 z) {
  const auto upper = [](__m128 v) { return _mm_cvtps_pd(_mm_movehl_ps(v, v)); };
  const __m128d p0 = _mm_mul_pd(_mm_cvtps_pd(x), _mm_cvtps_pd(y)), z0 = _mm_cvtps_pd(z), sum0 = _mm_add_pd(p0, z0);
  const __m128d p1 = _mm_mul_pd(upper(x), upper(y)), z1 = upper(z), sum1 = _mm_add_pd(p1, z1);
  const auto words = [&](auto order) {
    return _mm_castps_si128(_mm_shuffle_ps(_mm_castpd_ps(sum0), _mm_castpd_ps(sum1), decltype(order)::value));
  };
  const __m128i low = words(std::integral_constant<int, _MM_SHUFFLE(2, 0, 2, 0)>());
  const __m128i high = words(std::integral_constant<int, _MM_SHUFFLE(3, 1, 3, 1)>());
  const __m128i size = _mm_and_si128(high, _mm_set1_epi32(0x7fffffff)), zero = _mm_cmpeq_epi32(size, __m128i());
  const __m128i middle = _mm_cmpeq_epi32(_mm_and_si128(low, _mm_set1_epi32(0x1fffffff)), _mm_set1_epi32(0x10000000));
  const __m128i denormal = _mm_andnot_si128(zero, _mm_cmplt_epi32(size, _mm_set1_epi32((1023 - 126) << 20)));
  if (__builtin_expect(_mm_movemask_epi8(_mm_or_si128(middle, denormal)), 0)) return odd_sums(p0, z0, p1, z1);
  return _mm_movelh_ps(_mm_cvtpd_ps(sum0), _mm_cvtpd_ps(sum1));
}

// The library's function, which is slow.
[[gnu::noinline, gnu::cold]] inline __m128d fused_one_by_one(__m128d x, __m128d y, __m128d z) {
  alignas(16) double a[2], b[2], c[2];
  _mm_store_pd(a, x), _mm_store_pd(b, y), _mm_store_pd(c, z);
  return _mm_setr_pd(std::fma(a[0], b[0], c[0]), std::fma(a[1], b[1], c[1]));
}
// high + low + z
[[gnu::noinline, gnu::cold]] inline __m128d odd_sum(__m128d high, __m128d low, __m128d z) {
  __m128d rest, middle;
  const __m128d sum = sum_and_error(high, sum_and_error(z, low, rest), middle);
  return _mm_add_pd(sum, odd_sum(middle, rest));
}
// The product is the sum of two doubles (Dekker 1971), unless it is so large or small that one leaves the range. Of
// their sum with z, a double and its rest, the rest is rounded first: it matters only if the sum then lies in the
// middle between two doubles, so that what is left is a power of two.
[[gnu::noinline]] inline __m128d fused(__m128d x, __m128d y, __m128d z) {
  const auto size = [](__m128d v) { return _mm_andnot_pd(_mm_set1_pd(-0.0), v); };
  const __m128d p = _mm_mul_pd(x, y), zero = _mm_setzero_pd();
  // With a NaN, either way gives NaN.
  const __m128d largest = _mm_max_pd(_mm_max_pd(size(x), size(y)), _mm_max_pd(size(p), size(z)));
  const __m128d no_product = _mm_cmpeq_pd(_mm_min_pd(size(x), size(y)), zero);
  const __m128d usual = _mm_and_pd(_mm_cmplt_pd(largest, _mm_set1_pd(0x1p990)),
                                   _mm_or_pd(no_product, _mm_cmpgt_pd(size(p), _mm_set1_pd(0x1p-900))));
  if (__builtin_expect(_mm_movemask_pd(usual) != 3, 0)) return fused_one_by_one(x, y, z);
  const auto upper = [](__m128d v) {
    const __m128d t = _mm_mul_pd(v, _mm_set1_pd(0x1p27 + 1));
    return _mm_sub_pd(t, _mm_sub_pd(t, v));
  };
  const __m128d x1 = upper(x), x2 = _mm_sub_pd(x, x1), y1 = upper(y), y2 = _mm_sub_pd(y, y1);
  const __m128d p2 =
      _mm_add_pd(_mm_add_pd(_mm_add_pd(_mm_sub_pd(_mm_mul_pd(x1, y1), p), _mm_mul_pd(x1, y2)), _mm_mul_pd(x2, y1)),
                 _mm_mul_pd(x2, y2));
  __m128d error;
  const __m128d sum = sum_and_error(p, z, error), rest = _mm_add_pd(error, p2);
  __m128d all = _mm_add_pd(sum, rest);
  const __m128d left = _mm_sub_pd(rest, _mm_sub_pd(all, sum));
  const __m128i digits = _mm_and_si128(_mm_castpd_si128(left), _mm_set1_epi64x(0xfffffffffffff));
  const __m128i none = _mm_cmpeq_epi32(digits, __m128i());
  const __m128d power = _mm_castsi128_pd(_mm_and_si128(none, _mm_shuffle_epi32(none, _MM_SHUFFLE(2, 3, 0, 1))));
  if (__builtin_expect(_mm_movemask_pd(_mm_and_pd(power, _mm_cmpneq_pd(left, zero))), 0)) all = odd_sum(p, p2, z);
  // Without a product, the sum has its sign where it is 0.
  return _mm_or_pd(_mm_and_pd(no_product, sum), _mm_andnot_pd(no_product, all));
}
#elif defined(__aarch64__)
inline float32x4_t fused(float32x4_t x, float32x4_t y, float32x4_t z) { return vfmaq_f32(z, x, y); }
inline float64x2_t fused(float64x2_t x, float64x2_t y, float64x2_t z) { return vfmaq_f64(z, x, y); }
#endif

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
