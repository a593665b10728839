#pragma once
#include <algorithm>

#include "base/scratch.hpp"
#include "fit/batch_invariant.hpp"
#include "matmul/gemm_bf16.hpp"
#include "matmul/gemm_kernels_int8.hpp"

// Matmul with int8 weights, split among threads.
namespace fit::kernels {

/// The weights from `row` on.
inline Int8Weights rows_from(const Int8Weights& w, std::int64_t k, std::int64_t row) {
  Int8Weights part = w;
  part.data += row * w.ld;
  part.scales += row * w.groups(k);
  return part;
}

/// Converts weights [n, k] to float or BFloat16, contiguous.
template <class X>
void unpack_int8_parallel(std::int64_t n, std::int64_t k, const Int8Weights& w, X* out) {
  parallel_for(k == 0 ? 0 : n, (1 << 15) / (k + 1) + 1, [&](std::int64_t row, std::int64_t end) {
    if constexpr (std::is_same_v<X, float>)
      int8_kernels().to_float(end - row, k, rows_from(w, k, row), out + row * k);
    else
      int8_kernels().to_bf16(end - row, k, rows_from(w, k, row), out + row * k);
  });
}

// For few rows: reads the weights once, without packing.
template <class X, class C>
void gemv_int8(std::int64_t m, std::int64_t n, std::int64_t k, const X* x, std::int64_t ldx, const Int8Weights& w, C* c,
               std::int64_t ldc, const float* bias) {
  const Scratch<float> rows(m * k), sums(m * n);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t l = 0; l < k; ++l) rows.get()[i * k + l] = static_cast<float>(x[i * ldx + l]);
  const Tiling t = gemv_tiling(m, n, k, sizeof(std::int8_t));
  parallel_for(t.count(), 1, dynamic_schedule, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) {
      const std::int64_t col = i * t.cols, cols = std::min(t.cols, n - col);
      int8_kernels().gemv(m, cols, k, rows.get(), rows_from(w, k, col), sums.get() + col, n);
      bf16_kernels().result<C>().finish(m, cols, 1, sums.get() + col, n, 0, bias ? bias + col : nullptr, c + col, ldc);
    }
  });
}

// For few rows in BatchInvariant: like more rows, but each task widens and multiplies its own columns.
template <class X, class C>
void gemm_int8_by_panels(GemmParams<X> p, const X* x, const Int8Weights& w, C* c, const float* bias) {
  const std::int64_t n = p.n;
  parallel_for(panels(n), (1 << 15) / (panel_width * p.k) + 1, dynamic_schedule, [&](std::int64_t i, std::int64_t end) {
    const Scratch<X> unpacked(panel_width * p.k);
    GemmParams<X> part = p;
    for (; i < end; ++i) {
      const std::int64_t col = i * panel_width;
      const float* const b = bias ? bias + col : nullptr;
      part.n = std::min(panel_width, n - col);
      if constexpr (std::is_same_v<X, BFloat16>) {
        int8_kernels().to_bf16(part.n, p.k, rows_from(w, p.k, col), unpacked.get());
        gemm_bf16(part, Bf16Loop::here, x, static_cast<const X*>(unpacked.get()), c + col, b);
      } else {
        int8_kernels().to_float(part.n, p.k, rows_from(w, p.k, col), unpacked.get());
        gemm(part, x, unpacked.get(), c + col);
        if (b) bf16_kernels().result<C>().finish(p.m, part.n, 1, c + col, p.ldc, 0, b, c + col, p.ldc);
      }
    }
  });
}

/// c [m, n] = x w' + bias, for x [m, k]; ldx and ldc are the row strides of x and c; bias is [n], or null. For few
/// rows, the kernel reads int8 weights. For more rows, blocks of weights are first converted to float, or to BFloat16
/// if x is BFloat16.
template <class X, class C>
void gemm_int8_parallel(std::int64_t m, std::int64_t n, std::int64_t k, const X* x, std::int64_t ldx,
                        const Int8Weights& w, C* c, std::int64_t ldc, const float* bias) {
  if (m == 0 || n == 0) return;
  if (m <= gemv_max_m && k > 0 && !batch_invariant()) return gemv_int8(m, n, k, x, ldx, w, c, ldc, bias);
  GemmParams<X> p;
  p.m = m;
  p.n = n;
  p.k = p.ldb = k;
  p.transpose_b = true;
  p.lda = ldx;
  p.ldc = ldc;
  if (m <= gemv_max_m && k > 0) return gemm_int8_by_panels(p, x, w, c, bias);
  constexpr std::int64_t block_elements = 1 << 20;  // fits the cache
  const std::int64_t block_cols = std::max(block_elements / (k + 1) / panel_width, std::int64_t{1}) * panel_width;
  const Scratch<X> unpacked(std::min(block_cols, n) * k);
  for (std::int64_t col = 0; col < n; col += block_cols) {
    p.n = std::min(block_cols, n - col);
    unpack_int8_parallel(p.n, k, rows_from(w, k, col), unpacked.get());
    gemm_parallel(p, x, static_cast<const X*>(unpacked.get()), c + col, bias ? bias + col : nullptr);
  }
}

}  // namespace fit::kernels
