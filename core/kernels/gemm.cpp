#include "kernels/gemm.hpp"

#include <cblas.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "fit/error.hpp"

// OpenBLAS exports this; another BLAS may not.
extern "C" void openblas_set_num_threads(int) __attribute__((weak));

namespace fit::kernels {
namespace {

// FIT_OPENBLAS in the environment.
bool wished(const char* what) {
  const char* wish = std::getenv("FIT_OPENBLAS");
  return wish && std::strcmp(wish, what) == 0;
}

void set_up() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (openblas_set_num_threads && !wished("leave")) openblas_set_num_threads(1);
  });
}

void call(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, const Product<float>& p, const float* a, const float* b, float* c) {
  cblas_sgemm(CblasRowMajor, ta, tb, static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k), p.alpha, a,
              static_cast<int>(p.lda), b, static_cast<int>(p.ldb), p.beta, c, static_cast<int>(p.ldc));
}
void call(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, const Product<double>& p, const double* a, const double* b,
          double* c) {
  cblas_dgemm(CblasRowMajor, ta, tb, static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k), p.alpha, a,
              static_cast<int>(p.lda), b, static_cast<int>(p.ldb), p.beta, c, static_cast<int>(p.ldc));
}

}  // namespace

template <class T>
bool is_packed(const Product<T>& p) {
  static const bool blas = wished("use");
  return chosen_isa != Isa::base && !blas && !few_rows(p) && !is_small(p);
}

template bool is_packed(const Product<float>&);
template bool is_packed(const Product<double>&);

template <class T>
void gemm(const Product<T>& p, const T* a, const T* b, T* c) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) {  // BLAS wants leading dimensions of at least 1
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) c[i * p.ldc + j] = p.beta == 0 ? T(0) : p.beta * c[i * p.ldc + j];
    return;
  }
  if (is_column(p)) return gemm(as_row(p), b, a, c);
  const auto& kernels = FIT_KERNELS(product_table, T);
  if (few_rows(p)) return kernels.few(p, a, b, c);
  if (is_small(p)) {
    const Scratch<T> scratch(small_scratch(p));
    return kernels.small(p, a, b, c, scratch.get());
  }
  if (is_packed(p)) {
    const Scratch<T> packed(panels(p.n) * panel_width * p.k), rows(multiply_scratch(p));
    for (std::int64_t i = 0; i < panels(p.n); ++i) kernels.pack(p, b, i, packed.get() + i * panel_width * p.k);
    return kernels.multiply(p, a, packed.get(), c, rows.get());
  }
  for (const std::int64_t size : {p.m, p.n, p.k, p.lda, p.ldb, p.ldc})
    if (size > INT_MAX)
      throw Error("[matmul] a size or stride of " + std::to_string(size) + " is more than BLAS can take (" +
                  std::to_string(INT_MAX) + ")");
  set_up();
  call(p.transpose_a ? CblasTrans : CblasNoTrans, p.transpose_b ? CblasTrans : CblasNoTrans, p, a, b, c);
}

template void gemm(const Product<float>&, const float*, const float*, float*);
template void gemm(const Product<double>&, const double*, const double*, double*);

Tiling tiling(std::int64_t m, std::int64_t n, double flops) {
  // A tile is worth some tens of microseconds; more than 32 would not be shared out more evenly.
  const auto wanted = static_cast<std::int64_t>(std::clamp(flops / (10 * parallel_flops), 1.0, 32.0));
  const auto cut = [](std::int64_t size, std::int64_t parts, std::int64_t multiple) {
    const std::int64_t part = (size + parts - 1) / parts;
    return std::max<std::int64_t>((part + multiple - 1) / multiple * multiple, multiple);
  };
  // Rows are cut into tiles of 96 at the least, which keeps them from reading the panels of b too often, columns by
  // panels.
  Tiling t{};
  const std::int64_t most_row_tiles = std::max<std::int64_t>(m / 96, 1);
  const std::int64_t row_parts =
      std::min(most_row_tiles, m >= n ? wanted : std::max<std::int64_t>(wanted * m / (m + n), 1));
  t.rows = cut(m, row_parts, 6);
  t.row_tiles = (m + t.rows - 1) / t.rows;
  t.cols = cut(n, std::max<std::int64_t>((wanted + row_parts - 1) / row_parts, 1), panel_width);
  t.col_tiles = (n + t.cols - 1) / t.cols;
  return t;
}

}  // namespace fit::kernels
