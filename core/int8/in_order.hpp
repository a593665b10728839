#pragma once
#include "int8/bytes.hpp"
#include "matmul/macro_kernel.hpp"

// Products of few rows of x with int8 weights in panels, for the mode Reproducible: with the bits of products of many
// rows, whose weights are converted first. For *.simd.cpp files only.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// Byte B of each lane.
template <int B>
Vec<float> floats_of(const Ints& bytes) {
  return xsimd::to_float((bytes << (24 - 8 * B)) >> 24);
}

// M rows of c and up to N vectors of the columns of a panel, from `col` on. Weights are rounded to To.
template <class To, int M, int N>
void in_order_block(const float* x, std::int64_t ldx, const Int8Task& task, const BytePanels& panel, std::int64_t col) {
  using V = Vec<float>;
  constexpr std::int64_t W = V::size;
  const std::int64_t k = task.k;
  V total[M][N], sum[M][N], scale[N];
  std::int64_t group_end = 0;
  for (std::int64_t k0 = 0; k0 < k; k0 += kc) {
    FIT_UNROLL for (int i = 0; i < M; ++i) FIT_UNROLL for (int j = 0; j < N; ++j) sum[i][j] = V(0.F);
    const std::int64_t end = k - k0 < kc ? k : k0 + kc;
    for (std::int64_t l = k0; l < end; l += 4) {
      if (l >= group_end) {
        const float* const from = panel.scales + l / task.w.group * panel_width + col;
        FIT_UNROLL for (int j = 0; j < N; ++j) scale[j] = load<V>(from + j * W);
        group_end += task.w.group;
      }
      const std::int8_t* const from = panel.bytes + l * panel_width + 4 * col;
      Ints bytes[N];
      FIT_UNROLL for (int j = 0; j < N; ++j) {
        if (4 * j * W % 64 == 0) __builtin_prefetch(from + 4 * j * W + 2 * prefetch_bytes);
        bytes[j] = load_bytes(from + 4 * j * W);
      }
      const auto add = [&](auto B) {
        if (l + B >= end) return;
        FIT_UNROLL for (int j = 0; j < N; ++j) {
          V w = scale[j] * floats_of<B>(bytes[j]);
          if constexpr (std::is_same_v<To, BFloat16>) w = to_bf16_precision(w);
          FIT_UNROLL for (int i = 0; i < M; ++i) sum[i][j] = xsimd::fma(V(x[i * ldx + l + B]), w, sum[i][j]);
        }
      };
      add(std::integral_constant<int, 0>());
      add(std::integral_constant<int, 1>());
      add(std::integral_constant<int, 2>());
      add(std::integral_constant<int, 3>());
    }
    FIT_UNROLL for (int i = 0; i < M; ++i) FIT_UNROLL for (int j = 0; j < N; ++j) total[i][j] =
        k0 == 0 ? sum[i][j] : sum[i][j] + total[i][j];
  }
  FIT_UNROLL for (int i = 0; i < M; ++i) store_columns(total[i], task.n - col, task.c + i * task.ldc + col);
}

// See Int8Kernels.
template <class To>
void gemv_int8_in_order(std::int64_t m, const float* x, std::int64_t ldx, const Int8Task& task,
                        const BytePanels& panel) {
  with_rows<gemv_max_m>(m, [&](auto M) {
    constexpr int N = panel_vectors<M>();
    for (std::int64_t col = 0; col < task.n; col += N * static_cast<std::int64_t>(Vec<float>::size))
      in_order_block<To, M, N>(x, ldx, task, panel, col);
  });
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
