#pragma once
#include "attention/visibility.hpp"
#include "fit/tensor.hpp"

namespace fit::detail {

/// The TileTable of a call, in two tensors. It is made once, before the first pass. Equal tiles share their bits: a
/// regular pattern takes memory for a few tiles alone.
struct TilePlan {
  Tensor tiles;  // int64 [B|1, H|1, blocks of queries|1, blocks of keys]: see TileTable
  Tensor bits;   // int64 [tiles, queries of a tile]

  /// Undefined tensors if there is no mask.
  bool defined() const { return tiles.defined(); }
  kernels::TileTable table() const;
};

/// The pairs that v.mask leaves to the queries of H heads of B elements of the batch. Tiles in which causality and the
/// window leave nothing are empty.
TilePlan plan_tiles(const kernels::Visibility& v, std::int64_t B, std::int64_t H);

}  // namespace fit::detail
