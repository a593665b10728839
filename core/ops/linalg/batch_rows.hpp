#pragma once
#include <cstdint>

#include "fit/base/shape.hpp"

namespace fit {

/// The rows of a larger batch that this thread computes: dropout uses an element's number in the larger batch.
struct BatchRows {
  std::int64_t first = 0, count = 0;  // count 0: the batch is not split

  /// The number, in the larger batch, of the first element of a tensor. Its first axis must be the rows, or an integer
  /// number of parts of each row; otherwise the tensor is not split, and the number is 0.
  std::int64_t first_element(const Shape& shape) const {
    return count > 0 && shape.rank() > 0 && shape[0] % count == 0 ? first * (shape.numel() / count) : 0;
  }
};

inline thread_local BatchRows batch_rows;

}  // namespace fit
