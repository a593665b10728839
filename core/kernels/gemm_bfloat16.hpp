#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "fit/bfloat16.hpp"
#include "kernels/convert.hpp"
#include "kernels/gemm.hpp"

// Products of BFloat16 operands, accumulated in float. c is float, or BFloat16 that is rounded once. Every operand is
// widened first.
namespace fit::kernels {

/// x [rows, cols] with rows ld apart, in float and contiguous.
inline void widen_matrix(const BFloat16* x, std::int64_t rows, std::int64_t cols, std::int64_t ld, float* out) {
  parallel_for(rows, std::max<std::int64_t>(1, (1 << 15) / std::max<std::int64_t>(cols, 1)),
               [&](std::int64_t r, std::int64_t end) {
                 for (; r < end; ++r) widen(out + r * cols, x + r * ld, cols);
               });
}

/// c = alpha op(a) op(b) + beta c + bias, where bias is [n], or null. The order of additions depends on the shape
/// alone.
template <class C>
void gemm_bfloat16(const Product<float>& p, const BFloat16* a, const BFloat16* b, C* c, const float* bias = nullptr) {
  Product<float> wide = p;
  const std::int64_t a_rows = p.transpose_a ? p.k : p.m, b_rows = p.transpose_b ? p.n : p.k;
  wide.lda = p.transpose_a ? p.m : p.k;
  wide.ldb = p.transpose_b ? p.k : p.n;
  const Scratch<float> wide_a(a_rows * wide.lda), wide_b(b_rows * wide.ldb);
  widen_matrix(a, a_rows, wide.lda, p.lda, wide_a.get());
  widen_matrix(b, b_rows, wide.ldb, p.ldb, wide_b.get());
  if constexpr (std::is_same_v<C, float>) {
    if (!bias) return gemm_parallel(wide, wide_a.get(), wide_b.get(), c);
  }
  wide.ldc = p.n;
  const Scratch<float> sums(p.m * p.n);
  for (std::int64_t i = 0; i < p.m && p.beta != 0; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) sums.get()[i * p.n + j] = static_cast<float>(c[i * p.ldc + j]);
  gemm_parallel(wide, wide_a.get(), wide_b.get(), sums.get());
  parallel_for(p.m, std::max<std::int64_t>(1, (1 << 15) / std::max<std::int64_t>(p.n, 1)),
               [&](std::int64_t i, std::int64_t end) {
                 for (; i < end; ++i) {
                   float* const row = sums.get() + i * p.n;
                   for (std::int64_t j = 0; j < p.n && bias; ++j) row[j] += bias[j];
                   if constexpr (std::is_same_v<C, float>)
                     std::copy_n(row, p.n, c + i * p.ldc);
                   else
                     round(c + i * p.ldc, row, p.n);
                 }
               });
}

/// `count` products of one form; pointers(i, a, b, c) sets where each begins.
template <class C, class Pointers>
void gemm_bfloat16_batched(const Product<float>& p, std::int64_t count, const Pointers& pointers) {
  parallel_for(count, static_cast<std::int64_t>(parallel_flops / (p.flops() + 1)) + 1,
               [&](std::int64_t i, std::int64_t end) {
                 for (; i < end; ++i) {
                   const BFloat16 *a = nullptr, *b = nullptr;
                   C* c = nullptr;
                   pointers(i, a, b, c);
                   gemm_bfloat16(p, a, b, c);
                 }
               });
}

}  // namespace fit::kernels
