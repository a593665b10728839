#pragma once
#include <cstdint>

#include "kernels/simd/isa.hpp"

// Sorting of short rows. Exact.
namespace fit::kernels {

/// The keys that SortKernels::less() compares together: it reads and writes whole groups.
constexpr std::int64_t key_group = 64;

/// Key: std::uint32_t or std::uint64_t.
template <class Key>
struct SortKernels {
  /// count[i] = the number of keys below keys[i], for i < n. No branch depends on the keys.
  void (*less)(Key* count, const Key* keys, std::int64_t n);
};

template <class IsaTag, class Key>
const SortKernels<Key>& sort_table();

}  // namespace fit::kernels
