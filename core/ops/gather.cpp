// Reading and adding up by lists of ids: index_select, embedding, gather, scatter_add.
#include <algorithm>
#include <atomic>

#include "fit/parallel.hpp"
#include "ops/scatter.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

// Where the id at position i of ids stands: "[1, 2]".
std::string position(std::int64_t i, const Shape& shape) {
  std::int64_t at[Shape::max_rank];
  for (int a = shape.rank() - 1; a >= 0; --a) {
    at[a] = i % shape[a];
    i /= shape[a];
  }
  return Shape(at, shape.rank()).str();
}

void expect_ids(const char* op, const Tensor& ids, std::int64_t low, std::int64_t n, const char* of) {
  check::dtype(op, "ids", ids, int64);
  const auto all = ids.data<std::int64_t>();
  std::atomic<bool> within{true};
  parallel_for(all.size(), 1 << 15, [&](std::int64_t i, std::int64_t end) {
    // The first bit is set as soon as one id is below low or above n - 1: without a branch, the loop is vectorised.
    std::uint64_t signs = 0;
    const auto first = static_cast<std::uint64_t>(low), last = static_cast<std::uint64_t>(n - 1);
    for (const std::int64_t* const id = all.data(); i < end; ++i) {
      const auto v = static_cast<std::uint64_t>(id[i]);
      signs |= (v - first) | (last - v);
    }
    if (signs >> 63) within = false;
  });
  if (within) return;
  for (std::int64_t i = 0; i < all.size(); ++i)
    if (all[i] < low || all[i] >= n)
      check::fail(op, "the id at ", position(i, ids.shape()), " is ", all[i], ": ", of, " has ", n,
                  " of them, so it must be in ", low, " … ", n - 1);
}

// ---- rows ---------------------------------------------------------------------------------------------------------

// sum[ids] += v along an axis, but not where the id is `skip`; ids have been checked.
void add_rows(Tensor& sum, int axis, const Tensor& ids, const Tensor& v, std::int64_t skip) {
  dispatch(sum.dtype(), [&](auto kind) {
    using T = decltype(kind);
    if constexpr (!std::is_same_v<T, bool>)
      kernels::scatter_rows_add(sum.fresh<T>(), v.data<T>().data(), ids.data<std::int64_t>().data(), ids.numel(),
                                kernels::AxisView(sum.shape(), axis), skip);
  });
}

constexpr std::int64_t no_id = -1;

Tensor select_rows_backward(const char* op, const Tensor& v, int axis, const Tensor& ids, const Shape& shape,
                            std::int64_t skip);

// The rows of x at ids along an axis, 0 where the id is `zeroed`; the shape has them in the axis's place. Rows where
// the id is `skip` give no gradient.
Tensor select_rows(const char* op, const Tensor& x, int axis, const Tensor& ids, const Shape& shape,
                   std::int64_t zeroed, std::int64_t skip) {
  Tensor y = Tensor::empty(shape, x.dtype());
  kernels::gather_rows(y.fresh<char>(), x.raw(), ids.data<std::int64_t>().data(), ids.numel(),
                       kernels::AxisView(x.shape(), axis), size_of(x.dtype()), zeroed);
  return record(op, {x}, std::move(y), keep::saved(ids), [op, axis, skip](Backward& b) {
    const Tensor dy = b.dy(), ids = b.saved(0);
    give_sparse(
        b, [&](Tensor& sum) { add_rows(sum, axis, ids, dy, skip); },
        [&] { return select_rows_backward(op, dy, axis, ids, b.shape(0), skip); });
  });
}

// Zeros of `shape` with the rows of v added at ids along the axis, but not where the id is `skip`.
Tensor select_rows_backward(const char* op, const Tensor& v, int axis, const Tensor& ids, const Shape& shape,
                            std::int64_t skip) {
  Tensor y = zeros(shape, v.dtype());
  add_rows(y, axis, ids, v, skip);
  return record(op, {v}, std::move(y), keep::saved(ids), [op, axis, skip](Backward& b) {
    b.give(0, select_rows(op, b.dy(), axis, b.saved(0), b.shape(0), skip, skip));
  });
}

}  // namespace

