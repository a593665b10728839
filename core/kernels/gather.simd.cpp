#include "kernels/gather.hpp"

#include "kernels/simd/transpose.hpp"

namespace fit::kernels {
namespace {

bool within(const std::int64_t* ids, std::int64_t n, std::int64_t low, std::int64_t last) {
  // The sign bit is set if any id is below low or above last. Without a branch the loop is vectorised.
  std::uint64_t signs = 0;
  const auto l = static_cast<std::uint64_t>(low), m = static_cast<std::uint64_t>(last);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto v = static_cast<std::uint64_t>(ids[i]);
    signs |= (v - l) | (m - v);
  }
  return signs >> 63 == 0;
}

template <class W>
void gather_line(W* y, const W* x, const std::int64_t* ids, std::int64_t n) {
  // The compiler vectorises loops of numbers, but not of structures.
  typedef typename Words<W, 1>::Word Bits __attribute__((may_alias));
  Bits* __restrict const to = reinterpret_cast<Bits*>(y);
  const Bits* __restrict const from = reinterpret_cast<const Bits*>(x);
  for (std::int64_t i = 0; i < n; ++i) to[i] = from[ids[i]];
}

}  // namespace

template <class IsaTag, class W>
const GatherKernels<W>& gather_table() {
  static constexpr GatherKernels<W> table{gather_line<W>, within};
  return table;
}

template const GatherKernels<Byte>& gather_table<FIT_ISA, Byte>();
template const GatherKernels<Word2>& gather_table<FIT_ISA, Word2>();
template const GatherKernels<Word4>& gather_table<FIT_ISA, Word4>();
template const GatherKernels<Word8>& gather_table<FIT_ISA, Word8>();

}  // namespace fit::kernels
