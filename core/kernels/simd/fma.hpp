#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <xsimd/xsimd.hpp>

#include "kernels/simd/isa_namespace.hpp"

// xsimd's fma(), fms(), fnma() and fnms(), rounded once on every processor. xsimd 8.1 multiplies and adds in two steps
// for AVX-512, and where there are no instructions for it; its own functions (exp, log, …) call these four. Kernels are
// compiled without contraction, so nothing else fuses a product and a sum. For *.simd.cpp files only.
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
// A product of floats is exact in double. A call: in every kernel, its code would make programs a sixth larger.
[[gnu::noinline]] inline __m128 fused(__m128 x, __m128 y, __m128 z) {
  const auto half = [](__m128 a, __m128 b, __m128 c) {
    return _mm_cvtpd_ps(odd_sum(_mm_mul_pd(_mm_cvtps_pd(a), _mm_cvtps_pd(b)), _mm_cvtps_pd(c)));
  };
  return _mm_movelh_ps(half(x, y, z), half(_mm_movehl_ps(x, x), _mm_movehl_ps(y, y), _mm_movehl_ps(z, z)));
}
// The product is the sum of two doubles (Dekker 1971). The library's function, which is slow, computes what is so large
// or small that this leaves the range.
[[gnu::noinline]] inline __m128d fused(__m128d x, __m128d y, __m128d z) {
  const auto size = [](__m128d v) { return _mm_andnot_pd(_mm_set1_pd(-0.0), v); };
  const __m128d p = _mm_mul_pd(x, y), limit = _mm_set1_pd(0x1p990), zero = _mm_setzero_pd();
  const __m128d in_range =
      _mm_and_pd(_mm_cmplt_pd(_mm_max_pd(size(x), size(y)), limit), _mm_cmplt_pd(_mm_max_pd(size(p), size(z)), limit));
  const __m128d no_product = _mm_and_pd(_mm_or_pd(_mm_cmpeq_pd(x, zero), _mm_cmpeq_pd(y, zero)), in_range);
  const __m128d usual = _mm_and_pd(_mm_cmpgt_pd(size(p), _mm_set1_pd(0x1p-900)), in_range);
  if (_mm_movemask_pd(_mm_or_pd(no_product, usual)) != 3) {
    alignas(16) double a[2], b[2], c[2];
    _mm_store_pd(a, x), _mm_store_pd(b, y), _mm_store_pd(c, z);
    return _mm_setr_pd(std::fma(a[0], b[0], c[0]), std::fma(a[1], b[1], c[1]));
  }
  const auto upper = [](__m128d v) {
    const __m128d t = _mm_mul_pd(v, _mm_set1_pd(0x1p27 + 1));
    return _mm_sub_pd(t, _mm_sub_pd(t, v));
  };
  const __m128d x1 = upper(x), x2 = _mm_sub_pd(x, x1), y1 = upper(y), y2 = _mm_sub_pd(y, y1);
  const __m128d p2 =
      _mm_add_pd(_mm_add_pd(_mm_add_pd(_mm_sub_pd(_mm_mul_pd(x1, y1), p), _mm_mul_pd(x1, y2)), _mm_mul_pd(x2, y1)),
                 _mm_mul_pd(x2, y2));
  __m128d low, middle;
  const __m128d high = sum_and_error(p, sum_and_error(z, p2, low), middle);
  const __m128d all = _mm_add_pd(high, odd_sum(middle, low)), sum = _mm_add_pd(p, z);
  return _mm_or_pd(_mm_and_pd(no_product, sum), _mm_andnot_pd(no_product, all));
}
#elif defined(__aarch64__)
inline float32x4_t fused(float32x4_t x, float32x4_t y, float32x4_t z) { return vfmaq_f32(z, x, y); }
inline float64x2_t fused(float64x2_t x, float64x2_t y, float64x2_t z) { return vfmaq_f64(z, x, y); }
#endif

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels

#if defined(__AVX512F__) || (defined(__SSE2__) && !defined(__FMA__)) || defined(__aarch64__)
#define FIT_FUSED(name, T, a, c)                                                                                       \
  template <>                                                                                                          \
  inline batch<T, default_arch> name<default_arch>(batch<T, default_arch> const& x, batch<T, default_arch> const& y,   \
                                                   batch<T, default_arch> const& z, requires_arch<generic>) noexcept { \
    return fit::kernels::fused(a, y.data, c);                                                                          \
  }
namespace xsimd::kernel {
#if !defined(__aarch64__)
FIT_FUSED(fma, float, x.data, z.data)
FIT_FUSED(fma, double, x.data, z.data)
FIT_FUSED(fms, float, x.data, -z.data)
FIT_FUSED(fms, double, x.data, -z.data)
#endif
FIT_FUSED(fnma, float, -x.data, z.data)
FIT_FUSED(fnma, double, -x.data, z.data)
FIT_FUSED(fnms, float, -x.data, -z.data)
FIT_FUSED(fnms, double, -x.data, -z.data)
}  // namespace xsimd::kernel
#undef FIT_FUSED
#endif

#if defined(__AVX512F__)
namespace xsimd::kernel {
// Without these, -x is 0 - x, which is 0 for x = 0.
template <>
inline batch<float, default_arch> neg<default_arch>(batch<float, default_arch> const& x,
                                                    requires_arch<avx512f>) noexcept {
  return -x.data;
}
template <>
inline batch<double, default_arch> neg<default_arch>(batch<double, default_arch> const& x,
                                                     requires_arch<avx512f>) noexcept {
  return -x.data;
}
}  // namespace xsimd::kernel
#endif
