// cat, stack, split and chunk.
#include <algorithm>

#include "fit/ops/ops.hpp"
#include "kernels/axis_view.hpp"
#include "kernels/copy.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

constexpr std::size_t max_parts = 65535;  // limit of inputs and outputs of a node

// Copies a part, [outer, n, inner], into or out of the whole tensor, [outer, N, inner], from index `start` on.
enum class Way { in, out };
void move_part(Way way, Tensor& to, const Tensor& from, int axis, std::int64_t start) {
  const Shape &part = way == Way::in ? from.shape() : to.shape(), &all = way == Way::in ? to.shape() : from.shape();
  const auto [outer, n, inner] = kernels::AxisView(part, axis);
  const kernels::Strides part_rows{n * inner, 1}, all_rows{all[axis] * inner, 1};
  const std::int64_t size = size_of(to.dtype()), at = start * inner * size;
  char* const y = to.fresh<char>();
  const char* const x = static_cast<const char*>(from.raw());
  const Shape block{outer, n * inner};
  if (way == Way::in)
    kernels::copy(block, size, y + at, all_rows, x, part_rows);
  else
    kernels::copy(block, size, y, part_rows, x + at, all_rows);
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
  for (std::size_t i = 0; i < parts.size(); ++i)
    move_part(Way::in, y, parts[i].dtype() == dtype ? parts[i] : parts[i].detach().to(dtype), axis, start[i]);
  return record({"cat", {{"axis", axis}}}, parts, std::move(y), keep::saved(starts), [axis](Backward& b) {
    const Tensor starts = b.saved(0), dy = b.dy();
    const auto start = starts.data<std::int64_t>();
    for (int i = 0; i < b.inputs(); ++i)
      if (b.wants(i)) b.give(i, slice(dy, axis, start[i], start[i + 1]));
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
    move_part(Way::out, pieces.back(), x, axis, start);
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

void detail::to_array(const char* op, const Tensor& x, std::vector<Tensor> pieces, Tensor* array, std::size_t n) {
  if (pieces.size() != n)
    check::fail(op, "there are ", pieces.size(), " pieces of shape ", x.shape(), ": ", op, "<", n, "> must give ", n);
  std::move(pieces.begin(), pieces.end(), array);
}

}  // namespace fit
