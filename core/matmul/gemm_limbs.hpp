#pragma once
#include "matmul/gemm_bf16_tasks.hpp"

// Products of floats with AMX, as products of BFloat16: see float_limbs in gemm_kernels_bf16.hpp. Numbers below the
// smallest normal float (2^-126) count as 0, limbs as well: a float below 2^-110 loses its last bits.
namespace fit::kernels {

// Whether limbs are faster. Splitting takes time for each element of a and of b, and each element of c some more than
// with floats.
template <class T>
bool prefers_limbs(const GemmParams<T>& p) {
  if constexpr (!std::is_same_v<T, float>) return false;
  const std::int64_t both = p.m * p.n / std::max<std::int64_t>(p.m + p.n, 1);
  return chosen_isa == Isa::amx && both >= 96 && both * p.k >= 1 << 14;
}

// LCOV_EXCL_START(avx512_bf16): other processors multiply floats.
using LimbsB = Bf16PackedB<float, float_limbs>;

// c = alpha op(a) op(b) + beta c. Large operands are split in parts of k: their limbs then stay in the cache and take
// little memory. floats(p, a, b, c) computes a block of c in floats. kept: all panels of op(b), or null.
template <class Floats, class Done>
void gemm_limbs(const GemmParams<float>& p, const float* a, const float* b, float* c, const BFloat16* kept,
                const Floats& floats, const Done& done) {
  constexpr std::int64_t elements = std::int64_t{1} << 21, least = 4096;
  const std::int64_t depth = std::max(elements / std::min(p.m, p.n), least) / bf16_kc * bf16_kc;
  for (std::int64_t k0 = 0; k0 < p.k; k0 += depth) {
    GemmParams<float> of_k = p;
    of_k.k = std::min(depth, p.k - k0);
    of_k.beta = k0 > 0 ? 1 : p.beta;
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
        if (!valid)
          floats(part, a0 + i * (p.transpose_a ? 1 : p.lda), b0 + j * (p.transpose_b ? p.ldb : 1), c + i * p.ldc + j);
        if (k0 + depth >= p.k) done(i, m, j, n);
      };
      block.done = {[](const void* self, bool valid, std::int64_t i, std::int64_t m, std::int64_t j, std::int64_t n) {
                      (*static_cast<const decltype(finish)*>(self))(valid, i, m, j, n);
                    },
                    &finish};
      bf16_kernels().gemm_limbs(block, c + row * p.ldc + col);
    });
  }
}
// LCOV_EXCL_STOP

}  // namespace fit::kernels
