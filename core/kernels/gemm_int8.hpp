#pragma once
#include "kernels/gemm_bf16.hpp"
#include "kernels/product_int8.hpp"

// Products with weights of 8 bits, split among threads.
namespace fit::kernels {

/// c [m, n] = x w', for x [m, k] and c with rows ldx and ldc apart. A few rows are multiplied by the weights as they
/// are, more by weights made floats or, where x is BFloat16, BFloat16. done(row, rows, col, cols) is called for each
/// tile that is ready.
template <class X, class C, class Done>
void gemm_int8_parallel(std::int64_t m, std::int64_t n, std::int64_t k, const X* x, std::int64_t ldx,
                        const Int8Weights& w, C* c, std::int64_t ldc, const Done& done) {
  // Rows of weights from `row` on.
  const auto rows_from = [&](std::int64_t row) {
    Int8Weights part = w;
    part.data += row * w.ld;
    part.scales += row * w.groups(k);
    return part;
  };
  if (m > max_small_m || m == 0 || n == 0 || k == 0) {
    const Scratch<X> unpacked(n * k);
    parallel_for(k == 0 ? 0 : n, (1 << 15) / (k + 1) + 1, [&](std::int64_t row, std::int64_t end) {
      if constexpr (std::is_same_v<X, float>)
        int8_kernels().to_float(end - row, k, rows_from(row), unpacked.get() + row * k);
      else
        int8_kernels().to_bf16(end - row, k, rows_from(row), unpacked.get() + row * k);
    });
    Product<X> p;
    p.m = m;
    p.n = n;
    p.k = p.ldb = k;
    p.transpose_b = true;
    p.lda = ldx;
    p.ldc = ldc;
    return gemm_parallel(p, x, static_cast<const X*>(unpacked.get()), c, done);
  }
  const Scratch<float> rows(m * k), sums(m * n);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t l = 0; l < k; ++l) rows.get()[i * k + l] = static_cast<float>(x[i * ldx + l]);
  const Tiling t = tiling(m, n, 8.0 * 2 * static_cast<double>(m * n * k));
  parallel_for(t.count(), 1, dynamic_schedule, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) {
      const std::int64_t col = i * t.cols, cols = std::min(t.cols, n - col);
      int8_kernels().small_m(m, cols, k, rows.get(), rows_from(col), sums.get() + col, n);
      bf16_kernels().result<C>().finish(m, cols, 1, sums.get() + col, n, 0, nullptr, c + col, ldc);
      done(std::int64_t{0}, m, col, cols);
    }
  });
}

}  // namespace fit::kernels
