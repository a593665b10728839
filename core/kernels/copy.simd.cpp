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

// The compiler vectorises loops of numbers, but not of structures.
template <class W>
struct Numbers {
  typedef typename Words<W, 1>::Word Bits __attribute__((may_alias));
  static Bits* of(W* x) { return reinterpret_cast<Bits*>(x); }
  static const Bits* of(const W* x) { return reinterpret_cast<const Bits*>(x); }
};

template <class W>
void copy_strided(W* y, std::int64_t sy, const W* x, std::int64_t sx, std::int64_t n) {
  auto* __restrict to = Numbers<W>::of(y);
  const auto* __restrict from = Numbers<W>::of(x);
  if (sy == 1 && sx == -1)
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[-i];
  else if (sy == 1 && sx == 2)
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[2 * i];
  else
    for (std::int64_t i = 0; i < n; ++i) y[sy * i] = x[sx * i];
}

// z[i] = x[sx i] where c[i] is 1 (or 0, if inverted), else y[i].
template <int sx, class Bits>
void choose_run(Bits* __restrict z, const Byte* __restrict c, const Bits* __restrict x, const Bits* __restrict y,
                std::int64_t n, bool inverted) {
  const auto no = static_cast<Bits>(-static_cast<Bits>(inverted));
  for (std::int64_t i = 0; i < n; ++i) {  // bits instead of a branch, which a random c would mislead
    const auto mask = static_cast<Bits>(-static_cast<Bits>(c[i]) ^ no);
    z[i] = static_cast<Bits>((x[sx * i] & mask) | (y[i] & ~mask));
  }
}

template <class W>
void choose(W* z, const bool* c, const W* x, const W* y, std::int64_t n, int sx, int sy) {
  using N = Numbers<W>;
  using Bits = typename N::Bits;
  Bits* const to = N::of(z);
  const Byte* const condition = reinterpret_cast<const Byte*>(c);
  if (!sx && !sy) {
    for (std::int64_t i = 0; i < n; ++i) z[i] = c[i] ? *x : *y;
    return;
  }
  if (!sy) return choose_run<0, Bits>(to, condition, N::of(y), N::of(x), n, true);
  (sx ? choose_run<1, Bits> : choose_run<0, Bits>)(to, condition, N::of(x), N::of(y), n, false);
}

}  // namespace

template <class IsaTag, class W>
const CopyKernels<W>& copy_table() {
  static constexpr CopyKernels<W> table{transpose_tile<W>, copy_strided<W>, choose<W>};
  return table;
}

template const CopyKernels<Byte>& copy_table<FIT_ISA, Byte>();
template const CopyKernels<Word2>& copy_table<FIT_ISA, Word2>();
template const CopyKernels<Word4>& copy_table<FIT_ISA, Word4>();
template const CopyKernels<Word8>& copy_table<FIT_ISA, Word8>();

}  // namespace fit::kernels
