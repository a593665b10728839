#pragma once
#include <cstdint>
#include <vector>

#include "fit/tensor/tensor.hpp"

namespace fit::plot {

// Why a query does not attend to a key. The scripts of pages use the same numbers.
enum Masked : std::uint8_t {
  attends,
  future,          // the key comes later, and attention is causal
  padded,          // the mask masks the key for all queries
  masked,          // the mask masks the key for this query
  outside_window,  // the key is too far away
};

// All pairs of query and key, [heads, rows, cols]; heads is 1 if all are alike.
struct MaskedPairs {
  std::int64_t heads = 1, rows = 0, cols = 0;
  std::vector<std::uint8_t> why;
  Masked at(std::int64_t h, std::int64_t q, std::int64_t k) const {
    return static_cast<Masked>(why[(h * rows + q) * cols + k]);
  }
};

// mask is boolean [H|1, 1|Sq, Sk], or undefined; window 0 is none. The last query has the position of the last key.
MaskedPairs masked_pairs(const Tensor& mask, bool causal, std::int64_t window, std::int64_t queries, std::int64_t keys);

}  // namespace fit::plot
