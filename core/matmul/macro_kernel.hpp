#pragma once
#include "kernels/simd/simd.hpp"

// Products of matrices in the cache, for *.simd.cpp files only.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// The maximum width of the micro-kernel, in vectors.
#if defined(__AVX512F__)
constexpr int nr_vectors = 4;
#else
constexpr int nr_vectors = 2;
#endif

// The columns of the largest block of c.
template <class T>
constexpr std::int64_t slice_width() {
  return nr_vectors * static_cast<std::int64_t>(Vec<T>::size);
}

//   c [m, n] = alpha op(a) b  (+ c if accumulate)
//
// b and c are row-major with contiguous n. a is [m, k], or [k, m] if transpose_a. Slices of b begin slice_step apart:
// slice_width() if its rows are complete. For float and double.
template <class T>
void macro_kernel(bool transpose_a, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const T* a,
                  std::int64_t lda, const T* b, std::int64_t ldb, T* c, std::int64_t ldc, bool accumulate,
                  std::int64_t slice_step = slice_width<T>());

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
