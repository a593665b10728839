#include "ops/reduction.hpp"

#include "check.hpp"

namespace fit {

Reduction::Reduction(const char* op, const Tensor& x, const Axes& axes) : kept_shape_(x.shape()) {
  const int rank = x.rank();
  bool goes[Shape::max_rank] = {};
  for (int a = 0; a < rank; ++a) goes[a] = axes.all();
  for (const int given : axes.list()) {
    const int a = check::axis(op, x, given);
    if (goes[a]) check::fail(op, "axis ", given, " of shape ", x.shape(), " is given twice");
    goes[a] = true;
  }
  std::int64_t left[Shape::max_rank], strides[Shape::max_rank];
  int result_rank = 0;
  std::int64_t stride = 1;
  for (int a = rank - 1; a >= 0; --a) {
    strides[a] = stride;
    stride *= x.shape()[a];
  }
  int last = -1;  // the axis before, other than those of size 1
  for (int a = 0; a < rank; ++a) {
    const std::int64_t size = x.shape()[a];
    if (goes[a])
      kept_shape_ = kept_shape_.with(a, 1);
    else
      left[result_rank++] = size;
    if (goes[a]) count_ *= size;
    if (size == 1) continue;
    Loops& loops = goes[a] ? reduced_ : kept_;
    if (last < 0 || goes[last] != goes[a]) loops.at[loops.rank++].size = 1;
    loops.at[loops.rank - 1].size *= size;
    loops.at[loops.rank - 1].stride = strides[a];
    last = a;
  }
  result_shape_ = Shape(left, result_rank);
}

Tensor spread(const Tensor& dy, const Shape& kept, const Shape& shape) {
  return broadcast_to(dy.shape() == kept ? dy : reshape(dy, kept), shape);
}

}  // namespace fit
