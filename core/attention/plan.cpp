// Masks as tensors, and the tiles that a mask or an expression allows.
#include "attention/plan.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "fit/detail/scoped.hpp"
#include "fit/detail/thread_state.hpp"
#include "fit/ops/ops.hpp"
#include "fit/threads/parallel.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit::detail {

using kernels::Interval;
using kernels::tile_size;
using kernels::Visibility;

Shape mask_axes(const Shape& s) {
  if (s.rank() == 2) return {1, 1, s[0], s[1]};
  if (s.rank() == 3) return {s[0], 1, s[1], s[2]};
  return s.rank() == 4 ? s : Shape{};
}

Tensor four_axes(const char* op, const char* name, const Tensor& x, const Shape& scores) {
  const Shape four = mask_axes(x.shape());
  bool fits = four.rank() == 4 && four[3] == scores[3];
  for (int axis = 0; axis < 3 && fits; ++axis) fits = four[axis] == 1 || four[axis] == scores[axis];
  if (!fits)
    check::fail(op, "the ", name, " is ", x.shape(), ", the scores (B, H, Sq, Sk) are ", scores, ": the ", name,
                " must be (1|Sq, Sk), (B|1, 1|Sq, Sk) or (B|1, H|1, 1|Sq, Sk)",
                x.shape() == Shape{scores[0], scores[3]} ? "; unsqueeze(1) makes (B, 1, Sk) of a mask of padding" : "",
                four[3] == scores[1] && scores[1] > 1
                    ? "; the number of keys is H: if q, k and v are (B, S, H, D), transpose(x, 1, 2) them first"
                    : "");
  return x.rank() == 4 ? x : reshape(x, four);
}

namespace {

// Throws Error for a mask (Sq, Sk) with Sq = Sk = B that reads like one of padding, (B, S): each row is 1 up to some
// key and 0 behind (or the reverse), and a later row has an earlier end. As a mask (Sq, Sk), a later query would then
// attend to fewer keys than one before it.
void refuse_padding(const char* op, const Tensor& mask, const Shape& scores) {
  const std::int64_t n = scores[2];
  if (mask.rank() != 2 || mask.size(0) != n || n < 2 || scores[0] != n || scores[3] != n) return;
  const bool* const x = mask.data<bool>().data();
  for (const bool first : {true, false}) {  // the value that the row begins with
    bool falls = false;
    std::int64_t before = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const bool* const row = x + i * n;
      const std::int64_t end = std::find(row, row + n, !first) - row;
      if (std::find(row + end, row + n, first) != row + n) {
        falls = false;
        break;
      }
      falls |= end < before;
      before = end;
    }
    if (falls)
      check::fail(
          op, "the mask is ", mask.shape(), " and the scores (B, H, Sq, Sk) are ", scores,
          ": two axes are (Sq, Sk), but its rows look like padding, (B, S); give padding as unsqueeze(mask, 1), "
          "as create_padding_mask() makes it, and a mask of queries and keys as unsqueeze(mask, 0)");
  }
}

}  // namespace

Tensor boolean_mask(const char* op, const Tensor& mask, const Shape& scores) {
  if (mask.dtype() == boolean) {
    refuse_padding(op, mask, scores);
    return four_axes(op, "mask", mask, scores);
  }
  if (mask.requires_grad())
    check::fail(op, "the mask of shape ", mask.shape(),
                " wants a gradient: 1 and 0 are constants; what is to be learned is a bias");
  Tensor out = Tensor::empty(mask.shape(), boolean);
  bool* const to = out.fresh<bool>();
  dispatch(mask.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto from = mask.data<T>();
    for (std::int64_t i = 0; i < from.size(); ++i) {
      if (from[i] != T{0} && from[i] != T{1})
        check::fail(op, "the mask of shape ", mask.shape(), " has the value ", from[i], " at element ", i,
                    ": it must hold 1 (attend) and 0 (ignore); what is to be added to the scores is a bias");
      to[i] = from[i] == T{1};
    }
  });
  refuse_padding(op, out, scores);
  return four_axes(op, "mask", out, scores);
}

