#pragma once
#include "fit/graph/autocast.hpp"
#include "fit/tensor/tensor.hpp"

// The operands of matrix products under Autocast.
namespace fit {

/// The type in which a matrix product of types a and b computes, and of its result. Autocast makes float32 bfloat16.
inline DType product_dtype(DType a, DType b) {
  const DType t = promote(a, b);
  return t == float32 ? autocast_dtype() : t;
}

/// Whether x is trained: a leaf, or the reshape of a leaf. A matrix product does not convert it first, so its gradient
/// is never bfloat16.
bool is_weight(const Tensor& x);

/// x as bfloat16, not recorded. A float32 tensor is converted once for each version: the copy is stored with the
/// elements, and freed with them or when they change. Thread-safe.
Tensor rounded(const Tensor& x);

/// Where a matrix product is used.
enum class Use { inference, training, backward };

/// The operand x of a product that computes in bfloat16: as bfloat16, or as float32, which packing rounds. Training
/// reads most versions of a weight once in forward and once in backward; this moves fewer bytes without a copy. So the
/// copy is made when a version is read for the second time in forward.
Tensor readable(const Tensor& x, Use use);

/// The recorded operand of a product that computes in bfloat16. It is converted, unless it is a weight or requires no
/// gradient; readable() then converts it. Several products of one tensor share one copy.
Tensor lowered(const Tensor& x);

}  // namespace fit
