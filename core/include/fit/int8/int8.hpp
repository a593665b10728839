#pragma once
#include <cstdint>
#include <variant>

#include "fit/tensor/tensor.hpp"

/// Weight matrices in 8 bits, for inference: a quarter of the memory and of the read time of float32. nn::quantize_()
/// (fit/nn/layers/quantize.hpp) converts those of a model.
namespace fit {

namespace detail {
struct Int8Functions;
}

/// How linear() reads x beside int8 weights.
enum class Int8Activations {
  floating,  ///< As it is: the weights alone are rounded.
  rounded,   ///< Rounded to int8, too: whole numbers are multiplied.
};

/// A matrix [n, k] of int8 numbers, and a scale for each group of neighbours in a row. Element (i, j) means values[i,
/// j] * scale[i, j / group_size()], in the scale's type. It requires no gradient.
class Int8Matrix {
 public:
  /// values [n, k] int8; scale [n, groups], floating. A row has one group, or groups of 32, 64 or 128 elements (the
  /// last may be shorter). Throws Error for other types and shapes, and if the scale requires a gradient.
  Int8Matrix(Tensor values, Tensor scale, Int8Activations activations = Int8Activations::floating);
  /// The number of elements that share one scale: k if a row has one scale.
  std::int64_t group_size() const;

  const Tensor& values() const { return values_; }              ///< [n, k], int8
  const Tensor& scale() const { return scale_; }                ///< [n, groups], floating
  Int8Activations activations() const { return activations_; }  ///< How linear() reads x.

 private:
  friend struct detail::Int8Functions;
  Tensor values_, scale_;  // private: their shapes must agree
  Int8Activations activations_;
  const detail::Int8Functions* functions_;  // for a Weight: a program that makes no Int8Matrix does not contain them
};

/// Quantizes w [n, k], floating. A group is 32, 64 or 128 neighbours in a row, or a full row if group_size is 0. Each
/// group is divided by its scale, max |w| / 127, and rounded to the nearest integer, ties to even. This is symmetric,
/// as torchao's Int8WeightOnlyConfig. Zeros stay zeros. The error of an element is at most half a scale. Throws Error
/// for another group size, and if an element is NaN or infinite.
Int8Matrix quantize(const Tensor& w, std::int64_t group_size = 0,
                    Int8Activations activations = Int8Activations::floating);
/// The floating matrix [n, k], in the scale's type.
Tensor dequantize(const Int8Matrix& w);

/// x w^T + bias, as linear() with dequantize(w): x [..., k] of the scale's type -> [..., n]; bias [n] or undefined.
/// Under Autocast the result is bfloat16. Up to four rows of x are multiplied by the int8 weights directly, in float32.
/// For more rows, blocks of weights are converted to float32, or to bfloat16 if x is bfloat16. x and bias get
/// gradients: dx = dy dequantize(w).
///
/// With Int8Activations::rounded, each row of x is rounded to int8 first, as quantize(x, group_size) does: a scale for
/// each group s, max |x| / 127. With the whole numbers X and W, y = bias + sum over s of x_scale[s] w_scale[s] (sum
/// over the group of X W). The sums of whole numbers are exact, so the result has the same bits on every processor and
/// in every mode. A group of x with NaN or infinity makes the row of y NaN. A group of numbers below 2^-100 counts as
/// zeros. The gradients are those of x as it is. A float64 x is not rounded.
Tensor linear(const Tensor& x, const Int8Matrix& w, const Tensor& bias = {});
/// Rows of the matrix, as embedding() with dequantize(table): ids [...] (int64, 0 … n - 1) -> [..., k].
Tensor embedding(const Int8Matrix& table, const Tensor& ids);

/// A weight for linear() and embedding(), in the type in which it is stored: the result of nn::Parameter::operand().
using Weight = std::variant<Tensor, Int8Matrix>;

/// linear() and embedding() of either type of weight. An Int8Matrix gets no gradient, so it ignores padding_idx.
Tensor linear(const Tensor& x, const Weight& weight, const Tensor& bias = {});
Tensor embedding(const Weight& table, const Tensor& ids, std::int64_t padding_idx = -1);

}  // namespace fit
