#pragma once
#include "attention/expression.hpp"
#include "attention/visibility.hpp"
#include "fit/tensor.hpp"

namespace fit::detail {

/// The TileTable of a call, in two tensors, which are undefined if neither a mask nor an expression restricts the
/// pairs. It is made once, before the first pass. Equal tiles share their bits: a regular pattern takes memory for a
/// few tiles alone.
struct TilePlan {
  Tensor tiles;  // int64 [B|1, H|1, blocks of queries|1, blocks of keys]: see TileTable
  Tensor bits;   // int64 [tiles, queries of a tile]

  kernels::TileTable table() const;
  /// The pairs as a mask, boolean (B|1, H|1, 1|Sq, Sk); undefined without a table.
  Tensor mask(std::int64_t Sq, std::int64_t Sk) const;
};

/// The pairs that v.mask and `attends` allow, for H heads of B elements of the batch. Either may be absent. Tiles in
/// which causality and the window allow no pair are empty. An expression is first bounded over many tiles at once. It
/// is computed pair by pair only in tiles where the bounds give no single answer.
TilePlan plan_tiles(const kernels::Visibility& v, std::int64_t B, std::int64_t H,
                    const std::optional<Expression>& attends = {});

/// Throws Error in the name of `op` if an index of the expression leaves its table for a pair of the call, or if an
/// integer is not exact in `dtype`.
void check_ranges(const char* op, const Expression& e, std::int64_t B, std::int64_t H, const kernels::Visibility& v,
                  DType dtype = float64);

}  // namespace fit::detail
