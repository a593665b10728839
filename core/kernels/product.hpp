#pragma once
#include <cstdint>

#include "kernels/isa.hpp"
#include "kernels/reference.hpp"
#include "kernels/sum_of.hpp"

// Matrix products in registers, compiled for each instruction set. gemm.hpp splits products among threads. Rounded by
// operation, with at least 1 chain of additions along k: (k + 6) / 2 units in the last place of the sum of |a b|, times
// alpha. Packing and transposing are exact.
namespace fit::kernels {

// c [m, n] = alpha op(a) op(b) + beta c, row-major, with row strides lda, ldb, ldc of the matrices as they lie in
// memory: a is [m, k], or [k, m] if transposed; b is [k, n], or [n, k]. beta = 0 does not read c.
template <class T>
struct Product {
  Product() {}
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  SumOf<T> alpha = 1, beta = 0;

  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

// alpha 1, beta 0, and no room between rows.
template <class T>
Product<T> contiguous(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b) {
  Product<T> p;
  p.m = m;
  p.n = n;
  p.k = k;
  p.transpose_a = transpose_a;
  p.transpose_b = transpose_b;
  p.lda = transpose_a ? m : k;
  p.ldb = transpose_b ? k : n;
  p.ldc = n;
  return p;
}

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
  // The product of small matrices; scratch: room for small_scratch(p) elements.
  void (*small)(const Product<T>& p, const T* a, const T* b, T* c, T* scratch);
  // The product for m up to few_rows, up to max_small_m where b is transposed, and a not transposed: b is read once, as
  // it lies.
  void (*small_m)(const Product<T>& p, const T* a, const T* b, T* c);
  // Adds a row, [cols], to each of c [rows, cols]: the bias of a linear layer.
  void (*add_row)(std::int64_t rows, std::int64_t cols, const T* row, T* c, std::int64_t ldc);
};
// Up to few_rows, and, where b is transposed, up to max_small_m, reading b takes longer than the operations.
constexpr int few_rows = 4, max_small_m = 24;

/// The plain form, which the kernels are held against.
namespace reference {
/// c [m, n] = alpha a [m, k] b [k, n] + beta c, where a(i, l), b(l, j) and c(i, j) give the elements.
template <class N, class A, class B, class C>
void product(std::int64_t m, std::int64_t n, std::int64_t k, N alpha, const A& a, const B& b, N beta, const C& c) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const N sum = sum_of<N>(k, [&](std::int64_t l) { return a(i, l) * b(l, j); });
      c(i, j) = beta == N(0) ? alpha * sum : alpha * sum + beta * c(i, j);
    }
}
}  // namespace reference

// Parts of a and of a panel that are multiplied at a time: those of a fit the L2 cache, those of a panel about L1.
constexpr std::int64_t m_part = 192, k_part = 128;

inline namespace FIT_ISA_NAMESPACE {

// A transposed a whose rows lie more than a page apart is copied together first: the processor doesn't read ahead
// there.
template <class T>
bool copies_a(const Product<T>& p) {
  return p.transpose_a && p.lda * static_cast<std::int64_t>(sizeof(T)) >= 4096;
}
template <class T>
std::int64_t multiply_scratch(const Product<T>& p) {
  return copies_a(p) ? m_part * k_part : 0;
}
template <class T>
std::int64_t small_scratch(const Product<T>& p) {
  return p.transpose_b ? p.n * p.k : 0;
}

}  // namespace FIT_ISA_NAMESPACE

template <class IsaTag, class T>
const ProductKernels<T>& product_table();

}  // namespace fit::kernels
