// The tiles that a mask leaves.
#include "attention/plan.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "fit/parallel.hpp"

namespace fit::detail {
namespace {

using kernels::Interval;
using kernels::tile_size;
using kernels::TileTable;
using kernels::Visibility;

using TileBits = std::array<std::uint64_t, tile_size>;

struct Hash {
  std::size_t operator()(const TileBits& bits) const {
    std::uint64_t h = 0;
    for (const std::uint64_t row : bits) h = (h ^ row) * 0x9e3779b97f4a7c15u, h ^= h >> 32;
    return static_cast<std::size_t>(h);
  }
};

// Numbers different tiles in the order in which they come.
class Numbering {
 public:
  std::int64_t number(const TileBits& bits) {
    const auto [at, added] = numbers_.emplace(bits, static_cast<std::int64_t>(all.size()));
    if (added) all.push_back(bits);
    return at->second;
  }
  std::vector<TileBits> all;

 private:
  std::unordered_map<TileBits, std::int64_t, Hash> numbers_;
};

// n <= 64 bools as bits.
std::uint64_t packed(const bool* x, std::int64_t n) {
  std::uint64_t bits = 0;
  std::int64_t j = 0;
  for (; j + 8 <= n; j += 8) {  // eight bytes 0 or 1: the product collects them in its highest byte
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, x + j, 8);
    bits |= (bytes * 0x0102040810204080u >> 56) << j;
  }
  for (; j < n; ++j) bits |= std::uint64_t{x[j]} << j;
  return bits;
}

}  // namespace

TilePlan plan_tiles(const Visibility& v, std::int64_t B, std::int64_t H) {
  const std::int64_t columns = (v.Sk + tile_size - 1) / tile_size;
  const bool one_row = v.mask.row == 0;  // one row of tiles serves all queries
  const std::int64_t rows = one_row ? 1 : (v.Sq + tile_size - 1) / tile_size;
  const std::int64_t heads = v.mask.head == 0 ? 1 : H, elements = v.mask.batch == 0 ? 1 : B;
  TilePlan plan{Tensor::empty({elements, heads, rows, columns}, int64), {}};
  std::int64_t* const tiles = plan.tiles.fresh<std::int64_t>();
  std::fill_n(tiles, plan.tiles.numel(), TileTable::empty);
  std::vector<Numbering> partial(static_cast<std::size_t>(elements * heads * rows));
  const auto plan_row = [&](std::int64_t r) {
    const std::int64_t b = r / (heads * rows), h = r / rows % heads, i0 = r % rows * tile_size;
    const std::int64_t count = one_row ? 1 : std::min(tile_size, v.Sq - i0);
    const Interval keys = one_row ? Interval{0, v.Sk} : v.keys_of({i0, i0 + count});
    for (std::int64_t j0 = keys.first / tile_size * tile_size; j0 < keys.end; j0 += tile_size) {
      const std::int64_t n = std::min(tile_size, v.Sk - j0);
      const std::uint64_t all = Visibility::bits_below(n);
      TileBits bits{};
      std::uint64_t any = 0, every = all;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::uint64_t row = packed(v.mask.at(b, h, i0 + i) + j0, n);
        bits[static_cast<std::size_t>(i)] = row;
        any |= row, every &= row;
      }
      if (one_row) bits.fill(bits[0]);
      tiles[r * columns + j0 / tile_size] = any == 0       ? TileTable::empty
                                            : every == all ? TileTable::full
                                                           : partial[static_cast<std::size_t>(r)].number(bits);
    }
  };
  const std::int64_t grain = 1 + (std::int64_t{1} << 16) / (tile_size * v.Sk + 1);
  parallel_for(elements * heads * rows, grain, dynamic_schedule, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) plan_row(r);
  });
  Numbering numbering;
  for (std::int64_t r = 0; r < elements * heads * rows; ++r) {
    Numbering& own = partial[static_cast<std::size_t>(r)];
    std::vector<std::int64_t> numbers;
    for (const TileBits& bits : own.all) numbers.push_back(numbering.number(bits));
    for (std::int64_t c = 0; c < columns; ++c)
      if (std::int64_t& tile = tiles[r * columns + c]; tile >= 0) tile = numbers[static_cast<std::size_t>(tile)];
    own = {};
  }
  plan.bits = Tensor::empty({static_cast<std::int64_t>(numbering.all.size()), tile_size}, int64);
  if (!numbering.all.empty())
    std::memcpy(plan.bits.fresh<std::int64_t>(), numbering.all.data(), numbering.all.size() * sizeof(TileBits));
  return plan;
}

TileTable TilePlan::table() const {
  if (!defined()) return {};
  const Shape& s = tiles.shape();
  const auto stride = [&](int axis, std::int64_t step) { return s[axis] == 1 ? 0 : step; };
  return {{tiles.data<std::int64_t>().data(), stride(0, s[1] * s[2] * s[3]), stride(1, s[2] * s[3]), stride(2, s[3])},
          reinterpret_cast<const std::uint64_t*>(bits.data<std::int64_t>().data())};
}

}  // namespace fit::detail
