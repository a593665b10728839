// repeat and tile, which broadcast; pad; repeat_interleave, unfold and fold: index_select() with computed ids.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "fit/ops/ops.hpp"
#include "kernels/copy.hpp"
#include "ops/index/axis_slices.hpp"

namespace fit {
namespace {

constexpr std::int64_t max_elements = std::int64_t{1} << 62;  // elements
constexpr std::int64_t max_padding = std::int64_t{1} << 42;   // elements: more need more bytes than there are addresses

// Element i of the result along an axis is element from(i) of x.
template <class From>
Tensor reread(const Tensor& x, int axis, std::int64_t count, const From& from) {
  Tensor ids = Tensor::empty({count}, int64);
  for (std::int64_t i = 0; i < count; ++i) ids.fresh<std::int64_t>()[i] = from(i);
  return index_select(x, axis, ids);
}

// count * n. Throws Error if count is negative, or if the result would have too many elements.
std::int64_t times(const char* op, std::int64_t count, std::int64_t n) {
  check::not_negative(op, "a count", count);
  if (n > 0 && count > max_elements / n)
    check::fail(op, "a count is ", count, ": the result would have too many elements");
  return count * n;
}

// Repeats axes of y until they have the sizes of `whole`, in one pass over as many axes as a shape has room for. [n] is
// [1, n], which broadcasts to [count, n]; neighbours that are not repeated are one axis.
Tensor repeated_to(const Tensor& y, const Shape& whole) {
  std::int64_t from[Shape::max_rank], to[Shape::max_rank];
  int rank = 0;
  bool joins = false;
  Shape result = y.shape();
  for (int a = 0; a < y.rank(); ++a) {
    const std::int64_t n = y.shape()[a], count = n == 0 ? 1 : whole[a] / n;
    if (count != 1 && rank + 2 < Shape::max_rank) {
      from[rank] = 1;
      to[rank++] = count;
      result = result.with(a, whole[a]);
      joins = false;
    }
    if (!joins) from[rank++] = 1;
    from[rank - 1] *= n;
    to[rank - 1] = from[rank - 1];
    joins = true;
  }
  const Tensor once = reshape(broadcast_to(reshape(y, Shape(from, rank)), Shape(to, rank)), result);
  return result == whole ? once : repeated_to(once, whole);
}

Tensor repeated(const char* op, const Tensor& x, const std::vector<std::int64_t>& counts) {
  const int extra = static_cast<int>(counts.size()) - x.rank();
  Shape shape = x.shape();
  for (int i = 0; i < extra; ++i) shape = shape.inserted(0, 1);
  Shape whole = shape;
  for (int a = 0; a < shape.rank(); ++a) {
    const std::int64_t count = counts[static_cast<std::size_t>(a)];
    times(op, count, std::max(whole.numel(), shape[a]));
    whole = whole.with(a, count * shape[a]);
  }
  const Tensor y = reshape(x, shape);
  return whole == shape ? y.clone() : repeated_to(y, whole);
}

std::int64_t window_count(const char* op, std::int64_t n, std::int64_t size, std::int64_t step) {
  if (size < 1 || size > n)
    check::fail(op, "the windows' size is ", size, ", the axis has ", n, ": 1 … ", n, " fit in");
  if (step < 1) check::fail(op, "step is ", step, ": it must be positive");
  return (n - size) / step + 1;
}

}  // namespace

Tensor repeat(const Tensor& x, const std::vector<std::int64_t>& counts) {
  check::defined("repeat", "x", x);
  if (static_cast<int>(counts.size()) < x.rank())
    check::fail("repeat", counts.size(), " counts for shape ", x.shape(),
                ": each axis must have one; tile() takes fewer");
  return repeated("repeat", x, counts);
}

Tensor tile(const Tensor& x, const std::vector<std::int64_t>& counts) {
  check::defined("tile", "x", x);
  std::vector<std::int64_t> all(counts);
  while (static_cast<int>(all.size()) < x.rank()) all.insert(all.begin(), 1);
  return repeated("tile", x, all);
}

Tensor repeat_interleave(const Tensor& x, std::int64_t count, int axis) {
  axis = check::axis("repeat_interleave", x, axis);
  const std::int64_t n = x.shape()[axis], all = times("repeat_interleave", count, n);
  const kernels::AxisView view(x.shape(), axis);
  const Tensor apart = reshape(x, {view.outer * n, 1, view.inner});
  return reshape(broadcast_to(apart, {view.outer * n, count, view.inner}), x.shape().with(axis, all));
}

Tensor repeat_interleave(const Tensor& x, const Tensor& counts, int axis) {
  constexpr const char* op = "repeat_interleave";
  axis = check::axis(op, x, axis);
  check::dtype(op, "counts", counts, int64);
  check::shape(op, "counts", counts, {x.shape()[axis]});
  std::int64_t all = 0;
  for (const std::int64_t n : counts.data<std::int64_t>()) {
    if (n < 0 || n > max_elements - all)
      check::fail(op, "a count is ", n, ": it must not be negative, and their sum at most 2^62");
    all += n;
  }
  Tensor ids = Tensor::empty({all}, int64);
  std::int64_t *next = ids.fresh<std::int64_t>(), i = 0;
  for (const std::int64_t n : counts.data<std::int64_t>()) next = std::fill_n(next, n, i++);
  return index_select(x, axis, ids);
}

namespace {

// How many elements are added before and after each axis; taken away if negative.
struct Widths {
  std::array<std::int64_t, Shape::max_rank> before{}, after{};

