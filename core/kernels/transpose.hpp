#pragma once
#include <cstdint>
#if defined(__AVX512F__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace fit::kernels {
namespace {

#if defined(__AVX512F__)
// A block of 16 by 16: pairs of numbers change places, then pairs of pairs, then of quarters and of halves of vectors.
inline void transpose_block(const float* x, std::int64_t ld, float* out, std::int64_t out_ld) {
  const auto wide = [](__m512 v) { return _mm512_castps_pd(v); };
  const auto narrow = [](__m512d v) { return _mm512_castpd_ps(v); };
  __m512 a[16], b[16];
  for (int i = 0; i < 16; i += 2) {
    const __m512 v = _mm512_loadu_ps(x + i * ld), w = _mm512_loadu_ps(x + (i + 1) * ld);
    a[i] = _mm512_unpacklo_ps(v, w);
    a[i + 1] = _mm512_unpackhi_ps(v, w);
  }
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; ++j) {
      b[i + 2 * j] = narrow(_mm512_unpacklo_pd(wide(a[i + j]), wide(a[i + j + 2])));
      b[i + 2 * j + 1] = narrow(_mm512_unpackhi_pd(wide(a[i + j]), wide(a[i + j + 2])));
    }
  // Quarter q of b[4 i + j] has column 4 q + j of rows 4 i … 4 i + 3.
  for (int j = 0; j < 4; ++j) {
    const __m512 even_low = _mm512_shuffle_f32x4(b[j], b[j + 4], 0x88),
                 even_high = _mm512_shuffle_f32x4(b[j + 8], b[j + 12], 0x88),
                 odd_low = _mm512_shuffle_f32x4(b[j], b[j + 4], 0xdd),
                 odd_high = _mm512_shuffle_f32x4(b[j + 8], b[j + 12], 0xdd);
    _mm512_storeu_ps(out + j * out_ld, _mm512_shuffle_f32x4(even_low, even_high, 0x88));
    _mm512_storeu_ps(out + (j + 4) * out_ld, _mm512_shuffle_f32x4(odd_low, odd_high, 0x88));
    _mm512_storeu_ps(out + (j + 8) * out_ld, _mm512_shuffle_f32x4(even_low, even_high, 0xdd));
    _mm512_storeu_ps(out + (j + 12) * out_ld, _mm512_shuffle_f32x4(odd_low, odd_high, 0xdd));
  }
}
#endif

// out[c out_ld + r] = x[r ld + c] for r < rows and c < cols: for *.simd.cpp files.
template <class T>
void transpose(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t ld, T* out, std::int64_t out_ld) {
  constexpr std::int64_t part = 16;  // columns at a time: the lines written stay in the cache
  for (std::int64_t c0 = 0; c0 < cols; c0 += part) {
    const std::int64_t c1 = c0 + part < cols ? c0 + part : cols;
    std::int64_t r = 0;
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4)
      if (c1 - c0 == part)
        for (; r + part <= rows; r += part) transpose_block(x + r * ld + c0, ld, out + c0 * out_ld + r, out_ld);
#endif
#if defined(__SSE2__)
    if constexpr (sizeof(T) == 4) {
      for (; r + 4 <= rows; r += 4) {
        std::int64_t c = c0;
        for (; c + 4 <= c1; c += 4) {
          const T* const from = x + r * ld + c;
          __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + ld), d = _mm_loadu_ps(from + 2 * ld),
                 e = _mm_loadu_ps(from + 3 * ld);
          _MM_TRANSPOSE4_PS(a, b, d, e);
          T* const to = out + c * out_ld + r;
          _mm_storeu_ps(to, a);
          _mm_storeu_ps(to + out_ld, b);
          _mm_storeu_ps(to + 2 * out_ld, d);
          _mm_storeu_ps(to + 3 * out_ld, e);
        }
        for (; c < c1; ++c)
          for (std::int64_t i = 0; i < 4; ++i) out[c * out_ld + r + i] = x[(r + i) * ld + c];
      }
    }
#endif
    for (; r < rows; ++r)
      for (std::int64_t c = c0; c < c1; ++c) out[c * out_ld + r] = x[r * ld + c];
  }
}

}  // namespace
}  // namespace fit::kernels
