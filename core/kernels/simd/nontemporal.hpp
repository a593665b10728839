#pragma once
#include <cstdint>

#include "kernels/simd/isa.hpp"

namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

constexpr std::int64_t cache_line = 64;  // bytes

// How many numbers lie from p to the next line of the cache.
template <class T>
std::int64_t to_next_line(const T* p) {
  const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(p) % cache_line);
  return past == 0 ? 0 : (cache_line - past) / static_cast<std::int64_t>(sizeof(T));
}

// Whether rows of n numbers from `to` on are whole lines of the cache.
template <class T>
bool is_whole_lines(const T* to, std::int64_t n) {
  return to_next_line(to) == 0 && to_next_line(to + n) == 0;
}

// Whether a result is too large to stay in the caches until it is complete. Then nontemporal stores save a pass over
// memory, because they don't read the old contents. Short rows must be whole lines: at a row's ends they bring nothing.
template <class T>
bool stores_nontemporal(const T* to, std::int64_t rows, std::int64_t n) {
  constexpr std::int64_t large = 8 << 20, long_row = 4096;  // bytes
  const auto row = n * static_cast<std::int64_t>(sizeof(T));
  return rows * row >= large && (row >= long_row || is_whole_lines(to, n));
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
