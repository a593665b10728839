#pragma once
#include <immintrin.h>

#include "matmul/gemv.hpp"
#include "matmul/pack_bf16.hpp"

// gemv() of bfloat16 with the processor's instructions, two neighbours along k at once. For the same files as
// pack_bf16.hpp.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// M rows of c and the columns j, j + step, …, R of them, like dot_block() of gemv.hpp. a [M, lda] is padded with zeros
// to a multiple of bf16_step.
template <int M, int R, class To>
FIT_TARGET_AVX512_BF16 void gemv_bf16_block(const GemmParams<BFloat16>& p, std::int64_t j, std::int64_t step,
                                            const BFloat16* a, const BFloat16* b, const Bf16Then& then, To* c) {
  Accumulators<float, 1> sum[R][M];
  const BFloat16* const from = b + j * p.ldb;
  const auto add = [&](std::int64_t k, const auto& get) FIT_TARGET_AVX512_BF16 {
    __m512bh x[M];
    FIT_UNROLL for (int i = 0; i < M; ++i) x[i] = (__m512bh)_mm512_loadu_si512(a + i * p.lda + k);
    FIT_UNROLL for (int r = 0; r < R; ++r) {
      const auto w = (__m512bh)get(from + r * step * p.ldb + k);
      FIT_UNROLL for (int i = 0; i < M; ++i) sum[r][i][0] = _mm512_dpbf16_ps(sum[r][i][0], x[i], w);
    }
  };
  std::int64_t k = 0;
  for (; k + bf16_step <= p.k; k += bf16_step) {
    FIT_UNROLL for (int r = 0; r < R; ++r) __builtin_prefetch(from + r * step * p.ldb + k + prefetch_bytes / 2);
    add(k, [](const BFloat16* at) FIT_TARGET_AVX512_BF16 { return _mm512_loadu_si512(at); });
  }
  if (const __mmask32 lanes = (__mmask32{1} << (p.k - k)) - 1)
    add(k, [lanes](const BFloat16* at) FIT_TARGET_AVX512_BF16 { return _mm512_maskz_loadu_epi16(lanes, at); });
  store_dots<M, R, float>(sum, [&](int i, int r, float dot) {
    const std::int64_t col = j + r * step;
    To& to = c[i * p.ldc + col];
    float y = p.alpha * dot;
    if (p.beta != 0) y += p.beta * static_cast<float>(to);
    if (then.bias) y += then.bias[col];
    to = static_cast<To>(y);
    if constexpr (std::is_same_v<To, BFloat16>)
      if (then.values) to = then.values[to.bits];
  });
}

template <class To>
void gemv_bf16_native(const GemmParams<BFloat16>& p, const BFloat16* a, const BFloat16* b, const Bf16Then& then, To* c,
                      Part part) {
  with_rows<gemv_max_m>(p.m, [&](auto m) {
    each_columns<m>(
        p.n, part,
        [&](auto columns, std::int64_t j, std::int64_t step) {
          gemv_bf16_block<m, columns>(p, j, step, a, b, then, c);
        },
        nothing_more);
  });
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
