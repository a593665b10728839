#include "attention/visibility.hpp"

#include <algorithm>

namespace fit::kernels {

std::int64_t Visibility::pairs() const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < Sq; ++i) sum += range(i).end - range(i).first;
  return sum;
}

TileState Visibility::tile(std::int64_t b, std::int64_t h, Interval queries, Interval keys) const {
  if (queries.first >= queries.end || keys.first >= keys.end) return TileState::empty;
  const Interval first = range(queries.first), last = range(queries.end - 1);
  if (last.end <= keys.first || first.first >= keys.end) return TileState::empty;
  const bool masked = mask.data || table.tiles.data;
  bool all = last.first <= keys.first && first.end >= keys.end, any = !masked;
  for (std::int64_t i = queries.first; masked && i < queries.end && (all || !any); ++i) {
    const Interval left = range(i);
    for (std::int64_t j = std::max(left.first, keys.first); j < std::min(left.end, keys.end); ++j) {
      if (j % tile_size == 0 && skips(b, h, i, j)) {
        all = false;
        j += tile_size - 1;
        continue;
      }
      const bool attends = unmasked(b, h, i, j);
      any = any || attends, all = all && attends;
    }
  }
  return !any ? TileState::empty : all ? TileState::full : TileState::partial;
}

}  // namespace fit::kernels
