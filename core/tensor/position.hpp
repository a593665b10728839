#pragma once
#include <cstdint>
#include <string>

#include "fit/base/shape.hpp"

namespace fit {

/// The index of element i of a shape, for messages: "[1, 2]".
inline std::string position(const Shape& shape, std::int64_t i) {
  std::int64_t at[Shape::max_rank];
  for (int a = shape.rank() - 1; a >= 0; --a) {
    at[a] = i % shape[a];
    i /= shape[a];
  }
  return Shape(at, shape.rank()).str();
}

}  // namespace fit
