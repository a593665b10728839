#include "kernels/rows/rotary.hpp"

// Simple loops, which the compiler vectorises for each instruction set.
namespace fit::kernels {
namespace {

template <bool Interleaved, class T>
void rotate(T* __restrict to, const T* __restrict from, const T* __restrict cosine, const T* __restrict sine,
            std::int64_t pairs, std::int64_t heads) {
  for (; heads > 0; --heads, from += 2 * pairs, to += 2 * pairs)
    for (std::int64_t i = 0; i < pairs; ++i) {
      const std::int64_t first = Interleaved ? 2 * i : i, second = Interleaved ? first + 1 : i + pairs;
      const T x = from[first], y = from[second];
      to[first] = x * cosine[i] - y * sine[i];
      to[second] = x * sine[i] + y * cosine[i];
    }
}

}  // namespace

template <class IsaTag, class T>
const RotaryKernels<T>& rotary_table() {
  static constexpr RotaryKernels<T> table{rotate<false, T>, rotate<true, T>};
  return table;
}

template const RotaryKernels<float>& rotary_table<FIT_ISA, float>();
template const RotaryKernels<double>& rotary_table<FIT_ISA, double>();

}  // namespace fit::kernels
