// cat, stack, split, chunk and roll: copies of parts along an axis.
#include <algorithm>

#include "base/acc_type.hpp"
#include "fit/ops/ops.hpp"
#include "kernels/add.hpp"
#include "kernels/axis_view.hpp"
#include "kernels/copy.hpp"
#include "ops/index/axis_slices.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

constexpr std::size_t max_parts = 65535;  // limit of inputs and outputs of a node

// Copies n indices of an axis: those of `from` from index `read` on become those of `to` from index `written` on. The
// axes before it are one, of which the indices outer … outer_end - 1 are copied.
void copy_part(Tensor& to, std::int64_t written, const Tensor& from, std::int64_t read, std::int64_t n, int axis,
               std::int64_t outer, std::int64_t outer_end) {
  const kernels::AxisView y(to.shape(), axis), x(from.shape(), axis);
  const std::int64_t size = size_of(to.dtype());
  kernels::copy({outer_end - outer, n * y.inner}, size, to.fresh<char>() + (outer * y.n + written) * y.inner * size,
                {y.n * y.inner, 1}, static_cast<const char*>(from.raw()) + (outer * x.n + read) * x.inner * size,
                {x.n * x.inner, 1});
}
void copy_part(Tensor& to, std::int64_t written, const Tensor& from, std::int64_t read, std::int64_t n, int axis) {
  copy_part(to, written, from, read, n, axis, 0, kernels::AxisView(to.shape(), axis).outer);
}

// Copies the parts to y, part i from index start[i] of the axis on. Parts that lie side by side are written block by
// block: the lines of the cache which two of them share are still in the cache for the second.
void join(Tensor& y, const std::vector<Tensor>& parts, const std::int64_t* start, int axis) {
  if (y.numel() == 0) return;                    // an axis beside an empty one may have any size
  constexpr std::int64_t block_bytes = 1 << 18;  // a fraction of the L2 cache
  const kernels::AxisView all(y.shape(), axis);
  const auto copy_all = [&](std::int64_t outer, std::int64_t end) {
    for (std::size_t i = 0; i < parts.size(); ++i)
      copy_part(y, start[i], parts[i], 0, start[i + 1] - start[i], axis, outer, end);
  };
  const std::int64_t bytes = std::max<std::int64_t>(all.n * all.inner * size_of(y.dtype()), 1);
  const std::int64_t rows = std::max<std::int64_t>(block_bytes / bytes, 1);
  if (bytes > block_bytes / 4) return copy_all(0, all.outer);
  parallel_for(all.outer, rows, [&](std::int64_t begin, std::int64_t end) {
    for (; begin < end; begin += rows) copy_all(begin, std::min(begin + rows, end));
  });
}

// Gives input i the gradient dy from index `start` to `stop`: copied into that of the input, or added to it, in one
// pass.
void give_part(Backward& b, int i, const Tensor& dy, std::int64_t start, std::int64_t stop, int axis) {
  if (b.recording() || is_narrow(dy.dtype()) || b.dtype(i) != dy.dtype())
    return b.give(i, slice(dy, axis, start, stop));
  Backward::Target t = b.target(i);
  if (!t.add) return copy_part(t.grad, 0, dy, start, stop - start, axis);
  const kernels::AxisView part(b.shape(i), axis), all(dy.shape(), axis);
  dispatch_compute_floating(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::add({part.outer, part.n * part.inner}, t.grad.fresh<T>(), {part.n * part.inner, 1},
                 dy.data<T>().data() + start * all.inner, {all.n * all.inner, 1});
  });
}

void expect_parts(const char* op, const std::vector<Tensor>& parts) {
  if (parts.empty() || parts.size() > max_parts)
    check::fail(op, parts.size(), " parts: there must be between 1 and ", max_parts);
  check::each_defined(op, "part", parts);
}

// Checks the count before a list of this size is created.
void expect_pieces(const char* op, std::int64_t count) {
  if (count > static_cast<std::int64_t>(max_parts))
    check::fail(op, "there would be ", count, " pieces: there can be at most ", max_parts);
}

}  // namespace

Tensor cat(const std::vector<Tensor>& parts, int axis) {
  expect_parts("cat", parts);
  axis = check::axis("cat", parts[0], axis);
  const Shape& first = parts[0].shape();
  DType dtype = parts[0].dtype();
  // The start index of each part, and the total size as the last one.
  Tensor starts = Tensor::empty({static_cast<std::int64_t>(parts.size()) + 1}, int64);
  std::int64_t *const start = starts.fresh<std::int64_t>(), total = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Shape& s = parts[i].shape();
    if (s.rank() != first.rank() || s.with(axis, 0) != first.with(axis, 0))
      check::fail("cat", "part ", i, " has shape ", s, ", part 0 ", first, ": they must agree but for axis ", axis);
    start[i] = total;
    if (__builtin_add_overflow(total, s[axis], &total))
      check::fail("cat", "the sizes of axis ", axis, " add up to more than an int64 can hold");
    dtype = promote(dtype, parts[i].dtype());
  }
  start[parts.size()] = total;
  Tensor y = Tensor::empty(first.with(axis, total), dtype);
  std::vector<Tensor> alike = parts;
  for (Tensor& part : alike)
    if (part.dtype() != dtype) part = part.detach().to(dtype);
  join(y, alike, start, axis);
  return record({"cat", {{"axis", axis}}}, parts, std::move(y), keep::saved(starts), [axis](Backward& b) {
    const Tensor starts = b.saved(0), dy = b.dy();
    const auto start = starts.data<std::int64_t>();
    for (int i = 0; i < b.inputs(); ++i)
      if (b.wants(i)) give_part(b, i, dy, start[i], start[i + 1], axis);
  });
}

