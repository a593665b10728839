#include "tensor/check.hpp"

#include <algorithm>

#include "base/acc_type.hpp"
#include "tensor/dispatch.hpp"

void fit::fail_dispatch(DType t) {
  if (t == int8) check::fail("dtype", "int8 holds weights and is not computed with: convert it with .to(float32)");
  if (is_narrow(t)) check::fail("dispatch", t, " was not converted to ", acc_dtype(t), ": a fault of this library");
  check::fail("dispatch", t, " is none of the types of this kernel: a fault of this library");
}

namespace fit::check {

void fail_parts(const char* op, std::initializer_list<Part> parts) {
  throw Error(joined('[', op, "] ", joined_parts(parts)));
}

void fail_undefined(const char* op, const char* name) {
  fail(op, name,
       " is undefined: give it a value first (zeros, tensor, ...); a gradient gets one by backward(), "
       "and a parametrised parameter has its own in value()");
}

void fail_int8(const char* op, const char* name, const Tensor& x) {
  fail(op, name, " is int8 of shape ", x.shape(),
       ", which holds weights and is not computed with: convert it with .to(float32), or dequantize() it");
}

void fail_axis(const char* op, const Shape& shape, int axis) {
  const int rank = shape.rank();
  if (rank == 0) fail(op, "axis ", axis, " is out of range for shape []: a scalar has no axes");
  fail(op, "axis ", axis, " is out of range for shape ", shape, ": it must be in ", -rank, " … ", rank - 1);
}

Shape broadcast_unequal(const char* op, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::int64_t sizes[Shape::max_rank];
  for (int i = 1; i <= rank; ++i) {
    const std::int64_t x = i <= a.rank() ? a[-i] : 1, y = i <= b.rank() ? b[-i] : 1;
    if (x != y && x != 1 && y != 1)
      fail(op, "shapes ", a, " and ", b, " do not broadcast: at axis ", -i, " the sizes ", x, " and ", y,
           " must be equal, or one of them 1");
    sizes[rank - i] = x == 1 ? y : x;
  }
  return Shape(sizes, rank);
}

}  // namespace fit::check
