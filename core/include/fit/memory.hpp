#pragma once
#include <cstddef>
#include <cstdint>

/// Buffers, tensors and graph nodes come from one recycling cache: size classes, a free list for each thread,
/// a cap in bytes. A step that repeats therefore allocates nothing once its buffers have been made.
namespace fit {

/// What memory_stats() counts.
struct MemoryStats {
  std::int64_t live_blocks = 0;    ///< blocks in use: buffers, tensor handles' shared parts, graph nodes
  std::int64_t live_bytes = 0;     ///< their bytes, rounded up to size classes
  std::int64_t cached_bytes = 0;   ///< bytes kept for reuse
  std::int64_t system_allocs = 0;  ///< requests passed on to the system since the program began
};

/// Sums over all threads.
MemoryStats memory_stats();

/// Gives back to the system what the calling thread has cached, and what threads have handed on to each other.
void empty_cache();

/// The most bytes that each thread keeps for reuse (2 GiB unless set), and that all hand on to each other.
void set_cache_limit(std::int64_t bytes);

namespace detail {

/// The sizes of blocks: multiples of 64 bytes up to 1024, then four to each doubling (at most a quarter is wasted).
struct SizeClass {
  static constexpr int small = 16, count = small + 4 * 38;
  int index = 0;             // of its list of free blocks
  std::size_t capacity = 0;  // bytes
};

/// The smallest that holds `bytes`. What is more than any machine can address has an index past the last.
constexpr SizeClass size_class(std::size_t bytes) {
  if (bytes <= std::size_t{64} * SizeClass::small) {
    const std::size_t lines = bytes == 0 ? 1 : (bytes + 63) / 64;
    return {static_cast<int>(lines) - 1, 64 * lines};
  }
  const int log = 63 - __builtin_clzll(bytes - 1);  // 2^log < bytes <= 2^(log + 1), log >= 10
  const std::size_t quarter = std::size_t{1} << (log - 2), step = ((bytes - 1) >> (log - 2)) & 3;
  return {SizeClass::small + 4 * (log - 10) + static_cast<int>(step), 4 * quarter + (step + 1) * quarter};
}

/// A block of that size, 64-byte aligned, not zeroed.
void* acquire(SizeClass size);
void release(void* block, SizeClass size) noexcept;

}  // namespace detail
}  // namespace fit
