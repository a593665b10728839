#pragma once
#include <cstdint>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace fit::kernels {
namespace {

// out[c out_ld + r] = x[r ld + c] for r < rows and c < cols: for *.simd.cpp files.
template <class T>
void transpose(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t ld, T* out, std::int64_t out_ld) {
  constexpr std::int64_t part = 16;  // columns at a time: the lines written stay in the cache
  for (std::int64_t c0 = 0; c0 < cols; c0 += part) {
    const std::int64_t c1 = c0 + part < cols ? c0 + part : cols;
    std::int64_t r = 0;
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
