// Exercise heads: several heads by reshape.
//
// split: [B, n, H * d] to [B, H, n, d]; head h has the features h * d ... (h + 1) * d - 1. merge undoes it.
#include "exercises/exercises.hpp"

using namespace fit;

Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return x.reshape({x.size(0), heads, x.size(1), x.size(2) / heads});
}

Tensor merge_heads(const Tensor& x) { return x.reshape({x.size(0), x.size(2), -1}); }

EXERCISE(heads, split_heads, merge_heads)
