#pragma once
#include "fit/base/shape.hpp"
#include "fit/detail/scoped.hpp"
#include "fit/detail/thread_state.hpp"

namespace fit {

/// A guard: while it lives, this thread computes suitable operations in low precision, the others in float32:
///
///     Tensor loss;
///     {
///       const Autocast guard(bfloat16);
///       loss = model.loss(ids, targets);
///     }
///     loss.backward();
///
/// All forms of matmul(), linear(), einsum(), attention and convolutions round float32 operands to bfloat16, accumulate
/// in float32 and return bfloat16. Softmax, norms, losses, sums, logarithms and exponentials also accept bfloat16, but
/// compute in and return float32. All other operations compute in the types of their operands. float64 does not change.
/// docs/low_precision.md has the table.
///
/// Parameters and their gradients stay float32: the gradient of a leaf is never rounded to 16 bits. Matrix products
/// round parameters while they read them. Where it is cheaper, they use a bfloat16 copy, made once for each version.
/// The graph keeps bfloat16 for backward() where the operands are bfloat16. backward() uses the precision of the
/// forward pass, with or without a guard.
class Autocast : public detail::Scoped<DType> {
 public:
  /// dtype is bfloat16; or float32, which switches off an outer guard. Throws Error for another type.
  [[nodiscard]] explicit Autocast(DType dtype);
};

/// The type in which this thread computes matrix products of float32: bfloat16 under Autocast, otherwise float32.
inline DType autocast_dtype() { return detail::thread_state.autocast; }

}  // namespace fit
