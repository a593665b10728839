#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/simd/isa.hpp"

// Counter-based random numbers (Philox 4x32-10; Salmon, Moraes, Dror and Shaw 2011), straight into memory.
//
// Every element i of a call has a 32-bit word of its own, which depends on (seed, call, i) alone. 64 elements form a
// group, for which 16 blocks of four words are computed side by side: element i belongs to block
// 16 (i / 64) + i % 32 / 2 and gets its word 2 (i % 64 / 32) + i % 2 (see detail::philox()). What takes 64 bits uses
// the words of elements 2i (low) and 2i + 1.
namespace fit::kernels {

struct RandomKey {
  std::uint64_t seed, call;
};

constexpr std::int64_t random_group = 64;

inline namespace FIT_ISA_NAMESPACE {
/// An element is dropped with probability p: where its word <= drop_limit(p). Every op that drops elements decides so,
/// so that a fused kernel and its composed form drop the same ones. 0 < p <= 1.
inline std::uint32_t drop_limit(double p) {
  return static_cast<std::uint32_t>(std::max(std::round(p * 0x1p32) - 1, 0.0));
}
/// What the survivors are multiplied by: 1 / (1 - p).
inline double keep_scale(double p) { return p < 1 ? 1 / (1 - p) : 0; }
}  // namespace FIT_ISA_NAMESPACE

template <class T>
struct Random {
  // The words of elements first … first + n - 1. Any range may be asked for: rows of a tile, say. It costs whole
  // groups.
  void (*words)(std::uint32_t* out, RandomKey key, std::int64_t first, std::int64_t n);
  // Uniform in [0, 1), exact; and normal by Box and Muller, rounded by operation, with ln 1, sine and cosine 3 units in
  // the last place. first must be a multiple of random_group.
  void (*uniform)(T* out, RandomKey key, std::int64_t first, std::int64_t n);
  void (*normal)(T* out, RandomKey key, std::int64_t first, std::int64_t n);
  // y[i] = word <= limit ? 0 : x[i] * scale, for elements first + i; y may be x. first: a multiple of random_group.
  void (*dropout)(T* y, const T* x, RandomKey key, std::int64_t first, std::int64_t n, std::uint32_t limit, T scale);
};

template <class IsaTag, class T>
const Random<T>& random_table();

template <class T>
const Random<T>& random() {
  return FIT_KERNELS(random_table, T);
}

}  // namespace fit::kernels
