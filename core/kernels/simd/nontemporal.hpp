#pragma once
#include <cstdint>

#include "kernels/simd/isa.hpp"

namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// Whether a result is too large to be found in the caches again once it is complete. Stored past them it costs one
// pass over memory, not the two of a store that reads what it replaces.
template <class T>
bool stores_nontemporal(const T* to, std::int64_t rows, std::int64_t n) {
  constexpr std::int64_t large = 8 << 20, line = 64;  // bytes
  const auto row = n * static_cast<std::int64_t>(sizeof(T));
  return rows * row >= large && row % line == 0 && reinterpret_cast<std::uintptr_t>(to) % line == 0;
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
