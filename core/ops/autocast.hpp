#pragma once
#include "fit/autocast.hpp"
#include "fit/tensor.hpp"

// The operands of products under Autocast.
namespace fit {

/// What a product of two types is computed in, and its result is: Autocast has bfloat16 in place of float32.
inline DType product_dtype(DType a, DType b) {
  const DType t = promote(a, b);
  return t == float32 ? autocast_dtype() : t;
}

/// Whether x is what is trained: a leaf, or one in another shape. A product takes it as it is, so that its gradient is
/// never bfloat16.
bool is_weight(const Tensor& x);

/// x as bfloat16, outside the graph. The copy of a float32 tensor is made once for each version: it is kept with the
/// elements, and dropped with them or when they change. Several threads may ask at once.
Tensor rounded(const Tensor& x);

/// What a product is part of.
enum class Use { inference, training, backward };

/// What a product computed in bfloat16 reads of x: bfloat16, or float32 that it rounds while it packs it. In training a
/// version of a weight is mostly read once forward and once backward. That moves fewer bytes without a copy, which is
/// made when a version is read forward a second time.
Tensor readable(const Tensor& x, Use use);

/// An operand of a product that is computed in bfloat16, as it is recorded: converted, but for weights and what wants
/// no gradient, which readable() reads. Products of one tensor keep one copy of it.
Tensor lowered(const Tensor& x);

}  // namespace fit
