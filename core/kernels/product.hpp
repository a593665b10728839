#pragma once
#include <cstdint>

#include "kernels/isa.hpp"

// Matrix products in registers, compiled for each instruction set. gemm.hpp splits products among threads. Rounded by
// operation, with at least 1 chain of additions along k: (k + 6) / 2 units in the last place of the sum of |a b|, times
// alpha. Packing and transposing are exact.
namespace fit::kernels {

// c [m, n] = alpha op(a) op(b) + beta c, row-major, with row strides lda, ldb, ldc of the matrices as they lie in
// memory: a is [m, k], or [k, m] if transposed; b is [k, n], or [n, k]. beta = 0 does not read c.
template <class T>
struct Product {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  std::int64_t lda, ldb, ldc;
  T alpha = 1, beta = 0;

  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

// b is packed into panels of this many columns, [k, panel_width] each: what a block of c reads then lies together.
constexpr std::int64_t panel_width = 64;
constexpr std::int64_t panels(std::int64_t n) { return (n + panel_width - 1) / panel_width; }

template <class T>
struct ProductKernels {
  // Columns panel_width * panel … of op(b), as [k, panel_width]; beyond n nothing is written.
  void (*pack)(const Product<T>& p, const T* b, std::int64_t panel, T* out);
  // The product, b being given in panels one behind the other; scratch: room for multiply_scratch(p) elements.
  void (*multiply)(const Product<T>& p, const T* a, const T* packed, T* c, T* scratch);
  // out[c out_ld + r] = x[r ld + c].
  void (*transpose)(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t ld, T* out, std::int64_t out_ld);
  // The product where packing is not worth it; scratch: room for small_scratch(p) elements.
  void (*small)(const Product<T>& p, const T* a, const T* b, T* c, T* scratch);
  // For few_rows(p): b is read once, as it lies.
  void (*few)(const Product<T>& p, const T* a, const T* b, T* c);
};

// Parts of a and of a panel that are multiplied at a time: those of a fit the second cache, those of a panel about the
// first.
constexpr std::int64_t m_part = 192, k_part = 256;

// A transposed a whose rows lie more than a page apart is copied together first: the processor doesn't read ahead
// there.
template <class T>
bool copies_a(const Product<T>& p) {
  return p.transpose_a && p.lda * static_cast<std::int64_t>(sizeof(T)) > 4096;
}

template <class T>
std::int64_t multiply_scratch(const Product<T>& p) {
  return copies_a(p) ? m_part * k_part : 0;
}

// Up to this many multiplications b stays in the nearest cache as it is.
constexpr std::int64_t small_product_limit = 64 * 64 * 64;

template <class T>
bool is_small(const Product<T>& p) {
  return p.m * p.n * p.k <= small_product_limit;
}

// A product bound by reading b: a token at a time through a layer.
template <class T>
bool few_rows(const Product<T>& p) {
  return p.m <= 4 && !p.transpose_a && (p.transpose_b || !is_small(p));
}

// A single column is better computed as a single row, c' = op(b)' op(a)': what lies one behind the other in memory is
// then one vector.
template <class T>
bool is_column(const Product<T>& p) {
  return p.n == 1 && p.m > 1 && p.ldc == 1;
}

// The same product with a and b in each other's place.
template <class T>
Product<T> as_row(const Product<T>& p) {
  const bool together = p.transpose_b || p.ldb == 1;  // the elements of b
  return {1, p.m, p.k, !together, !p.transpose_a, together ? p.k : p.ldb, p.lda, p.m, p.alpha, p.beta};
}

template <class T>
std::int64_t small_scratch(const Product<T>& p) {
  return p.transpose_b ? p.n * p.k : 0;
}

template <class IsaTag, class T>
const ProductKernels<T>& product_table();

}  // namespace fit::kernels
