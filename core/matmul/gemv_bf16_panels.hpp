#pragma once
#include "matmul/gemv_in_order.hpp"
#include "matmul/macro_kernel.hpp"

// The same for a weight of BFloat16 that is kept in panels: a row takes the time of reading them. A slice of
// slice_width columns is [k, slice_width], filled with zeros. For *.simd.cpp files only.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// Packs columns panel_width * panel … of b' as BFloat16. b is [n, k].
inline void pack_bf16_panel(const GemmParams<float>& p, const BFloat16* b, std::int64_t panel, BFloat16* out) {
  constexpr std::int64_t width = slice_width<float>();
  for (std::int64_t j = panel * panel_width; j < (panel + 1) * panel_width; j += width, out += width * p.k)
    for (std::int64_t l = 0; l < p.k; ++l)
      for (std::int64_t t = 0; t < width; ++t)
        out[l * width + t] = j + t < p.n ? b[(j + t) * p.ldb + l] : BFloat16(0.F);
}

// M rows of c and N vectors of its columns, of one slice after another.
template <int M, int N>
void panel_rows(const GemmParams<float>& p, const float* a, const BFloat16* slices, float* c, std::int64_t cols) {
  using V = Vec<float>;
  constexpr std::int64_t W = V::size, width = slice_width<float>(), per_line = 64 / sizeof(BFloat16);
  V total[M][N];
  for (std::int64_t k0 = 0; k0 < p.k; k0 += kc) {
    V sum[M][N];
    FIT_UNROLL for (int i = 0; i < M; ++i) FIT_UNROLL for (int j = 0; j < N; ++j) sum[i][j] = V(0.F);
    const std::int64_t end = p.k - k0 < kc ? p.k : k0 + kc;
    for (std::int64_t l = k0; l < end; ++l) FIT_UNROLL for (int j = 0; j < N; ++j) {
        const std::int64_t in_slice = j % nr_vectors * W;
        const BFloat16* const from = slices + j / nr_vectors * width * p.k + l * width + in_slice;
        if (in_slice % per_line == 0) __builtin_prefetch(from + prefetch_bytes / 2);
        const V w = load<V>(from);
        FIT_UNROLL for (int i = 0; i < M; ++i) sum[i][j] = xsimd::fma(V(a[i * p.lda + l]), w, sum[i][j]);
      }
    FIT_UNROLL for (int i = 0; i < M; ++i) FIT_UNROLL for (int j = 0; j < N; ++j) total[i][j] =
        k0 == 0 ? sum[i][j] : sum[i][j] + total[i][j];
  }
  FIT_UNROLL for (int i = 0; i < M; ++i) store_columns(total[i], cols, c + i * p.ldc);
}

// See Bf16Kernels.
inline void gemv_bf16_panels(const GemmParams<float>& p, const float* a, const BFloat16* panels, float* c) {
  for (std::int64_t panel = 0; panel < p.n; panel += panel_width)
    for (std::int64_t row = 0; row < p.m; row += gemv_max_m)
      with_rows<gemv_max_m>(p.m - row < gemv_max_m ? p.m - row : gemv_max_m, [&](auto M) {
        constexpr int N = panel_vectors<M>();
        const std::int64_t end = p.n - panel < panel_width ? p.n : panel + panel_width;
        for (std::int64_t j = panel; j < end; j += N * static_cast<std::int64_t>(Vec<float>::size))
          panel_rows<M, N>(p, a + row * p.lda, panels + j * p.k, c + row * p.ldc + j, p.n - j);
      });
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