Tensor index_select(const Tensor& x, int axis, const Tensor& ids) {
  axis = check::axis("index_select", x, axis);
  const std::int64_t n = x.shape()[axis];
  check::defined("index_select", "ids", ids);
  if (ids.rank() != 1) check::fail("index_select", "ids has shape ", ids.shape(), ": it must be [N]");
  expect_ids("index_select", ids, -n, n, "the axis");
  const auto given = ids.data<std::int64_t>();
  Tensor front = ids.detach();
  if (std::any_of(given.begin(), given.end(), [](std::int64_t i) { return i < 0; })) {
    front = Tensor::empty(ids.shape(), int64);
    std::transform(given.begin(), given.end(), front.fresh<std::int64_t>(),
                   [n](std::int64_t i) { return i < 0 ? i + n : i; });
  }
  return select_rows("index_select", x, axis, front, x.shape().with(axis, ids.numel()), no_id, no_id);
}

Tensor embedding(const Tensor& table, const Tensor& ids, std::int64_t padding_idx) {
  check::defined("embedding", "table", table, "ids", ids);
  if (table.rank() != 2) check::fail("embedding", "table has shape ", table.shape(), ": it must be [V, C]");
  if (padding_idx < -1 || padding_idx >= table.shape()[0])
    check::fail("embedding", "padding_idx is ", padding_idx, ": it must be a row of table ", table.shape(),
                ", or -1 for none");
  expect_ids("embedding", ids, 0, table.shape()[0], "the table");
  return select_rows("embedding", table, 0, ids, ids.shape().inserted(ids.rank(), table.shape()[1]), no_id,
                     padding_idx);
}

// ---- elements -----------------------------------------------------------------------------------------------------

namespace {

// The checks that gather and scatter_add share. Gives the axis counted from the front.
int expect_along(const char* op, const Tensor& x, int axis, const Tensor& ids) {
  axis = check::axis(op, x, axis);
  check::defined(op, "ids", ids);
  bool fits = ids.rank() == x.rank();
  for (int a = 0; a < x.rank() && fits; ++a) fits = a == axis || ids.shape()[a] <= x.shape()[a];
  if (!fits)
    check::fail(op, "x has shape ", x.shape(), ", ids ", ids.shape(), ": they must have one rank, and beside axis ",
                axis, " no size of ids may be larger");
  expect_ids(op, ids, 0, x.shape()[axis], "the axis");
  return axis;
}

}  // namespace

Tensor gather(const Tensor& x, int axis, const Tensor& ids) {
  axis = expect_along("gather", x, axis, ids);
  Tensor y = Tensor::empty(ids.shape(), x.dtype());
  kernels::gather(y.fresh<char>(), x.raw(), ids.data<std::int64_t>().data(), ids.shape(), x.shape(), axis,
                  size_of(x.dtype()));
  return record("gather", {x}, std::move(y), keep::saved(ids),
                [axis](Backward& b) { give_scattered(b, axis, b.saved(0), b.dy()); });
}

Tensor scatter_add(const Tensor& x, int axis, const Tensor& ids, const Tensor& src) {
  axis = expect_along("scatter_add", x, axis, ids);
  check::shape("scatter_add", "src", src, ids.shape());
  check::same_dtype("scatter_add", "x", x, "src", src);
  if (x.dtype() == DType::boolean) check::fail("scatter_add", "x is boolean: it must be a type of numbers");
  Tensor y = x.detach().clone();
  scatter_into(y, axis, ids, src);
  // dx = dy;  dsrc = dy where it was added
  return record("scatter_add", {x, src}, std::move(y), keep::saved(ids), [axis](Backward& b) {
    b.give(0, b.dy());
    if (b.wants(1)) b.give(1, gather(b.dy(), axis, b.saved(0)));
  });
}

}  // namespace fit
