#include "attention/visibility.hpp"

namespace fit::kernels {

std::int64_t Visibility::pairs() const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < Sq; ++i) sum += range(i).end - range(i).first;
  return sum;
}

bool Visibility::fully_masked(std::int64_t b, std::int64_t h, std::int64_t i) const {
  const Interval keys = range(i);
  for (std::int64_t j = keys.first / tile_size * tile_size; j < keys.end; j += tile_size)
    if (row(b, h, i, j) != 0) return false;
  return true;
}

}  // namespace fit::kernels
