#include "kernels/small_product.hpp"

#include "kernels/tile_product.hpp"

namespace fit::kernels {
namespace {

// The matrix x [rows, cols] as [cols, rows].
template <class T>
void transpose(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t ld, T* out) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) out[c * rows + r] = x[r * ld + c];
}

// c [m, n] = alpha op(a) b + beta c, where b lies in rows.
template <class T>
void multiply(const Product<T>& p, const T* a, const T* b, std::int64_t ldb, T* c) {
  if (p.beta != T(0) && p.beta != T(1))
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) c[i * p.ldc + j] *= p.beta;
  const bool add = p.beta != T(0);
  p.transpose_a ? tile_product<true>(p.m, p.n, p.k, p.alpha, a, p.lda, b, ldb, c, p.ldc, add)
                : tile_product<false>(p.m, p.n, p.k, p.alpha, a, p.lda, b, ldb, c, p.ldc, add);
}

template <class T>
void run(const Product<T>& p, const T* a, const T* b, T* c, T* scratch) {
  if (as_row(p)) {  // c' = b' op(a)'
    Product<T> row = p;
    row.m = 1;
    row.n = row.ldc = p.m;
    row.transpose_a = !p.transpose_b;
    row.lda = p.ldb;
    if (p.transpose_a) return multiply(row, b, a, p.lda, c);
    transpose(p.m, p.k, a, p.lda, scratch);
    return multiply(row, b, scratch, p.m, c);
  }
  if (!p.transpose_b) return multiply(p, a, b, p.ldb, c);
  transpose(p.n, p.k, b, p.ldb, scratch);
  multiply(p, a, scratch, p.n, c);
}

}  // namespace

template <class IsaTag, class T>
const SmallProduct<T>& small_product_table() {
  static constexpr SmallProduct<T> table{run<T>};
  return table;
}

template const SmallProduct<float>& small_product_table<FIT_ISA, float>();
template const SmallProduct<double>& small_product_table<FIT_ISA, double>();

}  // namespace fit::kernels
