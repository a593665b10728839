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

// c = alpha op(a) op(b) + beta c + bias. Blocks of c without limbs are computed in floats. kept: all panels of op(b),
// or null. bias: [n], or null.
void gemm_limbs(const GemmParams<float>& p, const float* a, const float* b, float* c, const BFloat16* kept,
                const float* bias, TileDone done);
// LCOV_EXCL_STOP

}  // namespace fit::kernels
