#include "kernels/copy.hpp"

#include "kernels/simd/transpose.hpp"

namespace fit::kernels {
namespace {

template <class W>
void transpose_tile(std::int64_t rows, std::int64_t cols, const W* x, std::int64_t ld, W* out, std::int64_t out_ld) {
  // Rows that are a page apart evict each other from the cache. If a store is shorter than a cache line, a buffer
  // collects full lines first.
  constexpr std::int64_t page = 4096, word = sizeof(W);
  if (vector_bytes == 64 || word == 8 || out_ld * word % page != 0 || rows < 16)
    return transpose(rows, cols, x, ld, out, out_ld);
  alignas(64) W together[transposed_tile];
  transpose(rows, cols, x, ld, together, rows);
  for (std::int64_t c = 0; c < cols; ++c)
    __builtin_memcpy(out + c * out_ld, together + c * rows, static_cast<std::size_t>(rows * word));
}

template <class W>
void copy_strided(W* y, std::int64_t sy, const W* x, std::int64_t sx, std::int64_t n) {
  // The compiler vectorises loops of numbers, which helps for these strides, but not of structures.
  typedef typename Words<W, 1>::Word Bits __attribute__((may_alias));
  Bits* __restrict to = reinterpret_cast<Bits*>(y);
  const Bits* __restrict from = reinterpret_cast<const Bits*>(x);
  if (sy == 1 && sx == -1)
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[-i];
  else if (sy == 1 && sx == 2)
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[2 * i];
  else
    for (std::int64_t i = 0; i < n; ++i) y[sy * i] = x[sx * i];
}

}  // namespace

template <class IsaTag, class W>
const CopyKernels<W>& copy_table() {
  static constexpr CopyKernels<W> table{transpose_tile<W>, copy_strided<W>};
  return table;
}

template const CopyKernels<Byte>& copy_table<FIT_ISA, Byte>();
template const CopyKernels<Word2>& copy_table<FIT_ISA, Word2>();
template const CopyKernels<Word4>& copy_table<FIT_ISA, Word4>();
template const CopyKernels<Word8>& copy_table<FIT_ISA, Word8>();

}  // namespace fit::kernels
