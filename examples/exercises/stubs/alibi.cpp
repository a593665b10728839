// Exercise alibi: ALiBi: a penalty on distance.
//
// [H, n, n]: -slope_h * (i - j) for query i and key j, with slope_h = 2^(-8 (h + 1) / H).
#include "exercises/exercises.hpp"

using namespace fit;

Tensor alibi_bias(std::int64_t heads, std::int64_t n) { return zeros({heads, n, n}); }

EXERCISE(alibi, alibi_bias)