namespace {

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

// Different tiles, numbered from 0 on in the order in which threads find them.
class TileNumbers {
 public:
  std::int64_t of(const TileBits& bits) {
    const std::lock_guard lock(mutex_);
    return numbers_.try_emplace(bits, static_cast<std::int64_t>(numbers_.size())).first->second;
  }
  // int64 [tiles, queries of a tile]
  Tensor bits() const {
    Tensor all = Tensor::empty({static_cast<std::int64_t>(numbers_.size()), tile_size}, int64);
    std::int64_t* const to = all.fresh<std::int64_t>();
    for (const auto& [bits, n] : numbers_) std::memcpy(to + n * tile_size, bits.data(), sizeof bits);
    return all;
  }

 private:
  std::map<TileBits, std::int64_t> numbers_;
  std::mutex mutex_;
};

// The answers of a call's mask and expression, tile by tile.
class Tiles {
 public:
  // A row of tiles: some queries of element b and head h, from i0 on.
  struct Row {
    std::int64_t b, h;
    Interval queries;     // that are asked for their pairs: one, if one row of tiles serves all
    std::int64_t* tiles;  // [blocks of keys]
  };
  static constexpr std::int64_t unknown = -3;  // each pair must be asked

  // mask: boolean (B|1, H|1, 1|Sq, Sk), or undefined
  Tiles(const Visibility& v, std::int64_t B, std::int64_t H, const Tensor& mask,
        const std::optional<Expression>& attends)
      : v_(v), attends_(attends), mask_(view_scores(mask.defined() ? mask.data<bool>().data() : nullptr, mask)) {
    const auto reads = [&](SymbolOp leaf) { return attends && attends->reads(leaf); };
    one_row_ = mask_.row == 0 && !reads(SymbolOp::query) && !reads(SymbolOp::row);
    shape_ = {mask_.batch == 0 && !reads(SymbolOp::batch) ? 1 : B, mask_.head == 0 && !reads(SymbolOp::head) ? 1 : H,
              one_row_ ? 1 : (v.Sq + tile_size - 1) / tile_size, (v.Sk + tile_size - 1) / tile_size};
  }
  // [B|1, H|1, blocks of queries|1, blocks of keys]
  const Shape& shape() const { return shape_; }
  std::int64_t rows() const { return shape_[0] * shape_[1] * shape_[2]; }
  Row row(std::int64_t r, std::int64_t* tiles) const {
    const std::int64_t i0 = r % shape_[2] * tile_size;
    return {r / (shape_[1] * shape_[2]),
            r / shape_[2] % shape_[1],
            {i0, one_row_ ? 1 : std::min(i0 + tile_size, v_.Sq)},
            tiles + r * shape_[3]};
  }
  // The keys of the tiles in which causality and the window allow a pair, from the first key of a tile on.
  Interval keys_of(const Row& row) const {
    const Interval keys = one_row_ ? Interval{0, v_.Sk} : v_.keys_of(row.queries);
    return {keys.first / tile_size * tile_size, keys.end};
  }

  // Fills the tiles of some keys by bounds of the expression: full, empty or unknown. If the bounds give no single
  // answer, asks for each half of the tiles.
  void bound(const Row& row, Interval keys) const {
    Bounds answer{1, 1};
    if (attends_) {
      const Interval queries = one_row_ ? Interval{0, v_.Sq} : row.queries;
      const PairBounds pairs(v_, {row.b, row.b + 1}, {row.h, row.h + 1}, queries, keys);
      answer = pairs.empty() ? Bounds{} : attends_->methods->bounds(*attends_, pairs).back();
    }
    const std::int64_t first = keys.first / tile_size, blocks = (keys.end - keys.first + tile_size - 1) / tile_size;
    if (!answer.single() && blocks > 1) {
      const std::int64_t middle = keys.first + blocks / 2 * tile_size;
      bound(row, {keys.first, middle});
      return bound(row, {middle, keys.end});
    }
    const std::int64_t known = answer.low == 0 ? Visibility::empty_tile : Visibility::full_tile;
    std::fill_n(row.tiles + first, blocks, answer.single() ? known : unknown);
  }

