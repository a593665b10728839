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

// floats(p, a, b, c) computes a block of c in floats. kept: null, or the panels of op(b) from row 0 on, of kept_k rows.
template <class Floats, class Done>
void gemm_limbs(const GemmParams<float>& p, const float* a, const float* b, float* c, const BFloat16* kept,
                std::int64_t kept_k, const Floats& floats, const Done& done) {
  const Bf16PackedA<float, float_limbs> rows(p, a);
  const LimbsB cols(p, b, kept, kept_k);
  gemm_bf16_parts(p, Bf16Loop::threads, rows, cols, [&](Bf16Block& block, std::int64_t row, std::int64_t col) {
    const auto done_block = [&](bool valid, std::int64_t i, std::int64_t m, std::int64_t j, std::int64_t n) {
      GemmParams<float> part = p;
      part.m = m;
      part.n = n;
      i += row;
      j += col;
      if (!valid)
        floats(part, a + i * (p.transpose_a ? 1 : p.lda), b + j * (p.transpose_b ? p.ldb : 1), c + i * p.ldc + j);
      done(i, m, j, n);
    };
    block.done = {[](const void* self, bool valid, std::int64_t i, std::int64_t m, std::int64_t j, std::int64_t n) {
                    (*static_cast<const decltype(done_block)*>(self))(valid, i, m, j, n);
                  },
                  &done_block};
    bf16_kernels().gemm_limbs(block, c + row * p.ldc + col);
  });
}
// LCOV_EXCL_STOP

}  // namespace fit::kernels
