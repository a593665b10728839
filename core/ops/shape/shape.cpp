// reshape, flatten, squeeze, unsqueeze, which share the buffer; transpose, permute, broadcast_to, flip, which copy.
#include <algorithm>

#include "fit/ops/ops.hpp"
#include "kernels/copy.hpp"
#include "ops/elementwise/broadcast.hpp"
#include "ops/index/axis_slices.hpp"

namespace fit {
namespace {

using kernels::Strides;

// Another shape of the same buffer; the gradient is reshaped back.
Tensor reshaped(const char* op, const Tensor& x, const Shape& shape) {
  return record(op, {x}, x.alias(shape), keep::nothing, [](Backward& b) { b.give(0, reshape(b.dy(), b.shape(0))); });
}

Tensor reshape_to(const Tensor& x, const std::int64_t* sizes, int rank) {
  check::defined("reshape", "x", x);
  std::int64_t known[Shape::max_rank];
  int open = -1;
  if (rank > Shape::max_rank) check::fail("reshape", rank, " axes: there can be at most ", Shape::max_rank);
  for (int i = 0; i < rank; ++i) {
    if (sizes[i] == -1 && open >= 0)
      check::fail("reshape", "axes ", open, " and ", i, " of the shape are both -1: only one size can be inferred");
    if (sizes[i] == -1) open = i;
    known[i] = sizes[i] == -1 ? 1 : sizes[i];
  }
  Shape shape(known, rank);
  if (open >= 0) {
    const std::int64_t rest = shape.numel();
    if (rest == 0 || x.numel() % rest != 0)
      check::fail("reshape", "x has shape ", x.shape(), " with ", x.numel(), " elements, the other sizes of the new ",
                  "shape make ", rest, ": no size of its axis ", open, " (given as -1) fits");
    shape = shape.with(open, x.numel() / rest);
  }
  return reshape(x, shape);
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  check::defined("reshape", "x", x);
  if (shape.numel() != x.numel())
    check::fail("reshape", "x has shape ", x.shape(), " with ", x.numel(), " elements, the new shape ", shape, " has ",
                shape.numel(), ": the counts must be equal");
  return reshaped("reshape", x, shape);
}

Tensor reshape(const Tensor& x, const std::vector<std::int64_t>& shape) {
  return reshape_to(x, shape.data(), static_cast<int>(shape.size()));
}

Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> shape) {
  return reshape_to(x, shape.begin(), static_cast<int>(shape.size()));
}

Tensor flatten(const Tensor& x, int first, int last) {
  check::defined("flatten", "x", x);
  if (x.rank() == 0 && first == 0 && last == -1) return reshaped("flatten", x, {1});
  first = check::axis("flatten", x, first);
  last = check::axis("flatten", x, last);
  if (first > last)
    check::fail("flatten", "axis ", first, " comes after axis ", last, " of shape ", x.shape(),
                ": first must not be greater than last");
  std::int64_t sizes[Shape::max_rank], joined = 1;
  int rank = 0;
  for (int a = 0; a < x.rank(); ++a) {
    joined = first < a && a <= last ? joined * x.shape()[a] : x.shape()[a];
    if (a < first || a >= last) sizes[rank++] = joined;
  }
  return reshaped("flatten", x, Shape(sizes, rank));
}

Tensor squeeze(const Tensor& x, int axis) {
  axis = slice_axis("squeeze", x, axis);
  if (x.rank() == 0) return reshaped("squeeze", x, x.shape());
  if (x.shape()[axis] != 1)
    check::fail("squeeze", "axis ", axis, " of shape ", x.shape(), " has size ", x.shape()[axis], ": it must be 1");
  return reshaped("squeeze", x, x.shape().erased(axis));
}

Tensor squeeze(const Tensor& x) {
  check::defined("squeeze", "x", x);
  std::int64_t sizes[Shape::max_rank];
  const auto* end = std::copy_if(x.shape().begin(), x.shape().end(), sizes, [](std::int64_t n) { return n != 1; });
  return reshaped("squeeze", x, Shape(sizes, static_cast<int>(end - sizes)));
}

Tensor unsqueeze(const Tensor& x, int axis) {
  check::defined("unsqueeze", "x", x);
  const int rank = x.rank() + 1;
  if (axis < -rank || axis >= rank)
    check::fail("unsqueeze", "axis ", axis, " is out of range for shape ", x.shape(), ": it must be in ", -rank, " … ",
                rank - 1);
  return reshaped("unsqueeze", x, x.shape().inserted(axis < 0 ? axis + rank : axis, 1));
}

namespace {

using Order = std::array<int, Shape::max_rank>;  // axis i of the result is axis order[i] of x

Tensor permuted(const char* op, const Tensor& x, const Order& order) {
  const int rank = x.rank();
  const Strides full = kernels::row_major(x.shape());
  std::int64_t sizes[Shape::max_rank];
  Strides sx{};
  Order back{};
  for (int i = 0; i < rank; ++i) {
    sizes[i] = x.shape()[order[i]];
    sx[i] = full[order[i]];
    back[order[i]] = i;
  }
  Tensor y = Tensor::empty(Shape(sizes, rank), x.dtype());
  kernels::copy(y.shape(), size_of(x.dtype()), y.fresh<char>(), kernels::row_major(y.shape()), x.raw(), sx);
  std::int64_t axes[Shape::max_rank];
  std::copy(order.begin(), order.begin() + rank, axes);
  return record({op, {{"axes", Span<const std::int64_t>(axes, rank)}}}, {x}, std::move(y), keep::nothing,
                [op, back](Backward& b) { b.give(0, permuted(op, b.dy(), back)); });
}

}  // namespace

Tensor transpose(const Tensor& x, int a, int b) {
  a = check::axis("transpose", x, a);
  b = check::axis("transpose", x, b);
  Order order{};
  for (int i = 0; i < x.rank(); ++i) order[i] = i == a ? b : i == b ? a : i;
  return permuted("transpose", x, order);
}

Tensor permute(const Tensor& x, const std::vector<int>& axes) {
  check::defined("permute", "x", x);
  Order order{};
  bool seen[Shape::max_rank] = {};
  if (static_cast<int>(axes.size()) != x.rank())
    check::fail("permute", axes.size(), " axes for shape ", x.shape(), ": each must be named once");
  for (int i = 0; i < x.rank(); ++i) {
    order[i] = check::axis("permute", x, axes[i]);
    if (std::exchange(seen[order[i]], true))
      check::fail("permute", "axis ", order[i], " is named twice for shape ", x.shape(), ": each must be named once");
  }
  return permuted("permute", x, order);
}

void detail::write_repeated(Tensor& y, const Tensor& x) {
  const Shape& shape = y.shape();
  const int lead = shape.rank() - x.rank();
  const Strides full = kernels::row_major(x.shape());
  Strides sx{};
  for (int a = 0; a < x.rank(); ++a) sx[lead + a] = x.shape()[a] == 1 ? 0 : full[a];
  kernels::copy(shape, size_of(x.dtype()), y.fresh<char>(), kernels::row_major(shape), x.raw(), sx);
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  check::defined("broadcast_to", "x", x);
  if (!broadcasts_to(x.shape(), shape))
    check::fail("broadcast_to", "x has shape ", x.shape(), ": it does not broadcast to ", shape,
                "; counted from the right, each size must be equal or 1");
  Tensor y = Tensor::empty(shape, x.dtype());
  detail::write_repeated(y, x);
  // dx = dy; give() sums it over the repeated axes
  return record("broadcast_to", {x}, std::move(y), keep::nothing, [](Backward& b) { b.give(0, b.take_dy()); });
}

namespace {

Tensor flipped(const Tensor& x, unsigned axes) {
  const kernels::Strides full = kernels::row_major(x.shape());
  kernels::Strides strides = full;
  std::int64_t first = 0;
  for (int a = 0; a < x.rank(); ++a)
    if (axes >> a & 1 && x.numel() > 0) {
      first += (x.shape()[a] - 1) * full[a];
      strides[a] = -full[a];
    }
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  const std::int64_t size = size_of(x.dtype());
  kernels::copy(x.shape(), size, y.fresh<char>(), full, static_cast<const char*>(x.raw()) + first * size, strides);
  Shape named;
  for (int a = 0; a < x.rank(); ++a)
    if (axes >> a & 1) named = named.inserted(named.rank(), a);
  return record({"flip", {{"axes", named}}}, {x}, std::move(y), keep::nothing,
                [axes](Backward& b) { b.give(0, flipped(b.dy(), axes)); });
}

}  // namespace

Tensor flip(const Tensor& x, const Axes& axes) {
  check::defined("flip", "x", x);
  unsigned set = axes.all() ? (1u << x.rank()) - 1 : 0;
  for (const int given : axes.list()) {
    const unsigned bit = 1u << slice_axis("flip", x, given);
    if (set & bit) check::fail("flip", "axis ", given, " is named twice for shape ", x.shape());
    set |= bit;
  }
  return flipped(x, set);
}

}  // namespace fit
