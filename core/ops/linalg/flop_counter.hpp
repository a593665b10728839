#pragma once
#include <cstdint>

#include "graph/observers.hpp"

// Reports the floating-point operations of matrix products to the observers of this thread, forward and backward.
namespace fit::detail {

/// Reports `count` products of [m, k] and [k, n].
inline void count_product(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t count = 1) {
  if (thread_state.observed) notify_flops(2 * m * n * k * count);
}

}  // namespace fit::detail
