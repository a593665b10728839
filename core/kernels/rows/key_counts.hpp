#pragma once
#include <cstdint>

#include "kernels/simd/isa.hpp"

// The order of a few keys, by counting. Exact.
namespace fit::kernels {

/// KeyCounts::less() reads and writes whole groups of keys.
constexpr std::int64_t key_group = 64;

/// Key: std::uint32_t or std::uint64_t.
template <class Key>
struct KeyCounts {
  /// count[i] = the number of keys below keys[i], for i < n. No branch depends on the keys.
  void (*less)(Key* count, const Key* keys, std::int64_t n);
};

template <class IsaTag, class Key>
const KeyCounts<Key>& key_counts_table();

}  // namespace fit::kernels
