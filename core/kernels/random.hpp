#pragma once
#include <cstdint>

#include "fit/detail/random_key.hpp"
#include "kernels/simd/isa.hpp"

// Counter-based random numbers (Philox 4x32-10; Salmon, Moraes, Dror and Shaw 2011), written directly to memory.
//
// Each element i of a call has its own 32-bit word, which depends on (seed, call, i) only. 64 elements form a group: 16
// blocks of four words, computed side by side. Element i gets word 2 (i % 64 / 32) + i % 2 of block 16 (i / 64) + i %
// 32 / 2 (see detail::philox()). 64-bit numbers use the words of elements 2i (low) and 2i + 1.
namespace fit::kernels {

using detail::RandomKey;

constexpr std::int64_t random_group = 64;

/// What a call drops: each element with probability p. The others are multiplied by 1 / (1 - p). All ops with dropout
/// use this, so that a fused kernel and its decomposition drop the same elements.
struct Dropout {
  double p = 0;             // 0 … 1; 0: nothing is dropped
  RandomKey key{};          // with an element's number decides whether it is dropped
  std::int64_t first = 0;   // the number of the first element
  std::uint32_t limit = 0;  // with p > 0 an element is dropped if its word <= limit
  double kept = 1;          // the factor of the others

  Dropout() = default;
  explicit Dropout(double p, RandomKey key = {}, std::int64_t first = 0);
};

template <class T>
struct Random {
  // The words of elements first … first + n - 1, for any range. The cost is that of full groups.
  void (*words)(std::uint32_t* out, RandomKey key, std::int64_t first, std::int64_t n);
  // uniform: in [0, 1), exact. normal: by Box and Muller, rounded by operation; ln, sine and cosine have errors of 1, 3
  // and 3 units in the last place. first must be a multiple of random_group.
  void (*uniform)(T* out, RandomKey key, std::int64_t first, std::int64_t n);
  void (*normal)(T* out, RandomKey key, std::int64_t first, std::int64_t n);
  // y[i] = word <= limit ? 0 : x[i] * kept, for elements first + i; y may be x. first is a multiple of random_group.
  void (*dropout)(T* y, const T* x, const Dropout& d, std::int64_t first, std::int64_t n);
};

template <class IsaTag, class T>
const Random<T>& random_table();

template <class T>
const Random<T>& random() {
  return FIT_KERNELS(random_table, T);
}

}  // namespace fit::kernels