  Widths negated() const {
    Widths w;
    for (int a = 0; a < Shape::max_rank; ++a) w.before[a] = -before[a], w.after[a] = -after[a];
    return w;
  }
};

// y = value, and the part of x that stays in it.
Tensor padded(const Tensor& x, const Widths& w, const Shape& shape, Scalar value) {
  const NoGrad no_grad;
  Tensor y = full(shape, value, x.dtype());
  const kernels::Strides sx = kernels::row_major(x.shape()), sy = kernels::row_major(shape);
  std::int64_t sizes[Shape::max_rank], at_x = 0, at_y = 0;
  for (int a = 0; a < x.rank(); ++a) {
    const auto taken = [](std::int64_t width) { return std::max<std::int64_t>(-width, 0); };
    sizes[a] = std::max<std::int64_t>(x.shape()[a] - taken(w.before[a]) - taken(w.after[a]), 0);
    at_x += taken(w.before[a]) * sx[a];
    at_y += std::max<std::int64_t>(w.before[a], 0) * sy[a];
  }
  const Shape part(sizes, x.rank());
  const std::int64_t bytes = size_of(x.dtype());
  if (part.numel() > 0)
    kernels::copy(part, bytes, y.fresh<char>() + at_y * bytes, sy, static_cast<const char*>(x.raw()) + at_x * bytes,
                  sx);
  return y;
}

Tensor pad_constant(const Tensor& x, const Widths& w, const Shape& shape, Scalar value) {
  const Span<const std::int64_t> before(w.before.data(), x.rank()), after(w.after.data(), x.rank());
  return record({"pad", {{"before", before}, {"after", after}, {"value", value.value()}}}, {x},
                padded(x, w, shape, value), keep::nothing,
                [w](Backward& b) { b.give(0, pad_constant(b.dy(), w.negated(), b.shape(0), 0)); });
}

// One axis of x, which continues beyond its ends as `mode` says.
Tensor extended(const Tensor& x, int axis, std::int64_t before, std::int64_t after, PadMode mode) {
  const std::int64_t n = x.shape()[axis];
  return reread(x, axis, before + n + after, [=](std::int64_t i) {
    const std::int64_t at = i - before;
    return mode == PadMode::replicate ? std::clamp<std::int64_t>(at, 0, n - 1) : n - 1 - std::abs(n - 1 - std::abs(at));
  });
}

// The shape after two widths are applied to an axis of `shape`, a part of x's padding.
Shape padded_shape(const Shape& shape, const Shape& of_x, int axis, std::int64_t before, std::int64_t after,
                   PadMode mode) {
  const std::int64_t size = of_x[axis], added = std::max<std::int64_t>(std::max(before, after), 0);
  const std::int64_t taken_before = std::min<std::int64_t>(before, 0), taken_after = std::min<std::int64_t>(after, 0);
  if (added > max_padding / std::max<std::int64_t>(shape.with(axis, 1).numel(), 1))
    check::fail("pad", "the widths are ", before, " and ", after, ", axis ", axis, " of shape ", of_x,
                ": the result would have too many elements");
  const std::int64_t left = size + taken_before + taken_after;
  if (std::min(taken_before, taken_after) < -max_elements / 4 ||
      (mode == PadMode::constant ? size + before + after : left) < 0)
    check::fail("pad", "the widths ", before, " and ", after, " don't suit axis ", axis, " of shape ", of_x,
                ": at most all of its elements can be taken away");
  if (mode != PadMode::constant && added > 0 && (left == 0 || (mode == PadMode::reflect && added >= left)))
    check::fail("pad", "the widths are ", before, " and ", after, ", axis ", axis, " of shape ", of_x,
                left == size ? "" : joined(" has ", left, " left when negative widths are removed"),
                mode == PadMode::reflect ? ": a mirror shows one less than there are" : ": there is nothing to repeat");
  return shape.with(axis, size + before + after);
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<std::int64_t>& widths, PadMode mode, Scalar value) {
  check::defined("pad", "x", x);
  if (widths.size() % 2 != 0 || static_cast<int>(widths.size()) > 2 * x.rank())
    check::fail("pad", widths.size(), " widths for shape ", x.shape(), ": two for each axis, from the last one on");
  if (!is_floating(x.dtype())) value.to_integer("pad");
  Widths all;
  Shape shape = x.shape();
  Tensor y = x;
  for (std::size_t k = 0; k + 1 < widths.size(); k += 2) {
    const int axis = x.rank() - 1 - static_cast<int>(k / 2);
    const std::int64_t before = widths[k], after = widths[k + 1];
    shape = padded_shape(shape, x.shape(), axis, before, after, mode);
    all.before[axis] = before;
    all.after[axis] = after;
    if (mode == PadMode::constant) continue;
    if (before < 0 || after < 0)
      y = slice(y, axis, std::max<std::int64_t>(-before, 0), y.size(axis) + std::min<std::int64_t>(after, 0));
    if (before > 0 || after > 0)
      y = extended(y, axis, std::max<std::int64_t>(before, 0), std::max<std::int64_t>(after, 0), mode);
  }
  const bool changes = std::any_of(widths.begin(), widths.end(), [](std::int64_t width) { return width != 0; });
  if (mode == PadMode::constant && changes) return pad_constant(x, all, shape, value);
  return y.impl() == x.impl() ? x.clone() : y;
}

Tensor unfold(const Tensor& x, int axis, std::int64_t size, std::int64_t step) {
  axis = check::axis("unfold", x, axis);
  const std::int64_t count = window_count("unfold", x.shape()[axis], size, step);
  const Tensor y = reread(x, axis, count * size, [=](std::int64_t i) { return i / size * step + i % size; });
  return movedim(reshape(y, x.shape().with(axis, count).inserted(axis + 1, size)), axis + 1, -1);
}

Tensor fold(const Tensor& windows, int axis, std::int64_t n, std::int64_t step) {
  check::defined("fold", "windows", windows);
  const int rank = windows.rank() - 1;
  if (rank < 1) check::fail("fold", "windows has shape ", windows.shape(), ": it must have at least two axes");
  if (axis < -rank || axis >= rank)
    check::fail("fold", "axis ", axis, " of windows of shape ", windows.shape(), ": it must be one before the last, -",
                rank, " … ", rank - 1);
  if (axis < 0) axis += rank;
  const std::int64_t size = windows.shape().back(), count = window_count("fold", n, size, step);
  if (windows.shape()[axis] != count)
    check::fail("fold", "windows has shape ", windows.shape(), ": axis ", axis, " must be ", count,
                ", the windows of size ", size, " of ", n, " elements");
  Tensor ids = Tensor::empty({count * size}, int64);
  for (std::int64_t i = 0; i < ids.numel(); ++i) ids.fresh<std::int64_t>()[i] = i / size * step + i % size;
  const Tensor moved = movedim(windows, -1, axis + 1);
  const Shape shape = moved.shape().erased(axis + 1);
  return index_add(zeros(shape.with(axis, n), windows.dtype()), axis, ids,
                   reshape(moved, shape.with(axis, count * size)));
}

}  // namespace fit
