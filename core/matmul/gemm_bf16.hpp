#pragma once
#include "matmul/gemm_bf16_tasks.hpp"

// Matmul of BFloat16, split among threads. a, b and c may each be float or BFloat16; float operands are rounded while
// they are packed. Processors without instructions for BFloat16 widen a and b while packing, and multiply floats.
namespace fit::kernels {

// Whether products of BFloat16 use instructions for them.
inline bool multiplies_bf16() { return narrow_isa() >= Isa::avx512_bf16; }

// c = then(alpha op(a) op(b) + beta c). kept: null, or all panels of op(b) if takes_panels(p).
template <class A, class B, class C>
void gemm_bf16(const GemmParams<BFloat16>& p, Bf16Loop loop, const A* a, const B* b, C* c, const Bf16Then& then,
               const void* kept = nullptr);

// On the calling thread.
template <class A, class B, class C>
void gemm(const GemmParams<BFloat16>& p, const A* a, const B* b, C* c) {
  gemm_bf16(p, Bf16Loop::here, a, b, c, {});
}

// Split among threads.
template <class A, class B, class C>
void gemm_parallel(const GemmParams<BFloat16>& p, const A* a, const B* b, C* c, const Bf16Then& then = {},
                   const void* kept = nullptr) {
  gemm_bf16(p, Bf16Loop::threads, a, b, c, then, kept);
}

// Like those of gemm.hpp. The panels have elements of BFloat16 with the processor's instructions, and for few rows in
// Reproducible; otherwise of float.
bool takes_panels(const GemmParams<BFloat16>& p);
bool takes_row_panels(const GemmParams<BFloat16>& p);
std::int64_t panels_bytes(const GemmParams<BFloat16>& p);
void pack_panels(const GemmParams<BFloat16>& p, const BFloat16* b, void* out);

}  // namespace fit::kernels
