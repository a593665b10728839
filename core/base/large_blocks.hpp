#pragma once
#include <cstddef>
#include <cstdint>

#include "fit/base/memory.hpp"

// Blocks of more than a megabyte. A freed block joins the free memory beside it, and a request takes a part of the
// smallest free range that is large enough. So the memory of many small tensors can hold a large one later, and a
// program takes little more from the system than it uses at one moment.
namespace fit::detail {

/// A block of this size, a multiple of a page. Null if the system has no memory left.
void* acquire_large(std::size_t bytes) noexcept;

/// Keeps a block for reuse, or returns it to the system if more than `limit` bytes would then be free.
void release_large(void* block, std::size_t bytes, std::int64_t limit) noexcept;

/// Returns all free memory to the system.
void drop_large() noexcept;

MemoryStats large_stats();

}  // namespace fit::detail
