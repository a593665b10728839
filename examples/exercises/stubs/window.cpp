// Exercise window: a causal sliding window.
//
// A boolean mask [n, n]: query i attends to the keys i - w + 1 ... i, so to at most w keys.
#include "exercises/exercises.hpp"

using namespace fit;

Tensor window_mask(std::int64_t n, std::int64_t w) { return tril(ones({n, n})) != 0; }

EXERCISE(window, window_mask)
