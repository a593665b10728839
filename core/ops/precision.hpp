#pragma once
#include "fit/autocast.hpp"
#include "fit/ops.hpp"

// Operations on bfloat16 that are computed in float32 as a whole.
namespace fit {

inline bool is_narrow(const Tensor& x) { return x.defined() && x.dtype() == bfloat16; }

/// bfloat16 as float32; the gradient flows through. What is undefined stays so.
inline Tensor widened(const Tensor& x) { return is_narrow(x) ? x.to(float32) : x; }

/// The same under Autocast alone: the operand of an operation that works on bfloat16 by itself, and then gives float32.
inline Tensor precise(const Tensor& x) { return autocast_dtype() == bfloat16 ? widened(x) : x; }

/// What float32 has given for bfloat16 operands: rounded once. With Precision::kept Autocast leaves it in float32, as
/// for softmax, norms, losses, sums, logarithms and exponentials.
enum class Precision { rounded, kept };
inline Tensor narrowed(const Tensor& y, Precision p = Precision::kept) {
  if (p == Precision::kept && autocast_dtype() == bfloat16) return y;
  return y.dtype() == float32 ? y.to(bfloat16) : y;
}

}  // namespace fit
