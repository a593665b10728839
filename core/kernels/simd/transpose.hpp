#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/simd/isa_namespace.hpp"

// Transposition in registers, for words of 1, 2, 4 or 8 bytes. For *.simd.cpp files only.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

#if defined(__AVX512F__)
constexpr std::size_t vector_bytes = 64;
#elif defined(__AVX__)
constexpr std::size_t vector_bytes = 32;
#else
constexpr std::size_t vector_bytes = 16;
#endif

// N words of T's size, as a compiler vector; only their bits are moved.
template <class T, int N>
struct Words {
  using Word = std::conditional_t<sizeof(T) == 1, std::uint8_t,
                                  std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                                     std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;
  typedef Word Vector __attribute__((vector_size(sizeof(T) * N)));

  // Interleaves the first halves of a and b if From is 0, the second halves if From is N.
  template <std::size_t From, std::size_t... I>
  static Vector zip(const Vector& a, const Vector& b, std::index_sequence<I...>) {
    return __builtin_shufflevector(a, b, ((I + From) / 2 + I % 2 * N)...);
  }
};

// Transposes N x N words. The row and column of a word, in binary, form one number. Each round interleaves rows i and
// i + N / 2, which rotates this number left by one bit. After log2 N rounds row and column are exchanged.
template <int N, class T>
inline void transpose_words(typename Words<T, N>::Vector (&v)[N]) {
  using Row = Words<T, N>;
  constexpr std::make_index_sequence<N> lanes;
  typename Row::Vector w[N];
  FIT_UNROLL for (int round = 1; round < N; round *= 2) {
    FIT_UNROLL for (int i = 0; i < N / 2; ++i) {
      w[2 * i] = Row::template zip<0>(v[i], v[i + N / 2], lanes);
      w[2 * i + 1] = Row::template zip<N>(v[i], v[i + N / 2], lanes);
    }
    FIT_UNROLL for (int i = 0; i < N; ++i) v[i] = w[i];
  }
}

// Transposes an N x N block.
template <int N, class T>
inline void transpose_block(const T* x, std::int64_t ld, T* out, std::int64_t out_ld) {
  typename Words<T, N>::Vector v[N];
  FIT_UNROLL for (int i = 0; i < N; ++i) __builtin_memcpy(&v[i], x + i * ld, sizeof v[i]);
  transpose_words<N, T>(v);
  FIT_UNROLL for (int i = 0; i < N; ++i) __builtin_memcpy(out + i * out_ld, &v[i], sizeof v[i]);
}

// Transposes in blocks of N, and the rest at the two edges in smaller blocks.
template <int N, class T>
inline void transpose_blocks(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t ld, T* out,
                             std::int64_t out_ld) {
  if constexpr (N == 1 || N * sizeof(T) < 8) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) out[c * out_ld + r] = x[r * ld + c];
  } else {
    const std::int64_t below = rows / N * N, beside = cols / N * N;
    for (std::int64_t r = 0; r < below; r += N)
      for (std::int64_t c = 0; c < beside; c += N) transpose_block<N>(x + r * ld + c, ld, out + c * out_ld + r, out_ld);
    if (beside < cols) transpose_blocks<N / 2>(below, cols - beside, x + beside, ld, out + beside * out_ld, out_ld);
    if (below < rows) transpose_blocks<N / 2>(rows - below, cols, x + below * ld, ld, out + below, out_ld);
  }
}

// out[c out_ld + r] = x[r ld + c] for r < rows and c < cols.
template <class T>
FIT_ONE_COPY void transpose(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t ld, T* out,
                            std::int64_t out_ld) {
  constexpr int vector = vector_bytes / sizeof(T), line = 64 / sizeof(T);
  constexpr int block = vector < 16 ? vector : 16;
  constexpr int part = line < 16 ? line : 16;  // columns at once: the cache lines written stay in the cache
  for (std::int64_t c = 0; c < cols; c += part)
    transpose_blocks<block>(rows, cols - c < part ? cols - c : part, x + c, ld, out + c * out_ld, out_ld);
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