Tensor stack(const std::vector<Tensor>& parts, int axis) {
  expect_parts("stack", parts);
  std::vector<Tensor> wide;
  for (const Tensor& part : parts) {
    if (part.shape() != parts[0].shape())
      check::fail("stack", "part ", wide.size(), " has shape ", part.shape(), ", part 0 ", parts[0].shape(),
                  ": all must be equal");
    if (const int rank = part.rank() + 1; axis < -rank || axis >= rank)
      check::fail("stack", "axis ", axis, " is out of range for parts of shape ", part.shape(), ": it must be in ",
                  -rank, " … ", rank - 1);
    wide.push_back(unsqueeze(part, axis));
  }
  return cat(wide, axis);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int axis) {
  axis = check::axis("split", x, axis);
  const std::int64_t size = x.shape()[axis];
  expect_pieces("split", static_cast<std::int64_t>(sizes.size()));
  std::int64_t left = size, start = 0;
  for (const std::int64_t n : sizes) {
    if (n < 0 || n > left)
      check::fail("split", "a size is ", n, " where ", left, " are left of axis ", axis, " of shape ", x.shape(),
                  ": the sizes must add up to ", size);
    left -= n;
  }
  if (left > 0)
    check::fail("split", sizes.size(), " sizes that leave ", left, " of axis ", axis, " of shape ", x.shape(),
                ": they must add up to ", size);
  std::vector<Tensor> pieces;
  for (const std::int64_t n : sizes) {
    pieces.push_back(Tensor::empty(x.shape().with(axis, n), x.dtype()));
    copy_part(pieces.back(), 0, x, start, n, axis);
    start += n;
  }
  // dx = all dy, concatenated; dy of an unused piece is zeros
  record({"split",
          {{"axis", axis}, {"sizes", Span<const std::int64_t>(sizes.data(), static_cast<std::int64_t>(sizes.size()))}}},
         {x}, pieces, keep::nothing, [axis, count = static_cast<int>(sizes.size())](Backward& b) {
           std::vector<Tensor> dy;
           dy.reserve(static_cast<std::size_t>(count));
           for (int i = 0; i < count; ++i) dy.push_back(b.dy(i));
           b.give(0, cat(dy, axis));
         });
  return pieces;
}

std::vector<Tensor> split(const Tensor& x, std::int64_t size, int axis) {
  axis = check::axis("split", x, axis);
  if (size <= 0) check::fail("split", "size is ", size, ": it must be positive");
  const std::int64_t n = x.shape()[axis];
  expect_pieces("split", n / size);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(n / size), size);
  if (n % size != 0 || n == 0) sizes.push_back(n % size);
  return split(x, sizes, axis);
}

std::vector<Tensor> chunk(const Tensor& x, int count, int axis) {
  axis = check::axis("chunk", x, axis);
  if (count <= 0) check::fail("chunk", "count is ", count, ": it must be positive");
  expect_pieces("chunk", count);
  const std::int64_t n = x.shape()[axis];
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(count), n / count);
  for (std::int64_t i = 0; i < n % count; ++i) ++sizes[static_cast<std::size_t>(i)];
  return split(x, sizes, axis);
}

namespace {

// y[i] = x[i - shift], cyclic, for |shift| < n: two parts change places.
Tensor rolled(const Tensor& x, std::int64_t shift, int axis) {
  const std::int64_t n = kernels::AxisView(x.shape(), axis).n, first = shift < 0 ? shift + n : shift;
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  copy_part(y, 0, x, n - first, first, axis);
  copy_part(y, first, x, 0, n - first, axis);
  return record({"roll", {{"axis", axis}, {"shift", shift}}}, {x}, std::move(y), keep::nothing,
                [shift, axis](Backward& b) { b.give(0, rolled(b.dy(), -shift, axis)); });
}

}  // namespace

Tensor roll(const Tensor& x, std::int64_t shift, int axis) {
  axis = slice_axis("roll", x, axis);
  const std::int64_t n = kernels::AxisView(x.shape(), axis).n;
  return n <= 1 ? x.clone() : rolled(x, shift % n, axis);
}

Tensor roll(const Tensor& x, const std::vector<std::int64_t>& shifts, const std::vector<int>& axes) {
  check::defined("roll", "x", x);
  if (shifts.size() != axes.size())
    check::fail("roll", shifts.size(), " shifts and ", axes.size(), " axes: there must be a shift for each axis");
  Tensor y = x;
  for (std::size_t i = 0; i < shifts.size(); ++i) y = roll(y, shifts[i], axes[i]);
  return shifts.empty() ? x.clone() : y;
}

void detail::to_array(const char* op, const Tensor& x, std::vector<Tensor> pieces, Tensor* array, std::size_t n) {
  if (pieces.size() != n)
    check::fail(op, "there are ", pieces.size(), " pieces of shape ", x.shape(), ": ", op, "<", n, "> must give ", n);
  std::move(pieces.begin(), pieces.end(), array);
}

}  // namespace fit
