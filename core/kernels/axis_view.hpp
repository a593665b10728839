#pragma once
#include <cstdint>

#include "fit/base/shape.hpp"

namespace fit::kernels {

/// Views an array as [outer, n, inner] along one axis of size n. A scalar has one axis, of size 1.
struct AxisView {
  std::int64_t outer = 1, n = 1, inner = 1;
  AxisView(const Shape& shape, int axis) : n(shape.rank() == 0 ? 1 : shape[axis]) {
    for (int a = 0; a < axis; ++a) outer *= shape[a];
    for (int a = axis + 1; a < shape.rank(); ++a) inner *= shape[a];
  }
  /// Distance of neighbours along the axis, in elements.
  std::int64_t stride() const { return inner; }
};

}  // namespace fit::kernels
