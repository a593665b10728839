#pragma once
#include <cstdint>

#include "kernels/simd/isa.hpp"

namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// Whether a result is too large to stay in the caches until it is complete. Then nontemporal stores save a pass over
// memory, because they don't read the old contents.
template <class T>
bool stores_nontemporal(const T* to, std::int64_t rows, std::int64_t n) {
  constexpr std::int64_t large = 8 << 20, line = 64;  // bytes
  const auto row = n * static_cast<std::int64_t>(sizeof(T));
  return rows * row >= large && row % line == 0 && reinterpret_cast<std::uintptr_t>(to) % line == 0;
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
