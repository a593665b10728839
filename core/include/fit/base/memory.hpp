#pragma once
#include <cstddef>
#include <cstdint>

/// Buffers, tensors and graph nodes use one recycling cache: up to a megabyte, size classes with a free list for each
/// thread; above, free ranges of memory that all threads share. It has a limit in bytes. A training step that repeats
/// therefore allocates nothing after its first runs.
namespace fit {

/// The result of memory_stats().
struct MemoryStats {
  std::int64_t live_blocks = 0;    ///< blocks in use: buffers, tensor handles' shared parts, graph nodes
  std::int64_t live_bytes = 0;     ///< their bytes, rounded up to size classes or pages
  std::int64_t cached_bytes = 0;   ///< bytes kept for reuse
  std::int64_t system_allocs = 0;  ///< allocations from the system since the program began
};

/// Sums over all threads.
MemoryStats memory_stats();

/// Frees the cached blocks of the calling thread, and those that threads share or have passed to each other.
void empty_cache();

/// The maximum of bytes that each thread keeps for reuse (default 2 GiB), that all threads share, and that they pass to
/// each other.
void set_cache_limit(std::int64_t bytes);

namespace detail {

/// Sizes of blocks: multiples of 64 bytes up to 1024, then four for each power of two (at most a quarter is wasted),
/// and above a megabyte multiples of a page.
struct SizeClass {
  static constexpr int small = 16, count = small + 4 * 10;
  static constexpr std::size_t addressable = std::size_t{1} << 48;
  int index = 0;             // of the list of free blocks; `count` for large blocks, which are in none
  std::size_t capacity = 0;  // bytes
  bool large() const { return index == count; }
};

/// The smallest size of at least so many bytes.
constexpr SizeClass size_class(std::size_t bytes) {
  if (bytes <= std::size_t{64} * SizeClass::small) {
    const std::size_t lines = bytes == 0 ? 1 : (bytes + 63) / 64;
    return {static_cast<int>(lines) - 1, 64 * lines};
  }
  constexpr std::size_t page = 4096, largest = std::size_t{1} << 20;
  if (bytes > largest)
    return {SizeClass::count, bytes > SizeClass::addressable ? bytes : (bytes + page - 1) / page * page};
  const int log = 63 - __builtin_clzll(bytes - 1);  // 2^log < bytes <= 2^(log + 1), log >= 10
  const std::size_t quarter = std::size_t{1} << (log - 2), step = ((bytes - 1) >> (log - 2)) & 3;
  return {SizeClass::small + 4 * (log - 10) + static_cast<int>(step), 4 * quarter + (step + 1) * quarter};
}

/// A block of this size, 64-byte aligned, not zeroed.
void* acquire(SizeClass size);
void release(void* block, SizeClass size) noexcept;

}  // namespace detail
}  // namespace fit
