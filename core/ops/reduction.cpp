#include "ops/reduction.hpp"

#include "ops/axis_slices.hpp"
#include "tensor/check.hpp"

namespace fit {

Reduction::Reduction(const char* op, const Tensor& x, const Axes& axes) {
  check::defined(op, "x", x);
  bool goes[Shape::max_rank] = {};
  for (int a = 0; a < x.rank(); ++a) goes[a] = axes.all();
  for (const int given : axes.list()) {
    const int a = slice_axis(op, x, given);
    if (goes[a]) check::fail(op, "axis ", given, " of shape ", x.shape(), " is given twice");
    goes[a] = true;
  }
  plan(x.shape(), goes);
}

Reduction::Reduction(const Tensor& x, const Shape& kept) {
  bool goes[Shape::max_rank] = {};
  for (int a = 0; a < x.rank(); ++a) goes[a] = kept[a] == 1;
  plan(x.shape(), goes);
}

void Reduction::plan(const Shape& shape, const bool (&goes)[Shape::max_rank]) {
  const int rank = shape.rank();
  std::int64_t kept[Shape::max_rank], result[Shape::max_rank], strides[Shape::max_rank], stride = 1;
  for (int a = rank - 1; a >= 0; --a) {
    strides[a] = stride;
    stride *= shape[a];
  }
  int result_rank = 0, last = -1;  // last: the previous axis with a size other than 1
  for (int a = 0; a < rank; ++a) {
    const std::int64_t size = shape[a];
    kept[a] = goes[a] ? 1 : size;
    if (goes[a])
      count_ *= size;
    else
      result[result_rank++] = size;
    if (size == 1) continue;
    Loops& loops = goes[a] ? reduced_ : kept_;
    if (last < 0 || goes[last] != goes[a]) loops.at[loops.rank++].size = 1;
    loops.at[loops.rank - 1].size *= size;
    loops.at[loops.rank - 1].stride = strides[a];
    last = a;
  }
  kept_shape_ = Shape(kept, rank);
  result_shape_ = Shape(result, result_rank);
}

Tensor expand_grad(const Tensor& dy, const Shape& kept, const Shape& shape) {
  return broadcast_to(dy.shape() == kept ? dy : reshape(dy, kept), shape);
}

}  // namespace fit
