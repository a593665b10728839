#pragma once
#include <algorithm>
#include <cstdint>

#include "fit/threads/parallel.hpp"

namespace fit {

/// How many numbers are computed together, so that their intermediate values stay in the L1 cache.
constexpr std::int64_t block_size = 1024;

/// Calls f(first, count) for the blocks of n numbers.
template <class F>
void each_block(std::int64_t n, const F& f) {
  parallel_for((n + block_size - 1) / block_size, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(i * block_size, std::min(block_size, n - i * block_size));
  });
}

}  // namespace fit
