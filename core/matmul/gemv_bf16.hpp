#pragma once
#include <immintrin.h>

#include "matmul/gemv.hpp"
#include "matmul/pack_bf16.hpp"

// gemv() of bfloat16 with the processor's instructions, two neighbours along k at once. For the same files as
// pack_bf16.hpp.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// M rows of c and R columns, like dot_block() of gemv.hpp. a [M, lda] is padded with zeros to a multiple of bf16_step.
template <int M, int R>
FIT_TARGET_AVX512_BF16 void gemv_bf16_block(const GemmParams<BFloat16>& p, std::int64_t step, const BFloat16* a,
                                            const BFloat16* b, float* sums) {
  Vec<float> sum[R][M];
  FIT_UNROLL for (int r = 0; r < R; ++r) FIT_UNROLL for (int i = 0; i < M; ++i) sum[r][i] = Vec<float>(0.0F);
  const auto add = [&](std::int64_t k, const auto& get) FIT_TARGET_AVX512_BF16 {
    __m512bh x[M];
    FIT_UNROLL for (int i = 0; i < M; ++i) x[i] = (__m512bh)_mm512_loadu_si512(a + i * p.lda + k);
    FIT_UNROLL for (int r = 0; r < R; ++r) {
      const auto w = (__m512bh)get(b + r * step * p.ldb + k);
      FIT_UNROLL for (int i = 0; i < M; ++i) sum[r][i] = _mm512_dpbf16_ps(sum[r][i], x[i], w);
    }
  };
  std::int64_t k = 0;
  for (; k + bf16_step <= p.k; k += bf16_step) {
    FIT_UNROLL for (int r = 0; r < R; ++r) __builtin_prefetch(b + r * step * p.ldb + k + prefetch_bytes / 2);
    add(k, [](const BFloat16* at) FIT_TARGET_AVX512_BF16 { return _mm512_loadu_si512(at); });
  }
  if (const __mmask32 lanes = (__mmask32{1} << (p.k - k)) - 1)
    add(k, [lanes](const BFloat16* at) FIT_TARGET_AVX512_BF16 { return _mm512_maskz_loadu_epi16(lanes, at); });
  store_dots<M, R>(sum, [&](int i, int r, float dot) { sums[i * p.ldc + r * step] = dot; });
}

inline void gemv_bf16_native(const GemmParams<BFloat16>& p, const BFloat16* a, const BFloat16* b, float* sums) {
  with_rows<gemv_max_m>(p.m, [&](auto m) {
    each_columns<m>(p.n, [&](auto columns, std::int64_t j, std::int64_t step) {
      gemv_bf16_block<m, columns>(p, step, a, b + j * p.ldb, sums + j);
    });
  });
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
