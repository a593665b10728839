#include "matmul/gemm.hpp"

#include <algorithm>

#include "fit/batch_invariant.hpp"
#include "matmul/openblas.hpp"

namespace fit::kernels {

template <class T>
Route route(const GemmParams<T>& p) {
  // Up to this many multiplications, unpacked b fits the L1 cache.
  constexpr std::int64_t small_limit = std::int64_t{64} * 64 * 64;
  const bool small = p.m * p.n * p.k <= small_limit;
  if (p.m == 0 || p.n == 0) return Route::empty;
  if (p.k == 0) return Route::no_terms;
  if (p.n == 1 && p.m > 1 && p.ldc == 1) return Route::column;
  const bool swaps = p.transpose_b && !p.transpose_a && p.beta == T(0) && p.m * (p.n + p.k) < p.n * p.k;
  if (batch_invariant() && p.m <= gemv_in_order_max_m && p.transpose_b && !p.transpose_a && p.alpha == 1 && p.beta == 0)
    return Route::gemv_in_order;
  if (batch_invariant())
    return small || p.m <= gemv_max_m_transposed ? Route::unpacked : swaps ? Route::swapped : Route::packed;
  if (p.m <= gemv_max_m && !p.transpose_a && (p.transpose_b || !small)) return Route::gemv;
  if (small) return Route::unpacked;
  if (chosen_isa < Isa::avx2 || openblas_wanted()) return Route::openblas;
  if (p.m <= gemv_max_m_transposed && p.transpose_b && !p.transpose_a) return Route::gemv;
  if (prefers_limbs(p)) return Route::limbs;
  return swaps ? Route::swapped : Route::packed;
}

template Route route(const GemmParams<float>&);
template Route route(const GemmParams<double>&);

template <class T, class>
void gemm(const GemmParams<T>& p, const T* a, const T* b, T* c) {
  const auto& kernels = FIT_KERNELS(gemm_table, T);
  switch (route(p)) {
    case Route::empty:
      return;
    case Route::no_terms:
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) c[i * p.ldc + j] = p.beta == 0 ? T(0) : p.beta * c[i * p.ldc + j];
      return;
    case Route::column:
      return gemm(as_row(p), b, a, c);
    case Route::gemv:
      return kernels.gemv(p, a, b, c);
    case Route::gemv_in_order:
      return kernels.gemv_in_order(p, a, b, c);
    case Route::unpacked: {
      const Scratch<T> scratch(gemm_unpacked_scratch(p));
      return kernels.gemm_unpacked(p, a, b, c, scratch.get());
    }
    case Route::packed:
    case Route::swapped:
    case Route::limbs: {
      const Scratch<T> packed(panels(p.n) * panel_width * p.k), rows(gemm_packed_scratch(p));
      for (std::int64_t i = 0; i < panels(p.n); ++i) kernels.pack_b(p, b, i, packed.get() + i * panel_width * p.k);
      return kernels.gemm_packed(p, a, packed.get(), c, rows.get());
    }
    case Route::openblas:
      return openblas_gemm(p, a, b, c);
  }
}

template void gemm(const GemmParams<float>&, const float*, const float*, float*);
template void gemm(const GemmParams<double>&, const double*, const double*, double*);

Tiling tiling(std::int64_t m, std::int64_t n, double flops) {
  // A tile takes some tens of microseconds. More than 32 tiles would not balance the load better.
  const auto wanted = static_cast<std::int64_t>(std::clamp(flops / (10 * parallel_flops), 1.0, 32.0));
  const auto cut = [](std::int64_t size, std::int64_t parts, std::int64_t multiple) {
    const std::int64_t part = (size + parts - 1) / parts;
    return std::max<std::int64_t>((part + multiple - 1) / multiple * multiple, multiple);
  };
  // About 96 rows by 256 columns: the tile and its parts of a and b fit the L2 cache. Few rows read b only once, so the
  // columns are not split for the cache.
  Tiling t{};
  const std::int64_t row_parts = std::clamp<std::int64_t>(m / 96, 1, wanted);
  const std::int64_t col_parts =
      std::max((wanted + row_parts - 1) / row_parts, m <= gemv_max_m_transposed ? 1 : (n + 255) / 256);
  t.rows = cut(m, row_parts, 6);
  t.row_tiles = (m + t.rows - 1) / t.rows;
  t.cols = cut(n, col_parts, panel_width);
  t.col_tiles = (n + t.cols - 1) / t.cols;
  return t;
}

}  // namespace fit::kernels
