#pragma once
#include <cstdint>
#include <vector>

#include "fit/tensor.hpp"

namespace fit::plot {

// Why a query does not see a key. The scripts of pages know the same numbers.
enum Hidden : std::uint8_t {
  visible,
  future,          // it comes later, and attention is causal
  padded,          // the mask shows it to no query
  masked,          // the mask shows it to others
  outside_window,  // it is too far back
};

// All pairs of query and key, [heads, rows, cols]; heads is 1 if all are alike.
struct Visibility {
  std::int64_t heads = 1, rows = 0, cols = 0;
  std::vector<std::uint8_t> why;
  Hidden at(std::int64_t h, std::int64_t q, std::int64_t k) const {
    return static_cast<Hidden>(why[static_cast<std::size_t>((h * rows + q) * cols + k)]);
  }
};

// mask is boolean [H|1, 1|Sq, Sk], or undefined; window 0 is none. The last query stands at the last key.
Visibility visibility(const Tensor& mask, bool causal, std::int64_t window, std::int64_t queries, std::int64_t keys);

}  // namespace fit::plot
