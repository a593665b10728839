#pragma once
#include <algorithm>
#include <array>

#include "base/scratch.hpp"
#include "fit/matmul/reproducible.hpp"
#include "int8/kernels.hpp"
#include "matmul/gemm_bf16.hpp"

// Matmul with weights in 8 or 4 bits, split among threads.
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

// Rows of x as floats. Holds their memory.
template <class X>
class FloatRows {
 public:
  FloatRows(std::int64_t m, std::int64_t k, const X* x, std::int64_t ldx)
      : widened_(std::is_same_v<X, BFloat16> ? m * k : 0) {
    if constexpr (std::is_same_v<X, BFloat16>)
      bf16_kernels().from_bf16.widen(m, k, x, ldx, widened_.get(), k), data = widened_.get(), ld = k;
    else
      data = x, ld = ldx;
  }
  const float* data;
  std::int64_t ld;

 private:
  Scratch<float> widened_;
};

// For few rows: reads the weights once, without packing.
template <class X, class C>
void gemv_int8(std::int64_t m, std::int64_t n, std::int64_t k, const X* x, std::int64_t ldx, const Int8Weights& w, C* c,
               std::int64_t ldc, const float* bias, TileDone done) {
  constexpr bool narrow_c = std::is_same_v<C, BFloat16>;
  const FloatRows<X> rows(m, k, x, ldx);
  const Scratch<float> sums(narrow_c ? m * n : 0);
  Int8Task task{n, k, w, bias, sums.get(), n};
  if constexpr (!narrow_c) task.c = c, task.ldc = ldc;
  const Int8Kernels& kernels = int8_kernels();
  const std::int64_t stride = (k + int8_step - 1) / int8_step * int8_step;
  const Scratch<std::int8_t> digits(m * int8_digits * stride);
  std::array<Int8Row, gemv_max_m> whole;
  bool by_digits = kernels.digits_of != nullptr && w.group >= k && w.bits == 8;
  for (std::int64_t i = 0; i < m && by_digits; ++i)
    by_digits =
        kernels.digits_of(k, rows.data + i * rows.ld, stride, digits.get() + i * int8_digits * stride, whole[i]);
  gemv_parallel(m, n, k, sizeof(std::int8_t), [&](Part part) {
    const auto columns_done = [&](std::int64_t col, std::int64_t cols) { done({0, m, col, cols}); };
    by_digits ? kernels.gemv_digits(m, whole.data(), task, part, columns_done)
              : kernels.gemv(m, rows.data, rows.ld, task, part, columns_done);
  });
  if constexpr (narrow_c) bf16_kernels().to_bf16.finish(m, n, 1, sums.get(), n, 0, {}, c, ldc);
}

// For few rows in Reproducible: reads panels.
template <class X, class C>
void gemv_int8_in_order(std::int64_t m, std::int64_t n, std::int64_t k, const X* x, std::int64_t ldx,
                        const Int8Weights& w, const BytePanels& all, C* c, std::int64_t ldc, const float* bias,
                        TileDone done) {
  constexpr bool narrow_c = std::is_same_v<C, BFloat16>;
  const FloatRows<X> rows(m, k, x, ldx);
  const Scratch<float> sums(narrow_c ? m * n : 0);
  const auto gemv = std::is_same_v<X, BFloat16> ? int8_kernels().gemv_in_order_bf16 : int8_kernels().gemv_in_order;
  const std::int64_t tiles = gemv_tiling(m, n, k, sizeof(std::int8_t)).count();
  parallel_for(panels(n), (panels(n) + tiles - 1) / tiles, guided_schedule, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) {
      const std::int64_t col = i * panel_width, cols = std::min(panel_width, n - col);
      Int8Task task{cols, k, w, nullptr, sums.get() + col, n};
      if constexpr (!narrow_c) task.c = c + col, task.ldc = ldc;
      gemv(m, rows.data, rows.ld, task, all.from(col));
      if constexpr (narrow_c)
        bf16_kernels().to_bf16.finish(m, cols, 1, task.c, n, 0, {bias ? bias + col : nullptr}, c + col, ldc);
      else if (bias)
        FIT_KERNELS(gemm_table, float).add_row(m, cols, bias + col, task.c, ldc);
      done({0, m, col, cols});
    }
  });
}

/// c [m, n] = x w' + bias, for x [m, k]; ldx and ldc are the row strides of x and c; bias is [n], or null. For few
/// rows, the kernel reads int8 weights. For more rows, blocks of weights are first converted to float, or to BFloat16
/// if x is BFloat16. kept: null, or the weights in panels, which few rows read in Reproducible. done: see
/// gemm_parallel(); for a float x alone.
template <class X, class C>
void gemm_int8_parallel(std::int64_t m, std::int64_t n, std::int64_t k, const X* x, std::int64_t ldx,
                        const Int8Weights& w, C* c, std::int64_t ldc, const float* bias, TileDone done = no_callback,
                        const BytePanels* kept = nullptr) {
  if (m == 0 || n == 0) return;
  const bool few_rows = m <= gemv_max_m && k > 0;
  if (few_rows && !reproducible()) return gemv_int8(m, n, k, x, ldx, w, c, ldc, bias, done);
  if (few_rows && kept) return gemv_int8_in_order(m, n, k, x, ldx, w, *kept, c, ldc, bias, done);
  GemmParams<X> p = contiguous<X>(m, n, k, false, true);
  p.lda = ldx;
  p.ldc = ldc;
  const auto columns = [&](std::int64_t col, std::int64_t count, X* unpacked) {
    GemmParams<X> part = p;
    part.n = std::min(count, n - col);
    unpack_int8_parallel(part.n, k, rows_from(w, k, col), unpacked);
    const float* const part_bias = bias ? bias + col : nullptr;
    if constexpr (std::is_same_v<X, float>)
      gemm_parallel(part, x, static_cast<const X*>(unpacked), c + col, part_bias, [&](const Tile& t) {
        done({t.row, t.rows, col + t.col, t.cols});
      });
    else
      gemm_parallel(part, x, static_cast<const X*>(unpacked), c + col, part_bias);
  };
  if (few_rows) {  // in Reproducible: each task converts and multiplies its own columns
    const std::int64_t grain = (1 << 15) / (panel_width * k) + 1;
    return parallel_for(panels(n), grain, dynamic_schedule, [&](std::int64_t i, std::int64_t end) {
      const Scratch<X> unpacked(panel_width * k);
      for (; i < end; ++i) columns(i * panel_width, panel_width, unpacked.get());
    });
  }
  constexpr std::int64_t block_elements = 1 << 20;  // fits the cache
  const std::int64_t block_cols = std::max(block_elements / (k + 1) / panel_width, std::int64_t{1}) * panel_width;
  const Scratch<X> unpacked(std::min(block_cols, n) * k);
  for (std::int64_t col = 0; col < n; col += block_cols) columns(col, block_cols, unpacked.get());
}

}  // namespace fit::kernels
