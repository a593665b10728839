#pragma once
#include <cstdint>

#include "fit/detail/thread_state.hpp"
#include "graph/observers.hpp"
#include "ops/attention.hpp"

// Floating-point operations of the products that this thread calls for, forwards and backwards: told to its observers.
namespace fit::detail {

/// `count` products of [m, k] and [k, n].
inline void count_product(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t count = 1) {
  if (thread_state.observed) tell_flops(2 * m * n * k * count);
}

/// Scores and their products with the values, for the pairs that causality and the window leave.
inline void count_attention(const AttentionCall& c) {
  if (!thread_state.observed) return;
  std::int64_t pairs = 0;
  for (std::int64_t i = 0; i < c.Sq; ++i) {
    const std::int64_t at = i + c.Sk - c.Sq;
    const std::int64_t end = c.causal ? (at + 1 < c.Sk ? at + 1 : c.Sk) : c.Sk;
    const std::int64_t begin = c.window > 0 && at + 1 > c.window ? at + 1 - c.window : 0;
    if (end > begin) pairs += end - begin;
  }
  tell_flops(2 * c.B * c.H * pairs * (c.D + c.Dv));
}

}  // namespace fit::detail
