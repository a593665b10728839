#pragma once
#include <cstdint>
#include <variant>

#include "fit/tensor/tensor.hpp"

/// Weight matrices in 8 or 4 bits, for inference: a quarter or a sixth of the memory and of the read time of float32.
/// nn::quantize_() (fit/nn/layers/quantize.hpp) converts those of a model.
namespace fit {

namespace detail {
struct Int8Functions;
}

/// How linear() reads x beside weights of 8 or 4 bits.
enum class Int8Activations {
  floating,  ///< As it is: the weights alone are rounded.
  rounded,   ///< Rounded to int8, too: whole numbers are multiplied.
};

/// A matrix [n, k] of whole numbers of 8 or 4 bits, and a scale for each group of neighbours in a row. Element (i, j)
/// means number (i, j) * scale[i, j / group_size()], in the scale's type. It requires no gradient.
///
/// 8 bits: number (i, j) is values[i, j]. 4 bits, as in ggml's Q4_0: -8 … 7, stored plus 8, and a scale for each 32.
/// Four bytes of a row hold eight neighbours, j = 0 … 7: number j is in byte j % 4, for j < 4 in its lower half, else
/// in its upper half.
class Int8Matrix {
 public:
  /// values [n, k] int8; scale [n, groups], floating. A row has one group, or groups of 32, 64 or 128 elements (the
  /// last may be shorter). With 4 bits, values is [n, k / 2] and scale [n, k / 32]; k must be a multiple of 32. Throws
  /// Error for other types, shapes and bits, and if the scale requires a gradient.
  Int8Matrix(Tensor values, Tensor scale, Int8Activations activations = Int8Activations::floating, int bits = 8);
  /// [n, k].
  Shape shape() const;
  /// The number of elements that share one scale: k if a row has one scale.
  std::int64_t group_size() const;

  const Tensor& values() const { return values_; }              ///< int8, [n, k] or for 4 bits [n, k / 2]
  const Tensor& scale() const { return scale_; }                ///< [n, groups], floating
  Int8Activations activations() const { return activations_; }  ///< How linear() reads x.
  int bits() const { return bits_; }                            ///< Of a number: 8 or 4.

 private:
  friend struct detail::Int8Functions;
  Tensor values_, scale_;  // private: their shapes must agree
  Int8Activations activations_;
  int bits_;
  const detail::Int8Functions* functions_;  // for a Weight: a program that makes no Int8Matrix does not contain them
};

/// Quantizes w [n, k], floating. A group is 32, 64 or 128 neighbours in a row, or a full row if group_size is 0. Each
/// group is divided by its scale, max |w| / 127, and rounded to the nearest integer, ties to even. This is symmetric,
/// as torchao's Int8WeightOnlyConfig. Zeros stay zeros. The error of an element is at most half a scale. Throws Error
/// for another group size, and if an element is NaN or infinite.
Int8Matrix quantize(const Tensor& w, std::int64_t group_size = 0,
                    Int8Activations activations = Int8Activations::floating);
/// Quantizes w [n, k], floating, to 4 bits, with a scale for each 32 neighbours in a row: -8 … 7 times the scale. Of
/// several roundings of a group x to numbers q, it takes that with the least sum of (x - scale q)^2. The candidates are
/// those of ggml's make_qx_quants(), q = round(-c x / m) for c = 7.1, 7.2 … 8.9, where m is the number of the largest
/// magnitude, each with the best scale, sum(x q) / sum(q^2). What Q4_0 of a GGUF file stands for stays as it is. Throws
/// Error if k is no multiple of 32, and if an element is NaN or infinite.
Int8Matrix quantize_int4(const Tensor& w, Int8Activations activations = Int8Activations::floating);
/// The floating matrix [n, k], in the scale's type.
Tensor dequantize(const Int8Matrix& w);

/// x w^T + bias, as linear() with dequantize(w): x [..., k] of the scale's type -> [..., n]; bias [n] or undefined.
/// Under Autocast the result is bfloat16. Up to four rows of x are multiplied by the weights directly, in float32.
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
