#pragma once
#include "kernels/simd/simd.hpp"
#include "matmul/gemm_kernels.hpp"

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

// The vectors of columns that a kernel for M rows of a computes side by side, within a panel of floats. One row takes
// more of them, because an addition waits for the one before it in its chain.
template <int M>
constexpr int panel_vectors() {
  constexpr int all = panel_width / static_cast<int>(Vec<float>::size), many = all < 8 ? all : 8;
  return M == 1 ? many : nr_vectors;
}

// Writes the first `cols` columns of a block of c, or all.
template <class V, int N, class T>
void store_columns(const V (&block)[N], std::int64_t cols, T* c) {
  constexpr std::int64_t W = V::size;
  FIT_UNROLL for (int j = 0; j < N; ++j) {
    const std::int64_t left = cols - j * W;
    if (left >= W)
      store(block[j], c + j * W);
    else if (left > 0)
      store_part(block[j], c + j * W, left);
  }
}

// Brings a later part of b into the L2 cache meanwhile: of each row or tile that a kernel reads, cache lines first …
// last - 1 of the one `distance` elements further on. The processor itself starts too late. Between instructions that
// multiply, fetching costs nothing, unless it is more than memory can give.
struct Ahead {
  std::int64_t distance = 0, first = 0, last = 0;
};

// What block i of `count` blocks of rows fetches of 16 cache lines: its share, but not so many that products wait.
inline Ahead share_of_ahead(std::int64_t distance, std::int64_t i, std::int64_t count) {
  constexpr std::int64_t lines = 16, most = 4;
  const std::int64_t first = lines * i / count, share = lines * (i + 1) / count - first;
  return {distance, first, first + (share < most ? share : most)};
}

// T, deduced from another argument: from alpha.
template <class T>
struct Deduced {
  using Type = T;
};
template <class T>
using OfAlpha = typename Deduced<T>::Type;

// A matrix in memory, whose rows begin `ld` apart.
template <class T>
struct Matrix {
  T* data = nullptr;
  std::int64_t ld = 0;
};
// The left factor of a product, which may be the transpose of what lies in memory.
template <class T>
struct LeftFactor {
  LeftFactor(const T* data, std::int64_t ld, bool transposed = false) : data(data), ld(ld), transposed(transposed) {}
  LeftFactor(const Matrix<const T>& m) : LeftFactor(m.data, m.ld) {}

  const T* data;
  std::int64_t ld;
  bool transposed;
};
template <class T>
LeftFactor<T> transpose_of(const T* data, std::int64_t ld) {
  return {data, ld, true};
}

// c = alpha a b, with a [m, k] and b [k, n].
struct ProductSizes {
  std::int64_t m, n, k;
};
enum class Write { set, add };  // or c += alpha a b
inline Write adding(bool add) { return add ? Write::add : Write::set; }

// Slices of b begin `step` apart: slice_width() if its rows are complete. next: what is multiplied after b, in the same
// layout, or null. bias [n] is added to each row of c, or nothing if it is null.
template <class T>
struct Slices {
  std::int64_t step = slice_width<T>();
  const T *next = nullptr, *bias = nullptr;
};

// The product of matrices of float or double. Inline, so that numbers are passed and no structs.
template <class T>
void multiply_slices(bool transpose_a, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const T* a,
                     std::int64_t lda, const T* b, std::int64_t ldb, T* c, std::int64_t ldc, bool accumulate,
                     std::int64_t slice_step, const T* next, const T* bias);
// c [m, n] += a [m, k] b for a b whose row p begins at b + rows[p]. n is a multiple of slice_width().
template <class T>
void multiply_rows(std::int64_t m, std::int64_t n, std::int64_t k, const T* a, std::int64_t lda, const T* b,
                   const std::int64_t* rows, T* c, std::int64_t ldc);
template <class T>
[[gnu::always_inline]] inline void macro_kernel(const ProductSizes& size, T alpha, const LeftFactor<OfAlpha<T>>& a,
                                                const Matrix<const OfAlpha<T>>& b, const Matrix<OfAlpha<T>>& c,
                                                Write write, const Slices<OfAlpha<T>>& slices = {}) {
  multiply_slices(a.transposed, size.m, size.n, size.k, alpha, a.data, a.ld, b.data, b.ld, c.data, c.ld,
                  write == Write::add, slices.step, slices.next, slices.bias);
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
