// Exercise grouped: grouped heads share keys.
//
// k is [B, G, n, d]; queries have H heads, H a multiple of G. Return [B, H, n, d]: head h uses group h / (H / G).
#include "exercises/exercises.hpp"

using namespace fit;

Tensor repeat_groups(const Tensor& k, std::int64_t heads) { return repeat(k, {1, heads / k.size(1), 1, 1}); }

EXERCISE(grouped, repeat_groups)
