#pragma once
#include "kernels/gemm.hpp"
#include "kernels/isa.hpp"

// Matrix products of our own, for sizes at which a call of BLAS costs more than the arithmetic.
namespace fit::kernels {

template <class T>
struct SmallProduct {
  // scratch: room for scratch_of(p) elements.
  void (*run)(const Product<T>& p, const T* a, const T* b, T* c, T* scratch);
  // Few rows of a times many of b, which is transposed: dot products, b being read once. See few_rows().
  void (*dots)(const Product<T>& p, const T* a, const T* b, T* c);
};

// A product bound by reading b: a token at a time through a layer. BLAS would pack b first.
template <class T>
bool few_rows(const Product<T>& p) {
  return p.m <= 4 && p.transpose_b && !p.transpose_a;
}

// A single column is computed as a single row: what lies one behind the other in memory is then one vector.
template <class T>
bool as_row(const Product<T>& p) {
  return p.n == 1 && p.ldc == 1;
}

template <class T>
std::int64_t scratch_of(const Product<T>& p) {
  return as_row(p) ? p.m * p.k : p.n * p.k;
}

template <class IsaTag, class T>
const SmallProduct<T>& small_product_table();

}  // namespace fit::kernels
