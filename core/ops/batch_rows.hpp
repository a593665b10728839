#pragma once
#include <cstdint>

#include "fit/shape.hpp"

namespace fit {

/// Which rows of a larger batch this thread computes: dropout draws by an element's number in the larger batch.
struct BatchRows {
  std::int64_t first = 0, count = 0;  // 0: the batch is not divided

  /// The number of the first element of a tensor of this shape, whose first axis runs over the rows, or over a whole
  /// number of parts of each. One that doesn't is not divided.
  std::int64_t first_element(const Shape& shape) const {
    return count > 0 && shape.rank() > 0 && shape[0] % count == 0 ? first * (shape.numel() / count) : 0;
  }
};

inline thread_local BatchRows batch_rows;

}  // namespace fit
