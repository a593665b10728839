#include "kernels/convert.hpp"

namespace fit::kernels {
namespace {

typedef std::uint32_t Bits32 __attribute__((may_alias));
typedef std::uint16_t Bits16 __attribute__((may_alias));

void widen_run(float* y, const BFloat16* x, std::int64_t n) {
  Bits32* __restrict to = reinterpret_cast<Bits32*>(y);
  const Bits16* __restrict from = reinterpret_cast<const Bits16*>(x);
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<std::uint32_t>(from[i]) << 16;
}

void round_run(BFloat16* y, const float* x, std::int64_t n) {
  Bits16* __restrict to = reinterpret_cast<Bits16*>(y);
  const Bits32* __restrict from = reinterpret_cast<const Bits32*>(x);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t b = from[i], rounded = b + 0x7fffu + (b >> 16 & 1u), quiet = b | 0x400000u;
    to[i] = static_cast<std::uint16_t>(((b & 0x7fffffffu) > 0x7f800000u ? quiet : rounded) >> 16);
  }
}

}  // namespace

template <class IsaTag, class T>
const ConvertKernels<T>& convert_table() {
  static constexpr ConvertKernels<T> table{widen_run, round_run};
  return table;
}

template const ConvertKernels<BFloat16>& convert_table<FIT_ISA, BFloat16>();

}  // namespace fit::kernels
