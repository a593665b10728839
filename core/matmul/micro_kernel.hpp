#pragma once
#include "kernels/simd/simd.hpp"

// The micro-kernel, and the macro-kernel that calls it on matrices in the cache. For *.simd.cpp files only.
//
//   c [m, n] = alpha op(a) b  (+ c if accumulate)
//
// b and c are row-major with contiguous n. a is [m, k], or [k, m] if TransA; its elements are broadcast one at a time,
// so both layouts have the same speed. The micro-kernel keeps MR rows by NV vectors of c in registers.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// The size of the micro-kernel: its maximum width in vectors, and the number of rows for rows of `vectors`. The block
// of c, a row of b and one element of a must fit the registers. Enough independent sums hide the latency.
#if defined(__AVX512F__)
constexpr int nr_vectors = 4;
constexpr int mr(int vectors) { return vectors == 1 ? 16 : vectors <= 3 ? 8 : 6; }
#else
constexpr int nr_vectors = 2;
constexpr int mr(int vectors) { return vectors == 1 ? 8 : 6; }
#endif

// The columns of the largest block of c.
template <class T>
constexpr std::int64_t slice_width() {
  return nr_vectors * static_cast<std::int64_t>(Vec<T>::size);
}

// load_part() and store_part(), element by element. The compiler fuses alpha times the sum with the addition of c or
// not, depending on this code: another form would change results.
template <class V, class T>
inline V load_elements(const T* p, std::int64_t n) {
#if defined(__AVX512F__)
  return load_part<V>(p, n);
#else
  alignas(64) T buffer[V::size];
  V(T(0)).store_aligned(buffer);
  for (std::int64_t i = 0; i < n; ++i) buffer[i] = p[i];
  return V::load_aligned(buffer);
#endif
}
template <class V, class T>
inline void store_elements(const V& v, T* p, std::int64_t n) {
#if defined(__AVX512F__)
  store_part(v, p, n);
#else
  alignas(64) T buffer[V::size];
  v.store_aligned(buffer);
  for (std::int64_t i = 0; i < n; ++i) p[i] = buffer[i];
#endif
}

template <class T, int MR, int NV, bool TransA, bool Full>
inline void micro_kernel(std::int64_t k, T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T* c,
                         std::int64_t ldc, bool accumulate, std::int64_t tail) {
  using V = Vec<T>;
  constexpr std::int64_t W = V::size;
  const auto get = [tail](const T* at, int j) {
    return Full || j + 1 < NV ? load<V>(at + j * W) : load_elements<V>(at + j * W, tail);
  };
  V sum[MR][NV];
  FIT_UNROLL for (int i = 0; i < MR; ++i) FIT_UNROLL for (int j = 0; j < NV; ++j) sum[i][j] = V(T(0));
  for (std::int64_t p = 0; p < k; ++p) {
    V row[NV];
    FIT_UNROLL for (int j = 0; j < NV; ++j) row[j] = get(b + p * ldb, j);
    FIT_UNROLL for (int i = 0; i < MR; ++i) {
      const V x(TransA ? a[p * lda + i] : a[i * lda + p]);
      FIT_UNROLL for (int j = 0; j < NV; ++j) sum[i][j] = sum[i][j] + x * row[j];
    }
  }
  const V factor(alpha);
  FIT_UNROLL for (int i = 0; i < MR; ++i) FIT_UNROLL for (int j = 0; j < NV; ++j) {
    V value = factor * sum[i][j];
    if (accumulate) value = value + get(c + i * ldc, j);
    if (Full || j + 1 < NV)
      value.store_unaligned(c + i * ldc + j * W);
    else
      store_elements(value, c + i * ldc + j * W, tail);
  }
}

// Computes all rows of c by micro-kernels of MR rows, and the rest by smaller ones.
template <class T, int MR, int NV, bool TransA, bool Full>
void micro_kernels(std::int64_t m, std::int64_t k, T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb,
                   T* c, std::int64_t ldc, bool accumulate, std::int64_t tail) {
  const std::int64_t step = TransA ? 1 : lda;
  for (; m >= MR; m -= MR, a += MR * step, c += MR * ldc)
    micro_kernel<T, MR, NV, TransA, Full>(k, alpha, a, lda, b, ldb, c, ldc, accumulate, tail);
  constexpr int fewer = MR == 6 ? 4 : MR / 2;
  if constexpr (fewer > 0)
    if (m > 0) micro_kernels<T, fewer, NV, TransA, Full>(m, k, alpha, a, lda, b, ldb, c, ldc, accumulate, tail);
}

template <bool TransA, bool Full, class T>
void micro_kernels_of(std::int64_t vectors, std::int64_t m, std::int64_t k, T alpha, const T* a, std::int64_t lda,
                      const T* b, std::int64_t ldb, T* c, std::int64_t ldc, bool accumulate, std::int64_t tail) {
  switch (vectors) {
    case 1:
      return micro_kernels<T, mr(1), 1, TransA, Full>(m, k, alpha, a, lda, b, ldb, c, ldc, accumulate, tail);
    case 2:
      return micro_kernels<T, mr(2), 2, TransA, Full>(m, k, alpha, a, lda, b, ldb, c, ldc, accumulate, tail);
#if defined(__AVX512F__)
    case 3:
      return micro_kernels<T, mr(3), 3, TransA, Full>(m, k, alpha, a, lda, b, ldb, c, ldc, accumulate, tail);
    case 4:
      return micro_kernels<T, mr(4), 4, TransA, Full>(m, k, alpha, a, lda, b, ldb, c, ldc, accumulate, tail);
#endif
    default:
      return;
  }
}

// Slices of b begin slice_step apart: slice_width() if its rows are complete.
template <bool TransA, class T>
void macro_kernel(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const T* a, std::int64_t lda, const T* b,
                  std::int64_t ldb, T* c, std::int64_t ldc, bool accumulate,
                  std::int64_t slice_step = slice_width<T>()) {
  constexpr std::int64_t W = Vec<T>::size;
  for (std::int64_t j = 0; j < n; j += slice_width<T>(), b += slice_step) {
    const std::int64_t left = n - j, all = (left + W - 1) / W, vectors = all < nr_vectors ? all : nr_vectors;
    const std::int64_t tail = left - (vectors - 1) * W;
    if (tail >= W)
      micro_kernels_of<TransA, true>(vectors, m, k, alpha, a, lda, b, ldb, c + j, ldc, accumulate, W);
    else
      micro_kernels_of<TransA, false>(vectors, m, k, alpha, a, lda, b, ldb, c + j, ldc, accumulate, tail);
  }
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
