// repeat, tile, repeat_interleave, pad, unfold, fold: index_select() with computed ids.
#include <algorithm>
#include <cstdlib>

#include "fit/ops/ops.hpp"
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
  Tensor y = reshape(x, shape);
  for (int a = 0; a < shape.rank(); ++a)
    if (whole[a] != shape[a]) y = reread(y, a, whole[a], [n = shape[a]](std::int64_t i) { return i % n; });
  return y.impl()->storage == x.impl()->storage ? y.clone() : y;
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
  return reread(x, axis, times("repeat_interleave", count, x.shape()[axis]),
                [count](std::int64_t i) { return i / count; });
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

Tensor pad(const Tensor& x, const std::vector<std::int64_t>& widths, PadMode mode, Scalar value) {
  check::defined("pad", "x", x);
  if (widths.size() % 2 != 0 || static_cast<int>(widths.size()) > 2 * x.rank())
    check::fail("pad", widths.size(), " widths for shape ", x.shape(), ": two for each axis, from the last one on");
  if (!is_floating(x.dtype())) value.to_integer("pad");
  Tensor y = x;
  for (std::size_t k = 0; k + 1 < widths.size(); k += 2) {
    const int axis = x.rank() - 1 - static_cast<int>(k / 2);
    const std::int64_t size = x.shape()[axis];
    const bool constant = mode == PadMode::constant;
    const std::int64_t taken_before = std::min<std::int64_t>(widths[k], 0),
                       taken_after = std::min<std::int64_t>(widths[k + 1], 0);
    const std::int64_t before = std::max<std::int64_t>(widths[k], 0), after = std::max<std::int64_t>(widths[k + 1], 0);
    if (std::max(before, after) > max_padding / std::max<std::int64_t>(y.shape().with(axis, 1).numel(), 1))
      check::fail("pad", "the widths are ", widths[k], " and ", widths[k + 1], ", axis ", axis, " of shape ", x.shape(),
                  ": the result would have too many elements");
    if (std::min(taken_before, taken_after) < -max_elements / 4 ||
        size + taken_before + taken_after + (constant ? before + after : 0) < 0)
      check::fail("pad", "the widths ", widths[k], " and ", widths[k + 1], " don't suit axis ", axis, " of shape ",
                  x.shape(), ": at most all of its elements can be taken away");
    if (constant && before + after > 0) {
      const auto border = [&](std::int64_t size) { return full(y.shape().with(axis, size), value, y.dtype()); };
      y = cat({border(before), y, border(after)}, axis);
    }
    if (taken_before + taken_after < 0) y = slice(y, axis, -taken_before, y.size(axis) + taken_after);
    const std::int64_t n = y.shape()[axis];
    if (constant || (before == 0 && after == 0)) continue;
    if (n == 0 || (mode == PadMode::reflect && std::max(before, after) >= n))
      check::fail(
          "pad", "the widths are ", widths[k], " and ", widths[k + 1], ", axis ", axis, " of shape ", x.shape(),
          n == size ? "" : joined(" has ", n, " left when negative widths are removed"),
          mode == PadMode::reflect ? ": a mirror shows one less than there are" : ": there is nothing to repeat");
    y = reread(y, axis, before + n + after, [=](std::int64_t i) {
      const std::int64_t at = i - before;
      return mode == PadMode::replicate ? std::clamp<std::int64_t>(at, 0, n - 1)
                                        : n - 1 - std::abs(n - 1 - std::abs(at));
    });
  }
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
