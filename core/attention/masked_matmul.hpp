#pragma once
#include "fit/ops/ops.hpp"

// The products of attention over the pairs of query and key that attend. A masked pair is left out, not multiplied by
// 0: 0 * NaN is NaN. attends: boolean (B|1, H|1, 1|Sq, Sk), or undefined if all pairs attend. Each product is the
// adjoint of the other.
namespace fit::detail {

/// x y' [B, H, Sq, Sk] for x [B, H, Sq, D] and y [B, H, Sk, D]. Masked pairs have arbitrary values.
Tensor masked_qk(const Tensor& x, const Tensor& y, const Tensor& attends);

/// s y, or s' y, for s [B, H, Sq, Sk]. Finite elements of s must be 0 for masked pairs. This is a plain product, but a
/// head with a result that is not finite is computed again, pair by pair.
Tensor masked_pv(const Tensor& s, Transpose transposed, const Tensor& y, const Tensor& attends);

}  // namespace fit::detail
