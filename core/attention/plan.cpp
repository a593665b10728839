// The tiles that a mask or an expression allows.
#include "attention/plan.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "attention/attend.hpp"
#include "fit/detail/scoped.hpp"
#include "fit/detail/thread_state.hpp"
#include "fit/ops.hpp"
#include "fit/parallel.hpp"

namespace fit::detail {
namespace {

using kernels::Interval;
using kernels::tile_size;
using kernels::TileTable;
using kernels::Visibility;

using TileBits = std::array<std::uint64_t, tile_size>;

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

void check_ranges(const char* op, const Expression& e, std::int64_t B, std::int64_t H, const Visibility& v,
                  DType dtype) {
  if (B * H * v.Sq * v.Sk > 0) e.methods->check(e, op, PairBounds(v, {0, B}, {0, H}, {0, v.Sq}, {0, v.Sk}), dtype);
}

TilePlan plan_tiles(const Visibility& v, std::int64_t B, std::int64_t H, const std::optional<Expression>& attends) {
  if (!v.mask.data && !attends) return {};
  const auto reads = [&](SymbolOp leaf) { return attends && attends->reads(leaf); };
  const std::int64_t columns = (v.Sk + tile_size - 1) / tile_size;
  const bool one_row = v.mask.row == 0 && !reads(SymbolOp::query) && !reads(SymbolOp::row);  // serves all queries
  const std::int64_t rows = one_row ? 1 : (v.Sq + tile_size - 1) / tile_size;
  const std::int64_t heads = v.mask.head == 0 && !reads(SymbolOp::head) ? 1 : H;
  const std::int64_t elements = v.mask.batch == 0 && !reads(SymbolOp::batch) ? 1 : B;
  TilePlan plan{Tensor::empty({elements, heads, rows, columns}, int64), {}};
  std::int64_t* const tiles = plan.tiles.fresh<std::int64_t>();
  std::fill_n(tiles, plan.tiles.numel(), TileTable::empty);
  std::map<TileBits, std::int64_t> numbers;  // of different tiles, from 0 on in the order in which threads find them
  std::mutex mutex;
  const auto plan_row = [&](std::int64_t r) {
    const std::int64_t b = r / (heads * rows), h = r / rows % heads, i0 = r % rows * tile_size;
    const std::int64_t count = one_row ? 1 : std::min(tile_size, v.Sq - i0);
    const Interval range = one_row ? Interval{0, v.Sk} : v.keys_of({i0, i0 + count});
    // The number of a tile. Neighbours are often equal: the last one needs no lock.
    TileBits last{};
    std::int64_t last_number = -1;
    const auto number = [&](const TileBits& bits) {
      if (last_number >= 0 && bits == last) return last_number;
      last = bits;
      const std::lock_guard lock(mutex);
      return last_number = numbers.try_emplace(bits, static_cast<std::int64_t>(numbers.size())).first->second;
    };
    // The tile of key j0. by_pairs: the expression is computed for each pair.
    const auto tile_of = [&](std::int64_t j0, bool by_pairs) {
      const std::int64_t n = std::min(tile_size, v.Sk - j0);
      const std::uint64_t all = Visibility::bits_below(n);
      const Tensor answers = by_pairs ? evaluate_mask(*attends, {1, 1, count, n}, {b, h, i0, j0}) : Tensor();
      TileBits bits{};
      std::uint64_t any = 0, every = all;
      for (std::int64_t i = 0; i < count; ++i) {
        std::uint64_t row = v.mask.data ? packed(v.mask.at(b, h, i0 + i) + j0, n) : all;
        if (by_pairs) row &= packed(answers.data<bool>().data() + i * n, n);
        bits[static_cast<std::size_t>(i)] = row;
        any |= row, every &= row;
      }
      if (one_row) bits.fill(bits[0]);
      return any == 0 ? TileTable::empty : every == all ? TileTable::full : number(bits);
    };
    // Fills the tiles of some keys. If the expression has no single answer for them, fills each half of the tiles.
    const auto fill = [&](const auto& self, Interval keys) -> void {
      Bounds answer{1, 1};
      if (attends) {
        const PairBounds pairs(v, {b, b + 1}, {h, h + 1}, {i0, one_row ? v.Sq : i0 + count}, keys);
        answer = pairs.empty() ? Bounds{} : attends->methods->bounds(*attends, pairs).back();
      }
      const std::int64_t blocks = (keys.end - keys.first + tile_size - 1) / tile_size;
      if (!answer.single() && blocks > 1) {
        const std::int64_t middle = keys.first + blocks / 2 * tile_size;
        self(self, {keys.first, middle});
        return self(self, {middle, keys.end});
      }
      if (answer.single() && answer.low == 0) return;
      for (std::int64_t j0 = keys.first; j0 < keys.end; j0 += tile_size)
        tiles[r * columns + j0 / tile_size] =
            answer.single() && !v.mask.data ? TileTable::full : tile_of(j0, !answer.single());
    };
    const std::int64_t first = range.first / tile_size * tile_size;
    if (first < range.end) fill(fill, {first, range.end});
  };
  const std::int64_t grain = 1 + (std::int64_t{1} << 16) / (tile_size * v.Sk + 1);
  // The operations of an expression are not recorded, and observers do not see them.
  const NoGrad no_grad;
  const Scoped<ObserverLink*> unobserved(thread_state.observed, nullptr);
  parallel_for(elements * heads * rows, grain, dynamic_schedule, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) plan_row(r);
  });
  plan.bits = Tensor::empty({static_cast<std::int64_t>(numbers.size()), tile_size}, int64);
  std::int64_t* const to = plan.bits.fresh<std::int64_t>();
  for (const auto& [bits, n] : numbers) std::memcpy(to + n * tile_size, bits.data(), sizeof bits);
  return plan;
}

Tensor TilePlan::mask(std::int64_t Sq, std::int64_t Sk) const {
  if (!tiles.defined()) return {};
  Visibility v;
  v.Sq = tiles.size(2) == 1 && Sq > tile_size ? 1 : Sq, v.Sk = Sk, v.table = table();
  return pairs_mask(v, tiles.size(0), tiles.size(1));
}

TileTable TilePlan::table() const {
  if (!tiles.defined()) return {};
  return {view_scores(tiles.data<std::int64_t>().data(), tiles),
          reinterpret_cast<const std::uint64_t*>(bits.data<std::int64_t>().data())};
}

}  // namespace fit::detail
