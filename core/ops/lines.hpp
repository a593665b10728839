#pragma once
#include <algorithm>
#include <cstdint>

#include "fit/parallel.hpp"
#include "fit/shape.hpp"

namespace fit {

/// The lines of a tensor along one axis: outer x n x inner.
struct Lines {
  std::int64_t outer = 1, n, inner = 1;

  Lines(const Shape& shape, int axis) : n(shape[axis]) {
    for (int a = 0; a < axis; ++a) outer *= shape[a];
    for (int a = axis + 1; a < shape.rank(); ++a) inner *= shape[a];
  }
  /// Distance of a line's elements.
  std::int64_t stride() const { return inner; }
};

/// Calls body(offset, count) in parallel for groups of lines that the kernels take at once: contiguous ones one after
/// another (stride 1), others side by side.
template <class Body>
void each_group_of_lines(const Lines& l, const Body& body) {
  constexpr std::int64_t work = 1 << 13;  // elements that are worth a thread: each costs an exponential or so
  const std::int64_t n = std::max<std::int64_t>(l.n, 1);
  if (l.inner == 1) {
    parallel_for(l.outer, std::max<std::int64_t>(1, work / n),
                 [&](std::int64_t begin, std::int64_t end) { body(begin * l.n, end - begin); });
    return;
  }
  constexpr std::int64_t width = 256;
  const std::int64_t groups = (l.inner + width - 1) / width;
  parallel_for(l.outer * groups, std::max<std::int64_t>(1, work / (n * std::min(width, l.inner))),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t task = begin; task < end; ++task) {
                   const std::int64_t first = task % groups * width;
                   body(task / groups * l.n * l.inner + first, std::min(width, l.inner - first));
                 }
               });
}

}  // namespace fit
