#pragma once
#include "ops/common/autocast.hpp"
#include "tensor/check.hpp"

// linear() up to its product, for weights of every kind.
namespace fit::detail {

/// The rows of x [..., in].
inline std::int64_t rows_in(const Shape& x) {
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < x.rank(); ++i) rows *= x[i];
  return rows;
}

struct LinearCall {
  DType t;  // of the product
  std::int64_t rows, in, out;
  Tensor read;  // x, as the node has it
  Tensor y;     // [..., out], not yet computed
};

/// Checks a call. x is floating, weight [out, in], and bias may be undefined. typed: has the type of the weight; errors
/// call it `name`.
inline LinearCall linear_call(const Tensor& x, const Shape& weight, const char* name, const Tensor& typed,
                              const Tensor& bias) {
  constexpr const char* op = "linear";
  const DType t = product_dtype(x.dtype(), typed.dtype());
  const bool cast = autocast_dtype() == bfloat16 && t == bfloat16;  // then float32 operands are read as bfloat16
  if (!cast) check::same_dtype(op, "x", x, name, typed);
  if (weight.rank() != 2 || x.rank() < 1 || x.shape().back() != weight[1])
    check::fail(op, "x is ", x.shape(), ", weight is ", weight, ": x must be [..., in] and weight [out, in]");
  const std::int64_t in = weight[1], out = weight[0];
  if (bias.defined()) {
    if (!cast) check::same_dtype(op, "x", x, "bias", bias);
    check::shape(op, "bias", bias, Shape{out});
  }
  const Shape shape = x.shape().with(x.rank() - 1, out);
  return {t, rows_in(x.shape()), in, out, t == bfloat16 ? lowered(x) : x, Tensor::empty(shape, t)};
}

}  // namespace fit::detail
