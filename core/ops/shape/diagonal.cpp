// movedim, unbind, diagonal, diag, meshgrid.
#include <algorithm>
#include <numeric>

#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit {

Tensor movedim(const Tensor& x, int from, int to) {
  from = check::axis("movedim", x, from);
  to = check::axis("movedim", x, to);
  std::vector<int> order(static_cast<std::size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return permute(x, order);
}

std::vector<Tensor> unbind(const Tensor& x, int axis) {
  axis = check::axis("unbind", x, axis);
  std::vector<Tensor> parts;
  if (x.shape()[axis] == 0) return parts;
  parts = split(x, 1, axis);
  for (Tensor& part : parts) part = squeeze(part, axis);
  return parts;
}

Tensor diagonal(const Tensor& x, std::int64_t offset, int a, int b) {
  a = check::axis("diagonal", x, a);
  b = check::axis("diagonal", x, b);
  if (a == b) check::fail("diagonal", "both axes are ", a, ": they must be two of shape ", x.shape());
  const std::int64_t rows = x.shape()[a], cols = x.shape()[b];
  std::vector<int> order;
  Shape rest;
  for (int i = 0; i < x.rank(); ++i)
    if (i != a && i != b) {
      order.push_back(i);
      rest = rest.inserted(rest.rank(), x.shape()[i]);
    }
  order.push_back(a);
  order.push_back(b);
  const std::int64_t shift = std::clamp(offset, -rows, cols), down = std::max<std::int64_t>(-shift, 0);
  const std::int64_t right = std::max<std::int64_t>(shift, 0);
  Tensor ids = Tensor::empty({std::max<std::int64_t>(std::min(rows - down, cols - right), 0)}, int64);
  for (std::int64_t i = 0; i < ids.numel(); ++i) ids.fresh<std::int64_t>()[i] = (i + down) * cols + i + right;
  return index_select(reshape(permute(x, order), rest.inserted(rest.rank(), rows * cols)), -1, ids);
}

Tensor diag(const Tensor& x, std::int64_t offset) {
  check::defined("diag", "x", x);
  if (x.rank() == 2) return diagonal(x, offset);
  if (x.rank() != 1) check::fail("diag", "x has shape ", x.shape(), ": it must be a vector [N] or a matrix [M, N]");
  constexpr std::int64_t furthest = std::int64_t{1} << 30;  // its square is still a valid size
  if (offset > furthest || offset < -furthest || x.numel() > furthest)
    check::fail("diag", "x has ", x.numel(), " elements, the offset is ", offset, ": both must be below 2^30");
  const std::int64_t down = std::max<std::int64_t>(-offset, 0), right = std::max<std::int64_t>(offset, 0);
  const std::int64_t n = x.numel() + down + right;
  Tensor ids = Tensor::empty({x.numel()}, int64);
  for (std::int64_t i = 0; i < x.numel(); ++i) ids.fresh<std::int64_t>()[i] = (i + down) * n + i + right;
  const Tensor numbers = x.dtype() == boolean ? x.to(int64) : x;
  const Tensor y = index_add(zeros({n * n}, numbers.dtype()), 0, ids, numbers);
  return reshape(y, Shape{n, n}).to(x.dtype());
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors) {
  const int rank = static_cast<int>(vectors.size());
  if (rank == 0 || rank > Shape::max_rank)
    check::fail("meshgrid", rank, " vectors: there must be between 1 and ", Shape::max_rank);
  Shape shape;
  for (int i = 0; i < rank; ++i) {
    const Tensor& v = vectors[static_cast<std::size_t>(i)];
    const std::string name = "vector " + std::to_string(i);
    check::defined("meshgrid", name.c_str(), v);
    if (v.rank() != 1) check::fail("meshgrid", name, " has shape ", v.shape(), ": it must be [N]");
    shape = shape.inserted(i, v.numel());
  }
  std::vector<Tensor> grid;
  for (int i = 0; i < rank; ++i) {
    Shape own;
    for (int a = 0; a < rank; ++a) own = own.inserted(a, a == i ? shape[i] : 1);
    grid.push_back(broadcast_to(reshape(vectors[static_cast<std::size_t>(i)], own), shape));
  }
  return grid;
}

}  // namespace fit