  // What the mask, and the expression if the tile is unknown, say of the pairs of the tile of key j0: its number, or
  // that it is empty or full.
  std::int64_t tile(const Row& row, std::int64_t j0) {
    const bool by_pairs = row.tiles[j0 / tile_size] == unknown;
    const std::int64_t i0 = row.queries.first, count = row.queries.end - i0, n = std::min(tile_size, v_.Sk - j0);
    const std::uint64_t all = Visibility::bits_below(n);
    const Tensor answers = by_pairs ? evaluate_mask(*attends_, {1, 1, count, n}, {row.b, row.h, i0, j0}) : Tensor();
    TileBits bits{};
    std::uint64_t any = 0, every = all;
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint64_t attend = mask_.data ? packed(mask_.at(row.b, row.h, i0 + i) + j0, n) : all;
      if (by_pairs) attend &= packed(answers.data<bool>().data() + i * n, n);
      bits[static_cast<std::size_t>(i)] = attend;
      any |= attend, every &= attend;
    }
    if (one_row_) bits.fill(bits[0]);
    return any == 0 ? Visibility::empty_tile : every == all ? Visibility::full_tile : numbers_.of(bits);
  }
  bool asks(std::int64_t tile) const { return tile == unknown || (mask_.data && tile == Visibility::full_tile); }
  Tensor bits() const { return numbers_.bits(); }

 private:
  const Visibility& v_;
  const std::optional<Expression>& attends_;
  kernels::HeadView<const bool> mask_;
  bool one_row_;  // whether one row of tiles serves all queries
  Shape shape_;
  TileNumbers numbers_;
};

}  // namespace

TilePlan plan_tiles(const char* op, const Visibility& v, std::int64_t B, std::int64_t H, const Tensor& given,
                    const std::optional<Expression>& attends) {
  const Tensor mask = given.defined() ? boolean_mask(op, given, {B, H, v.Sq, v.Sk}) : Tensor();
  if ((!mask.defined() && !attends) || B * H * v.Sq * v.Sk == 0) return {};
  Tiles answers(v, B, H, mask, attends);
  Tensor tiles = Tensor::empty(answers.shape(), int64);
  std::int64_t* const to = tiles.fresh<std::int64_t>();
  std::fill_n(to, tiles.numel(), Visibility::empty_tile);
  const std::int64_t grain = 1 + (std::int64_t{1} << 16) / (tile_size * v.Sk + 1);
  // The operations of an expression are not recorded, and observers do not see them.
  const NoGrad no_grad;
  const Scoped<ObserverLink*> unobserved(thread_state.observed, nullptr);
  parallel_for(answers.rows(), grain, dynamic_schedule, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const Tiles::Row row = answers.row(r, to);
      const Interval keys = answers.keys_of(row);
      if (keys.first < keys.end) answers.bound(row, keys);
      for (std::int64_t j0 = keys.first; j0 < keys.end; j0 += tile_size)
        if (std::int64_t& tile = row.tiles[j0 / tile_size]; answers.asks(tile)) tile = answers.tile(row, j0);
    }
  });
  return {std::move(tiles), answers.bits()};
}

void TilePlan::apply(Visibility& v) const {
  if (!tiles.defined()) return;
  v.tiles = view_scores(tiles.data<std::int64_t>().data(), tiles);
  v.bits = reinterpret_cast<const std::uint64_t*>(bits.data<std::int64_t>().data());
}

Tensor TilePlan::mask(std::int64_t Sq, std::int64_t Sk) const {
  if (!tiles.defined()) return {};
  Visibility v{tiles.size(2) == 1 && Sq > tile_size ? 1 : Sq, Sk};
  apply(v);
  return pairs_mask(v, tiles.size(0), tiles.size(1));
}

Tensor pairs_mask(const Visibility& v, std::int64_t B, std::int64_t H) {
  Tensor mask = Tensor::empty({B, H, v.Sq, v.Sk}, boolean);
  bool* const to = mask.fresh<bool>();
  const std::int64_t grain = (std::int64_t{1} << 13) / (v.Sk + 1) + 1;
  parallel_for(B * H * v.Sq, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t j0 = 0; j0 < v.Sk; j0 += tile_size) {
        const std::uint64_t attend = v.row(r / v.Sq / H, r / v.Sq % H, r % v.Sq, j0);
        for (std::int64_t j = j0; j < std::min(j0 + tile_size, v.Sk); ++j) to[r * v.Sk + j] = attend >> (j - j0) & 1;
      }
  });
  return mask;
}

}  // namespace fit::detail
