#pragma once
#include "kernels/simd/simd.hpp"

// Products of small matrices that lie in the cache: for *.simd.cpp files.
//
//   c [m, n] = alpha op(a) b  (+ c if accumulate)
//
// b and c are row-major with n contiguous; a is [m, k], or [k, m] if TransA: its elements are broadcast one by one, so
// either way is as fast. A block of MR rows by NV vectors of c stays in registers while k runs.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// Vectors that a row of a block may have, and rows that a block of rows of `vectors` has: the block, a row of b and one
// element of a must fit into the registers, and there must be enough sums for additions not to wait for one another.
#if defined(__AVX512F__)
constexpr int block_vectors = 4;
constexpr int block_rows(int vectors) { return vectors == 1 ? 16 : vectors <= 3 ? 8 : 6; }
#else
constexpr int block_vectors = 2;
constexpr int block_rows(int vectors) { return vectors == 1 ? 8 : 6; }
#endif

template <class T, int MR, int NV, bool TransA, bool Full>
inline void block(std::int64_t k, T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T* c,
                  std::int64_t ldc, bool accumulate, std::int64_t tail) {
  using V = Vec<T>;
  constexpr std::int64_t W = V::size;
  const auto get = [tail](const T* at, int j) {
    return Full || j + 1 < NV ? load<V>(at + j * W) : load_part<V>(at + j * W, tail);
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
      store_part(value, c + i * ldc + j * W, tail);
  }
}

// In blocks of MR rows, and what is left of them in smaller ones.
template <class T, int MR, int NV, bool TransA, bool Full>
void panel(std::int64_t m, std::int64_t k, T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T* c,
           std::int64_t ldc, bool accumulate, std::int64_t tail) {
  const std::int64_t step = TransA ? 1 : lda;
  for (; m >= MR; m -= MR, a += MR * step, c += MR * ldc)
    block<T, MR, NV, TransA, Full>(k, alpha, a, lda, b, ldb, c, ldc, accumulate, tail);
  constexpr int fewer = MR == 6 ? 4 : MR / 2;
  if constexpr (fewer > 0)
    if (m > 0) panel<T, fewer, NV, TransA, Full>(m, k, alpha, a, lda, b, ldb, c, ldc, accumulate, tail);
}

template <bool TransA, bool Full, class T>
void panel_of(std::int64_t vectors, std::int64_t m, std::int64_t k, T alpha, const T* a, std::int64_t lda, const T* b,
              std::int64_t ldb, T* c, std::int64_t ldc, bool accumulate, std::int64_t tail) {
  switch (vectors) {
    case 1:
      return panel<T, block_rows(1), 1, TransA, Full>(m, k, alpha, a, lda, b, ldb, c, ldc, accumulate, tail);
    case 2:
      return panel<T, block_rows(2), 2, TransA, Full>(m, k, alpha, a, lda, b, ldb, c, ldc, accumulate, tail);
#if defined(__AVX512F__)
    case 3:
      return panel<T, block_rows(3), 3, TransA, Full>(m, k, alpha, a, lda, b, ldb, c, ldc, accumulate, tail);
    case 4:
      return panel<T, block_rows(4), 4, TransA, Full>(m, k, alpha, a, lda, b, ldb, c, ldc, accumulate, tail);
#endif
    default:
      return;
  }
}

template <bool TransA, class T>
void tile_product(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const T* a, std::int64_t lda, const T* b,
                  std::int64_t ldb, T* c, std::int64_t ldc, bool accumulate) {
  constexpr std::int64_t W = Vec<T>::size;
  for (std::int64_t j = 0; j < n; j += block_vectors * W) {
    const std::int64_t left = n - j, all = (left + W - 1) / W, vectors = all < block_vectors ? all : block_vectors;
    const std::int64_t tail = left - (vectors - 1) * W;
    if (tail >= W)
      panel_of<TransA, true>(vectors, m, k, alpha, a, lda, b + j, ldb, c + j, ldc, accumulate, W);
    else
      panel_of<TransA, false>(vectors, m, k, alpha, a, lda, b + j, ldb, c + j, ldc, accumulate, tail);
  }
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
