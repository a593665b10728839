#include "kernels/rotary.hpp"

// Simple loops, which the compiler vectorises for each instruction set.
namespace fit::kernels {
namespace {

template <class T>
void half_split(T* __restrict to, const T* __restrict from, const T* __restrict cosine, const T* __restrict sine,
                std::int64_t pairs, std::int64_t heads) {
  for (; heads > 0; --heads, from += 2 * pairs, to += 2 * pairs)
    for (std::int64_t i = 0; i < pairs; ++i) {
      const T x = from[i], y = from[i + pairs];
      to[i] = x * cosine[i] - y * sine[i];
      to[i + pairs] = x * sine[i] + y * cosine[i];
    }
}

template <class T>
void interleaved(T* __restrict to, const T* __restrict from, const T* __restrict cosine, const T* __restrict sine,
                 std::int64_t pairs, std::int64_t heads) {
  for (; heads > 0; --heads, from += 2 * pairs, to += 2 * pairs)
    for (std::int64_t i = 0; i < pairs; ++i) {
      const T x = from[2 * i], y = from[2 * i + 1];
      to[2 * i] = x * cosine[i] - y * sine[i];
      to[2 * i + 1] = x * sine[i] + y * cosine[i];
    }
}

}  // namespace

template <class IsaTag, class T>
const RotaryKernels<T>& rotary_table() {
  static constexpr RotaryKernels<T> table{half_split<T>, interleaved<T>};
  return table;
}

template const RotaryKernels<float>& rotary_table<FIT_ISA, float>();
template const RotaryKernels<double>& rotary_table<FIT_ISA, double>();

}  // namespace fit::kernels
