#include "matmul/gemm_limbs.hpp"

#include <algorithm>

namespace fit::kernels {

// LCOV_EXCL_START(avx512_bf16): other processors multiply floats.
// Large operands are split in parts of k: their limbs then stay in the cache and take little memory.
void gemm_limbs(const GemmParams<float>& p, const float* a, const float* b, float* c, const BFloat16* kept,
                const float* bias, TileDone done) {
  constexpr std::int64_t elements = std::int64_t{1} << 21, least = 4096;
  const std::int64_t depth = std::max(elements / std::min(p.m, p.n), least) / bf16_kc * bf16_kc;
  for (std::int64_t k0 = 0; k0 < p.k; k0 += depth) {
    GemmParams<float> of_k = p;
    of_k.k = std::min(depth, p.k - k0);
    of_k.beta = k0 > 0 ? 1 : p.beta;
    const bool last = k0 + depth >= p.k;
    const float* const a0 = a + k0 * (p.transpose_a ? p.lda : 1);
    const float* const b0 = b + k0 * (p.transpose_b ? 1 : p.ldb);
    const Bf16PackedA<float, float_limbs> rows(of_k, a0);
    const LimbsB cols(of_k, b0, kept ? kept + k0 * panel_width : nullptr, p.k);
    gemm_bf16_parts(of_k, Bf16Loop::threads, rows, cols, [&](Bf16Block& block, std::int64_t row, std::int64_t col) {
      const auto finish = [&](bool valid, std::int64_t i, std::int64_t m, std::int64_t j, std::int64_t n) {
        GemmParams<float> part = of_k;
        part.m = m;
        part.n = n;
        i += row;
        j += col;
        float* const to = c + i * p.ldc + j;
        if (!valid) {
          gemm(part, a0 + i * (p.transpose_a ? 1 : p.lda), b0 + j * (p.transpose_b ? p.ldb : 1), to);
          if (last && bias) FIT_KERNELS(gemm_table, float).add_row(m, n, bias + j, to, p.ldc);
        }
        if (last) done(i, m, j, n);
      };
      block.done = {[](const void* self, bool valid, std::int64_t i, std::int64_t m, std::int64_t j, std::int64_t n) {
                      (*static_cast<const decltype(finish)*>(self))(valid, i, m, j, n);
                    },
                    &finish};
      if (last && bias) block.then = bias + col;
      bf16_kernels().gemm_limbs(block, c + row * p.ldc + col);
    });
  }
}
// LCOV_EXCL_STOP

}  // namespace fit::kernels
