#pragma once
#include <array>
#include <cstdint>

#include "kernels/simd/isa.hpp"
#include "kernels/strided_loop.hpp"

// Copies between layouts, independent of the type: only the element size matters. Exact.
namespace fit::kernels {

// Words that may alias elements of any type of the same size.
using Byte = unsigned char;
struct [[gnu::may_alias]] Word2 {
  std::uint16_t bits;
};
struct [[gnu::may_alias]] Word4 {
  std::uint32_t bits;
};
struct [[gnu::may_alias]] Word8 {
  std::uint64_t bits;
};

/// Calls f with a word of the element size: 1, 2, 4 or 8 bytes.
template <class F>
void with_word(std::int64_t element_size, const F& f) {
  element_size == 1 ? f(Byte{}) : element_size == 2 ? f(Word2{}) : element_size == 4 ? f(Word4{}) : f(Word8{});
}

/// Distance of neighbours along each axis, in elements; may be negative, or 0 to repeat.
using Strides = std::array<std::int64_t, Shape::max_rank>;

/// The strides of a contiguous array.
Strides row_major(const Shape& shape);

/// y[i . sy] = x[i . sx] for every index i below `sizes`. x and y must not overlap; no stride in sy is 0.
void copy(const Shape& sizes, std::int64_t element_size, void* y, const Strides& sy, const void* x, const Strides& sx);

/// Single-threaded copies, compiled for each instruction set. W: Byte, Word2, Word4 or Word8.
template <class W>
struct CopyKernels {
  /// out[c out_ld + r] = x[r ld + c], for at most transposed_tile words.
  void (*transpose)(std::int64_t rows, std::int64_t cols, const W* x, std::int64_t ld, W* out, std::int64_t out_ld);
  /// y[sy i] = x[sx i] for i < n.
  void (*strided)(W* y, std::int64_t sy, const W* x, std::int64_t sx, std::int64_t n);
  /// z[i] = c[i] ? x[sx i] : y[sy i] for i < n, with strides 0 or 1.
  void (*choose)(W* z, const bool* c, const W* x, const W* y, std::int64_t n, int sx, int sy);
};
constexpr std::int64_t transposed_tile = std::int64_t{64} * 64;

template <class IsaTag, class W>
const CopyKernels<W>& copy_table();

/// Sets `bytes` bytes to 0, or copies them.
void zero(void* y, std::int64_t bytes);
void copy(void* y, const void* x, std::int64_t bytes);

}  // namespace fit::kernels
