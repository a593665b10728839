#include "attention/visibility/visibility.hpp"

#include <algorithm>

namespace fit::kernels {

std::int64_t Visibility::pairs() const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < Sq; ++i) sum += range(i).end - range(i).first;
  return sum;
}

TileState Visibility::state(std::int64_t b, std::int64_t h, Interval queries, Interval keys) const {
  if (queries.first >= queries.end || keys.first >= keys.end) return TileState::empty;
  const Interval first = range(queries.first), last = range(queries.end - 1);
  if (last.end <= keys.first || first.first >= keys.end) return TileState::empty;
  if (!tiles.data) return last.first <= keys.first && first.end >= keys.end ? TileState::full : TileState::partial;
  bool all = true, any = false;
  for (std::int64_t i = queries.first; i < queries.end; ++i)
    for (std::int64_t j = keys.first, end = 0; j < keys.end; j = end) {
      const std::int64_t start = j / tile_size * tile_size;
      end = std::min(start + tile_size, keys.end);
      const std::uint64_t asked = bits_below(end - start) & ~bits_below(j - start), attend = row(b, h, i, j) & asked;
      any = any || attend != 0, all = all && attend == asked;
      if (any && !all) return TileState::partial;
    }
  return any ? TileState::full : TileState::empty;
}

}  // namespace fit::kernels
