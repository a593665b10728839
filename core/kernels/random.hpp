#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/simd/isa.hpp"

// Counter-based random numbers (Philox 4x32-10; Salmon, Moraes, Dror and Shaw 2011), written directly to memory.
//
// Each element i of a call has its own 32-bit word, which depends on (seed, call, i) only. 64 elements form a group: 16
// blocks of four words, computed side by side. Element i gets word 2 (i % 64 / 32) + i % 2 of block 16 (i / 64) + i %
// 32 / 2 (see detail::philox()). 64-bit numbers use the words of elements 2i (low) and 2i + 1.
namespace fit::kernels {

struct RandomKey {
  std::uint64_t seed, call;
};

constexpr std::int64_t random_group = 64;

inline namespace FIT_ISA_NAMESPACE {
/// An element is dropped with probability p: if its word <= drop_limit(p). All ops with dropout use this, so that a
/// fused kernel and its decomposition drop the same elements. 0 < p <= 1.
inline std::uint32_t drop_limit(double p) {
  return static_cast<std::uint32_t>(std::max(std::round(p * 0x1p32) - 1, 0.0));
}
/// The factor of the elements that are kept: 1 / (1 - p).
inline double keep_scale(double p) { return p < 1 ? 1 / (1 - p) : 0; }
}  // namespace FIT_ISA_NAMESPACE

template <class T>
struct Random {
  // The words of elements first … first + n - 1, for any range. The cost is that of full groups.
  void (*words)(std::uint32_t* out, RandomKey key, std::int64_t first, std::int64_t n);
  // uniform: in [0, 1), exact. normal: by Box and Muller, rounded by operation; ln, sine and cosine have errors of 1, 3
  // and 3 units in the last place. first must be a multiple of random_group.
  void (*uniform)(T* out, RandomKey key, std::int64_t first, std::int64_t n);
  void (*normal)(T* out, RandomKey key, std::int64_t first, std::int64_t n);
  // y[i] = word <= limit ? 0 : x[i] * scale, for elements first + i; y may be x. first is a multiple of random_group.
  void (*dropout)(T* y, const T* x, RandomKey key, std::int64_t first, std::int64_t n, std::uint32_t limit, T scale);
};

template <class IsaTag, class T>
const Random<T>& random_table();

template <class T>
const Random<T>& random() {
  return FIT_KERNELS(random_table, T);
}

}  // namespace fit::kernels
