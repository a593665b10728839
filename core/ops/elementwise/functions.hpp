#pragma once
#include "fit/ops/ops.hpp"
#include "kernels/function_list.hpp"

namespace fit::detail {

/// f(x; p)
Tensor apply(const kernels::Function& f, const Tensor& x, double p = 0);

/// Records y, which is f(x; p) computed elsewhere, as apply() does. For types in which f computes natively.
Tensor record_function(const kernels::Function& f, const Tensor& x, Tensor y, double p = 0);

/// f(linear(x, weight, bias)), as two operations of the graph. f is computed while a tile of the product is in the
/// cache; in bfloat16 only without a graph. Without a graph, the result of linear() is not stored.
Tensor apply_to_linear(const kernels::Function& f, const Tensor& x, const Tensor& weight, const Tensor& bias);

/// f of the result y [..., n] of a product. If `fused`, it is computed tile by tile while y is made.
class FunctionOfProduct {
 public:
  /// f may be null. With a graph, y is stored, too.
  FunctionOfProduct(const kernels::Function* f, bool fused, bool records, const Tensor& y) : f_(f) {
    if (f && fused) of_y_ = records ? Tensor::empty(y.shape(), y.dtype()) : y;
  }
  bool fused() const { return of_y_.defined(); }
  /// For kernels::TileDone: f of a complete tile of y.
  template <class T>
  auto tiles(const T* y, std::int64_t n) {
    T* const to = fused() ? of_y_.fresh<T>() : nullptr;
    return [=, forward = to ? kernels::function<T>(*f_).forward : nullptr](const auto& tile) {
      for (std::int64_t i = tile.row; to && i < tile.row + tile.rows; ++i)
        forward(to + i * n + tile.col, y + i * n + tile.col, tile.cols, T(0));
    };
  }
  /// f(y), or y if f is null. y is recorded already.
  Tensor operator()(const Tensor& y) const {
    return !f_ ? y : fused() ? record_function(*f_, y, of_y_) : apply(*f_, y);
  }

 private:
  const kernels::Function* f_;
  Tensor of_y_;
};

/// dy f'(v; p), as an operation. v is x, or y = f(x; p); kernels/functions.hpp says which.
Tensor derivative(const kernels::Function& f, const Tensor& dy, const Tensor& v, double p = 0);

/// sum_to() with a result of floating type t: from bfloat16 to float32 without rounding in between.
Tensor sum_to(const Tensor& x, const Shape& shape, DType t);

}  // namespace fit::detail
