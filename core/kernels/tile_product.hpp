#pragma once
#include "kernels/simd.hpp"

// Products of small matrices that lie in the cache: for *.simd.cpp files.
//
//   c [m, n] = alpha op(a) b  (+ c if accumulate)
//
// b and c are row-major with n contiguous; a is [m, k], or [k, m] if TransA: its elements are broadcast one by one, so
// either way is as fast. A block of MR rows by NV vectors of c stays in registers while k runs.
namespace fit::kernels {
namespace {

// Vectors a row of a block may have: the block, a row of b and one element of a must fit into the registers.
#if defined(__AVX512F__)
constexpr int block_vectors = 4;
#else
constexpr int block_vectors = 2;
#endif

template <class T, int MR, int NV, bool TransA>
inline void block(std::int64_t k, T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T* c,
                  std::int64_t ldc, bool accumulate, std::int64_t tail) {
  using V = Vec<T>;
  constexpr std::int64_t W = V::size;
  V sum[MR][NV];
  for (int i = 0; i < MR; ++i)
    for (int j = 0; j < NV; ++j) sum[i][j] = V(T(0));
  for (std::int64_t p = 0; p < k; ++p) {
    V row[NV];
    for (int j = 0; j + 1 < NV; ++j) row[j] = load<V>(b + p * ldb + j * W);
    row[NV - 1] = tail == W ? load<V>(b + p * ldb + (NV - 1) * W) : load_part<V>(b + p * ldb + (NV - 1) * W, tail);
    for (int i = 0; i < MR; ++i) {
      const V x(TransA ? a[p * lda + i] : a[i * lda + p]);
      for (int j = 0; j < NV; ++j) sum[i][j] = sum[i][j] + x * row[j];
    }
  }
  const V factor(alpha);
  for (int i = 0; i < MR; ++i)
    for (int j = 0; j < NV; ++j) {
      T* const at = c + i * ldc + j * W;
      V value = factor * sum[i][j];
      if (j + 1 < NV || tail == W) {
        if (accumulate) value = value + load<V>(at);
        value.store_unaligned(at);
      } else {
        if (accumulate) value = value + load_part<V>(at, tail);
        store_part(value, at, tail);
      }
    }
}

template <class T, int NV, bool TransA>
void panel(std::int64_t m, std::int64_t k, T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T* c,
           std::int64_t ldc, bool accumulate, std::int64_t tail) {
  const std::int64_t step = TransA ? 1 : lda;
  std::int64_t i = 0;
  for (; i + 6 <= m; i += 6)
    block<T, 6, NV, TransA>(k, alpha, a + i * step, lda, b, ldb, c + i * ldc, ldc, accumulate, tail);
  if (i + 4 <= m) {
    block<T, 4, NV, TransA>(k, alpha, a + i * step, lda, b, ldb, c + i * ldc, ldc, accumulate, tail);
    i += 4;
  }
  if (i + 2 <= m) {
    block<T, 2, NV, TransA>(k, alpha, a + i * step, lda, b, ldb, c + i * ldc, ldc, accumulate, tail);
    i += 2;
  }
  if (i < m) block<T, 1, NV, TransA>(k, alpha, a + i * step, lda, b, ldb, c + i * ldc, ldc, accumulate, tail);
}

template <bool TransA, class T>
void tile_product(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const T* a, std::int64_t lda, const T* b,
                  std::int64_t ldb, T* c, std::int64_t ldc, bool accumulate) {
  constexpr std::int64_t W = Vec<T>::size;
  for (std::int64_t j = 0; j < n; j += block_vectors * W) {
    const std::int64_t left = n - j, vectors = (left + W - 1) / W;
    const std::int64_t tail = vectors > block_vectors ? W : left - (vectors - 1) * W;
    switch (vectors < block_vectors ? vectors : block_vectors) {
      case 1:
        panel<T, 1, TransA>(m, k, alpha, a, lda, b + j, ldb, c + j, ldc, accumulate, tail);
        break;
      case 2:
        panel<T, 2, TransA>(m, k, alpha, a, lda, b + j, ldb, c + j, ldc, accumulate, tail);
        break;
#if defined(__AVX512F__)
      case 3:
        panel<T, 3, TransA>(m, k, alpha, a, lda, b + j, ldb, c + j, ldc, accumulate, tail);
        break;
      case 4:
        panel<T, 4, TransA>(m, k, alpha, a, lda, b + j, ldb, c + j, ldc, accumulate, tail);
        break;
#endif
      default:
        break;
    }
  }
}

}  // namespace
}  // namespace fit::kernels
