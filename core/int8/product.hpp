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

/// c [m, n] = x w' + bias, for x [m, k]; ldx and ldc are the row strides of x and c.
template <class X, class C>
struct Int8Product {
  std::int64_t m, n, k;
  const X* x;
  std::int64_t ldx;
  Int8Weights w;
  C* c;
  std::int64_t ldc;
  const float* bias = nullptr;       // [n], or null
  const BytePanels* kept = nullptr;  // null, or the weights in panels
  TileDone done = no_callback;       // see gemm_parallel(); for a float c alone
};

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

// The float sums of a product: c itself, or else finish() rounds them to c. Holds their memory.
template <class X, class C>
class FloatSums {
 public:
  explicit FloatSums(const Int8Product<X, C>& p) : p_(p), sums_(narrow ? p.m * p.n : 0) {}

  Int8Task task() const {
    if constexpr (narrow)
      return {p_.n, p_.k, p_.w, p_.bias, sums_.get(), p_.n};
    else
      return {p_.n, p_.k, p_.w, p_.bias, p_.c, p_.ldc};
  }
  void finish(const Tile& t) const {
    if constexpr (narrow)
      bf16_kernels().to_bf16.finish(t.rows, t.cols, 1, sums_.get() + t.row * p_.n + t.col, p_.n, 0, {},
                                    p_.c + t.row * p_.ldc + t.col, p_.ldc);
  }

 private:
  static constexpr bool narrow = std::is_same_v<C, BFloat16>;
  const Int8Product<X, C>& p_;
  Scratch<float> sums_;
};

// For few rows: reads the weights once, without packing.
template <class X, class C>
void gemv_int8(const Int8Product<X, C>& p) {
  const FloatRows<X> rows(p.m, p.k, p.x, p.ldx);
  const FloatSums sums(p);
  const Int8Task task = sums.task();
  const Int8Kernels& kernels = int8_kernels();
  const std::int64_t stride = (p.k + int8_step - 1) / int8_step * int8_step;
  const Scratch<std::int8_t> digits(p.m * int8_digits * stride);
  std::array<Int8Row, gemv_max_m> whole;
  bool by_digits = kernels.digits_of != nullptr && p.w.group >= p.k && p.w.bits == 8;
  for (std::int64_t i = 0; i < p.m && by_digits; ++i)
    by_digits =
        kernels.digits_of(p.k, rows.data + i * rows.ld, stride, digits.get() + i * int8_digits * stride, whole[i]);
  gemv_parallel(p.m, p.n, p.k, sizeof(std::int8_t), [&](Part part) {
    const auto columns_done = [&](std::int64_t col, std::int64_t cols) { p.done({0, p.m, col, cols}); };
    by_digits ? kernels.gemv_digits(p.m, whole.data(), task, part, columns_done)
              : kernels.gemv(p.m, rows.data, rows.ld, task, part, columns_done);
  });
  sums.finish({0, p.m, 0, p.n});
}

// For few rows in Reproducible: reads panels.
template <class X, class C>
void gemv_int8_in_order(const Int8Product<X, C>& p) {
  const FloatRows<X> rows(p.m, p.k, p.x, p.ldx);
  const FloatSums sums(p);
  const auto gemv = std::is_same_v<X, BFloat16> ? int8_kernels().gemv_in_order_bf16 : int8_kernels().gemv_in_order;
  const std::int64_t tiles = gemv_tiling(p.m, p.n, p.k, sizeof(std::int8_t)).count();
  parallel_for(panels(p.n), (panels(p.n) + tiles - 1) / tiles, guided_schedule, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) {
      const std::int64_t col = i * panel_width, cols = std::min(panel_width, p.n - col);
      const Int8Task task = sums.task().at(0, col, cols);
      gemv(p.m, rows.data, rows.ld, task, p.kept->from(col));
      if (task.bias) FIT_KERNELS(gemm_table, float).add_row(p.m, cols, task.bias, task.c, task.ldc);
      sums.finish({0, p.m, col, cols});
      p.done({0, p.m, col, cols});
    }
  });
}

/// For few rows, the kernel reads int8 weights. For more rows, blocks of weights are first converted to float, or to
/// BFloat16 if x is BFloat16. Few rows read the kept panels in Reproducible. done: for a float x alone.
template <class X, class C>
void gemm_int8_parallel(const Int8Product<X, C>& p) {
  const std::int64_t m = p.m, n = p.n, k = p.k;
  if (m == 0 || n == 0) return;
  const bool few_rows = m <= gemv_max_m && k > 0;
  if (few_rows && !reproducible()) return gemv_int8(p);
  if (few_rows && p.kept) return gemv_int8_in_order(p);
  GemmParams<X> all = contiguous<X>(m, n, k, false, true);
  all.lda = p.ldx;
  all.ldc = p.ldc;
  const auto columns = [&](std::int64_t col, std::int64_t count, X* unpacked) {
    GemmParams<X> part = all;
    part.n = std::min(count, n - col);
    unpack_int8_parallel(part.n, k, rows_from(p.w, k, col), unpacked);
    const float* const bias = p.bias ? p.bias + col : nullptr;
    if constexpr (std::is_same_v<X, float>)
      gemm_parallel(part, p.x, static_cast<const X*>(unpacked), p.c + col, bias, [&](const Tile& t) {
        p.done({t.row, t.rows, col + t.col, t.cols});
      });
    else
      gemm_parallel(part, p.x, static_cast<const X*>(unpacked), p.c + col, bias);
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
