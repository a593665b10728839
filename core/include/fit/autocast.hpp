#pragma once
#include <utility>

#include "fit/detail/thread_state.hpp"
#include "fit/shape.hpp"

namespace fit {

/// While one lives, this thread computes in low precision what bears it, and leaves the rest in float32:
///
///     Tensor loss;
///     {
///       const Autocast guard(bfloat16);
///       loss = model.loss(ids, targets);
///     }
///     loss.backward();
///
/// matmul() in all its forms, linear(), einsum(), attention and convolutions round operands of float32 to bfloat16,
/// accumulate in float32 and give bfloat16. Softmax, norms, losses, sums, logarithms and exponentials take bfloat16,
/// too, but compute and give float32. Everything else works in the types that it gets. float64 is left alone.
/// (docs/low_precision.md has the table.)
///
/// Parameters stay float32, and so do their gradients: those of a leaf are never rounded to 16 bits on the way.
/// Products round them while they read them, or make a copy in bfloat16, one for each version, where that is cheaper.
/// What is kept for backward() is bfloat16 where operands are. backward() works as forward did, whatever lives then.
class Autocast {
 public:
  /// bfloat16; or float32, which switches an outer one off. Throws Error for another type.
  explicit Autocast(DType dtype);
  ~Autocast() { detail::thread_state.autocast = before_; }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  DType before_;
};

/// What this thread computes products of float32 in: bfloat16 within an Autocast, else float32.
inline DType autocast_dtype() { return detail::thread_state.autocast; }

}  // namespace fit
