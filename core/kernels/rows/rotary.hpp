#pragma once
#include <cstdint>
#include <utility>

#include "kernels/simd/isa.hpp"

// Rotary position embedding: rotates pairs of features, float and double. Rounded by operation.
namespace fit::kernels {

/// Reference: (x, y) rotated by an angle a is (x cos a - y sin a, x sin a + y cos a).
namespace reference {
template <class N>
std::pair<N, N> rotate(const N& x, const N& y, const N& cosine, const N& sine) {
  return {x * cosine - y * sine, x * sine + y * cosine};
}
}  // namespace reference

// `heads` heads side by side, each of 2 `pairs` features. In every head, pair i (x, y) becomes (x cosine[i] - y
// sine[i], x sine[i] + y cosine[i]). `to` and `from` must not overlap.
template <class T>
using Rotate = void (*)(T* to, const T* from, const T* cosine, const T* sine, std::int64_t pairs, std::int64_t heads);

template <class T>
struct RotaryKernels {
  Rotate<T> half_split;   // pair i is (i, i + pairs)
  Rotate<T> interleaved;  // pair i is (2 i, 2 i + 1)
};

template <class IsaTag, class T>
const RotaryKernels<T>& rotary_table();

template <class T>
const RotaryKernels<T>& rotary() {
  return FIT_KERNELS(rotary_table, T);
}

}  // namespace fit::kernels
