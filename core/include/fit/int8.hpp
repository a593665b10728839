#pragma once
#include <cstdint>
#include <variant>

#include "fit/tensor.hpp"

/// Matrices of weights in 8 bits, for inference: a quarter of float32's memory, and of the time that reading it takes.
/// nn::quantize_() (fit/nn/quantize.hpp) turns those of a model into such.
namespace fit {

/// A matrix [n, k] of int8 numbers and a scale for each group of neighbours in a row: element (i, j) stands for
/// values[i, j] * scale[i, j / group_size()], of the scale's type. It wants no gradient.
class Int8Matrix {
 public:
  /// values [n, k] int8; scale [n, groups], floating, where groups of 32, 64 or 128 (the last of a row may be shorter)
  /// or one for a whole row make up k. Throws Error for other types and shapes, and for a scale that wants a gradient.
  Int8Matrix(Tensor values, Tensor scale);
  /// How many neighbours have one scale: k where a row has one.
  std::int64_t group_size() const;

  const Tensor& values() const { return values_; }  ///< [n, k], int8
  const Tensor& scale() const { return scale_; }    ///< [n, groups], floating

 private:
  Tensor values_, scale_;  // their shapes must agree
};

/// w [n, k], floating, in 8 bits. Each row, or each group of 32, 64 or 128 neighbours in a row, is divided by its
/// scale, its largest magnitude / 127, and rounded to the nearest whole number, of two as near the even one (symmetric,
/// as torchao's Int8WeightOnlyConfig). Zeros stay zeros. An element is off by half a scale at most. group_size 0 stands
/// for a whole row. Throws Error for another group size, and if an element is NaN or infinite.
Int8Matrix quantize(const Tensor& w, std::int64_t group_size = 0);
/// The matrix that it stands for, of the scale's type: [n, k].
Tensor dequantize(const Int8Matrix& w);

/// x w^T + bias, as linear() computes it with dequantize(w): x [..., k] of the scale's type -> [..., n]; bias [n] or
/// undefined. Under Autocast it gives bfloat16. Up to four rows of x are multiplied by the weights as they lie, in
/// float32; for more, blocks of weights become float32, or bfloat16 where x is. Its gradients are those by x and by
/// bias: dx = dy dequantize(w).
Tensor linear(const Tensor& x, const Int8Matrix& w, const Tensor& bias = {});
/// Rows of the matrix, as embedding() takes them from dequantize(table): ids [...] (int64, 0 … n - 1) -> [..., k].
Tensor embedding(const Int8Matrix& table, const Tensor& ids);

/// A weight as products and lookups take it, in whatever type it is stored: what nn::Parameter::operand() gives.
using Weight = std::variant<Tensor, Int8Matrix>;

/// linear() and embedding() with the Tensor or the Int8Matrix that the weight is. An Int8Matrix gets no gradient, so
/// that padding_idx says nothing there.
Tensor linear(const Tensor& x, const Weight& weight, const Tensor& bias = {});
Tensor embedding(const Weight& table, const Tensor& ids, std::int64_t padding_idx = -1);

}  // namespace fit
