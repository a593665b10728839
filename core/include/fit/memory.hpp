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

/// A block of at least `bytes`, 64-byte aligned, not zeroed. `capacity` is what release() wants back.
void* acquire(std::size_t bytes, std::size_t& capacity);
void release(void* block, std::size_t capacity) noexcept;

}  // namespace detail
}  // namespace fit
