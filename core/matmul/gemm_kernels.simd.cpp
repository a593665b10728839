#include "matmul/gemm_kernels.hpp"

#include "kernels/simd/for_each_vector.hpp"
#include "kernels/simd/transpose.hpp"
#include "matmul/gemv_in_order.hpp"
#include "matmul/macro_kernel.hpp"

namespace fit::kernels {
namespace {

template <class T>
void gemm_block(const GemmParams<T>& p, const T* a, const T* b, std::int64_t ldb, std::int64_t slice_step, T* c,
                bool accumulate, const T* next = nullptr, const T* bias = nullptr) {
  macro_kernel({p.m, p.n, p.k}, p.alpha, {a, p.lda, p.transpose_a}, {b, ldb}, {c, p.ldc}, adding(accumulate),
               {slice_step, next, bias});
}

// Copies the rows of x; out_ld is the row stride of the copy.
template <class T>
void copy_rows(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t ld, T* out, std::int64_t out_ld) {
  using V = Vec<T>;
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* const from = x + r * ld;
    T* const to = out + r * out_ld;
    std::int64_t j = 0;
    for (; j + static_cast<std::int64_t>(V::size) <= cols; j += V::size) load<V>(from + j).store_unaligned(to + j);
    if (j < cols) store_part(load_part<V>(from + j, cols - j), to + j, cols - j);
  }
}

template <class T>
void pack_b(const GemmParams<T>& p, const T* b, std::int64_t panel, T* out) {
  const std::int64_t j0 = panel * panel_width, end = p.n - j0 < panel_width ? p.n : j0 + panel_width;
  for (std::int64_t k0 = 0; k0 < p.k; k0 += kc, out += kc * panel_width) {
    const std::int64_t k = p.k - k0 < kc ? p.k - k0 : kc;
    T* to = out;
    for (std::int64_t j = j0; j < end; j += slice_width<T>(), to += k * slice_width<T>()) {
      const std::int64_t width = end - j < slice_width<T>() ? end - j : slice_width<T>();
      p.transpose_b ? transpose(width, k, b + j * p.ldb + k0, p.ldb, to, slice_width<T>())
                    : copy_rows(k, width, b + k0 * p.ldb + j, p.ldb, to, slice_width<T>());
    }
  }
}

template <class T>
void gemm_packed(const GemmParams<T>& p, const T* a, const PackedB<T>& b, T* c, T* scratch) {
  const bool add = apply_beta(p, c);
  // With few rows, reading the panels takes long.
  const bool fetches = p.m > gemv_max_m && p.m <= (b.kept ? 128 : 64);
  for (std::int64_t k0 = 0; k0 < p.k; k0 += kc)
    for (std::int64_t i0 = 0; i0 < p.m; i0 += mc) {
      GemmParams<T> part = p;
      part.k = p.k - k0 < kc ? p.k - k0 : kc;
      part.m = p.m - i0 < mc ? p.m - i0 : mc;
      const T* part_a = a + (p.transpose_a ? k0 * p.lda + i0 : i0 * p.lda + k0);
      if (packs_a(p)) {
        copy_rows(part.k, part.m, part_a, p.lda, scratch, part.m);
        part_a = scratch;
        part.lda = part.m;
      }
      for (std::int64_t j0 = 0; j0 < p.n; j0 += panel_width) {
        part.n = p.n - j0 < panel_width ? p.n - j0 : panel_width;
        // What comes next: a panel of this tile, its next rows, or the next tile.
        const T* const at = b.panels + j0 * p.k + k0 * panel_width;
        const T* const next = j0 + panel_width < p.n ? at + panel_width * p.k
                              : k0 + kc < p.k        ? b.panels + (k0 + kc) * panel_width
                                                     : b.panels + (j0 + panel_width) * p.k;
        gemm_block(part, part_a, at, slice_width<T>(), part.k * slice_width<T>(), c + i0 * p.ldc + j0, add || k0 > 0,
                   fetches ? next : nullptr, b.bias && k0 + kc >= p.k ? b.bias + j0 : nullptr);
      }
    }
}

template <class T>
void gemm_unpacked(const GemmParams<T>& p, const T* a, const T* b, T* c, T* scratch) {
  const bool add = apply_beta(p, c);
  const std::int64_t width = p.transpose_b ? slice_width<T>() : p.n;
  for (std::int64_t j0 = 0; j0 < p.n; j0 += width)
    for (std::int64_t k0 = 0; k0 < p.k; k0 += kc) {
      GemmParams<T> part = p;
      part.n = p.n - j0 < width ? p.n - j0 : width;
      part.k = p.k - k0 < kc ? p.k - k0 : kc;
      const T* const part_a = a + k0 * (p.transpose_a ? p.lda : 1);
      if (p.transpose_b) transpose(part.n, part.k, b + j0 * p.ldb + k0, p.ldb, scratch, width);
      gemm_block(part, part_a, p.transpose_b ? scratch : b + k0 * p.ldb, p.transpose_b ? width : p.ldb,
                 slice_width<T>(), c + j0, add || k0 > 0);
    }
}

template <class T>
void gemm_rows(const GemmParams<T>& p, const T* a, const T* b, const std::int64_t* rows, T* c) {
  for (std::int64_t k0 = 0; k0 < p.k; k0 += kc)
    multiply_rows(p.m, p.n, p.k - k0 < kc ? p.k - k0 : kc, a + k0, p.lda, b, rows + k0, c, p.ldc);
}

template <class T>
void add_row(std::int64_t rows, std::int64_t cols, const T* row, T* c, std::int64_t ldc) {
  using V = Vec<T>;
  for (std::int64_t r = 0; r < rows; ++r)
    for_each_vector<V>(cols, [&](std::int64_t j, auto access) {
      T* const at = c + r * ldc + j;
      access.store(access.template load<V>(at, T(0)) + access.template load<V>(row + j, T(0)), at);
    });
}

}  // namespace

template <class IsaTag, class T>
const GemmKernels<T>& gemm_table() {
  static constexpr GemmKernels<T> table{slice_width<T>(), kc,           pack_b<T>, gemm_packed<T>,  transpose<T>,
                                        gemm_unpacked<T>, gemm_rows<T>, gemv<T>,   gemv_part<T, T>, gemv_in_order<T, T>,
                                        add_row<T>};
  return table;
}

template const GemmKernels<float>& gemm_table<FIT_ISA, float>();
template const GemmKernels<double>& gemm_table<FIT_ISA, double>();

}  // namespace fit::kernels
