#pragma once
#include <optional>

#include "attention/score/expression.hpp"
#include "attention/visibility/visibility.hpp"
#include "fit/tensor/tensor.hpp"

// Masks as tensors, and their form in kernels: tiles.
namespace fit::detail {

/// (1|Sq, Sk), (B|1, 1|Sq, Sk) or (B|1, H|1, 1|Sq, Sk) as four axes. Returns the shape of a scalar for another rank.
Shape mask_axes(const Shape& s);

/// A mask or bias x, called `name` in errors, with four axes, for scores (B, H, Sq, Sk). Throws Error in the name of
/// `op` if it does not fit.
Tensor four_axes(const char* op, const char* name, const Tensor& x, const Shape& scores);

/// A mask of true (attend) and false, or of 1 and 0, for scores (B, H, Sq, Sk): boolean (B|1, H|1, 1|Sq, Sk). Throws
/// Error in the name of `op` for other numbers, and if it does not fit.
Tensor boolean_mask(const char* op, const Tensor& mask, const Shape& scores);

/// The pairs that a mask and an expression allow, in two tensors, which are undefined if there is neither. It is made
/// once, before the first pass. Equal tiles share their bits: a regular pattern takes memory for a few tiles alone.
struct TilePlan {
  Tensor tiles;  // int64 [B|1, H|1, blocks of queries|1, blocks of keys]: see Visibility
  Tensor bits;   // int64 [tiles, queries of a tile]

  /// Makes v read the tiles of this plan, which must outlive v.
  void apply(kernels::Visibility& v) const;
  /// The pairs as a mask, boolean (B|1, H|1, 1|Sq, Sk); undefined without tiles.
  Tensor mask(std::int64_t Sq, std::int64_t Sk) const;
};

/// The pairs that `mask` and `attends` allow, for H heads of B elements of the batch. Either may be absent. Tiles in
/// which causality and the window of v allow no pair are empty. An expression is first bounded over many tiles at once.
/// It is computed pair by pair only in tiles where the bounds give no single answer. Throws Error in the name of `op`
/// for a mask that is none, see boolean_mask().
TilePlan plan_tiles(const char* op, const kernels::Visibility& v, std::int64_t B, std::int64_t H, const Tensor& mask,
                    const std::optional<Expression>& attends = {});

/// The pairs that attend, boolean (B, H, Sq, Sk).
Tensor pairs_mask(const kernels::Visibility& v, std::int64_t B = 1, std::int64_t H = 1);

/// The elements of x (B|1, H|1, 1|Sq, Sk), repeated along axes of size 1. The data is null if x is undefined.
template <class T>
kernels::HeadView<T> view_scores(T* data, const Tensor& x) {
  if (!x.defined()) return {};
  const Shape& s = x.shape();
  const auto stride = [&](int axis, std::int64_t step) { return s[axis] == 1 ? 0 : step; };
  return {data, stride(0, s[1] * s[2] * s[3]), stride(1, s[2] * s[3]), stride(2, s[3])};
}

}  // namespace fit::detail
