// Operations with lists of ids: index_select, take, embedding, index_add; gather, take_along, scatter, scatter_add.
#include <algorithm>
#include <atomic>
#include <numeric>
#include <vector>

#include "fit/threads/parallel.hpp"
#include "ops/common/precision.hpp"
#include "ops/index/scatter.hpp"
#include "tensor/check.hpp"
#include "tensor/position.hpp"

namespace fit {
namespace {

[[noreturn]] void fail_id(const char* op, const Tensor& ids, std::int64_t low, std::int64_t n, const char* of) {
  const auto all = ids.data<std::int64_t>();
  std::int64_t i = 0;
  while (i + 1 < all.size() && all[i] >= low && all[i] < n) ++i;
  check::fail(op, "the id at ", position(ids.shape(), i), " is ", all[i], ": ", of, " has ", n,
              " of them, so it must be in ", low, " … ", n - 1);
}

// Whether all ids are in low … n - 1.
bool all_within(const Tensor& ids, std::int64_t low, std::int64_t n) {
  const auto all = ids.data<std::int64_t>();
  std::atomic<bool> within{true};
  parallel_for(all.size(), 1 << 15, [&](std::int64_t i, std::int64_t end) {
    if (!kernels::all_within(all.data() + i, end - i, low, n - 1)) within = false;
  });
  return within;
}

void expect_ids(const char* op, const Tensor& ids, std::int64_t low, std::int64_t n, const char* of) {
  check::dtype(op, "ids", ids, int64);
  if (!all_within(ids, low, n)) fail_id(op, ids, low, n, of);
}

// ---- rows ---------------------------------------------------------------------------------------------------------

// sum[ids] += v along an axis, except where the id is `skip`. The ids have been checked.
void add_rows(Tensor& sum, int axis, const Tensor& ids, const Tensor& v, std::int64_t skip) {
  dispatch_compute(sum.dtype(), [&](auto kind) {
    using T = decltype(kind);
    if constexpr (!std::is_same_v<T, bool>)
      kernels::scatter_rows_add(sum.fresh<T>(), v.data<T>().data(), ids.data<std::int64_t>().data(), ids.numel(),
                                kernels::AxisView(sum.shape(), axis), skip);
  });
}

constexpr std::int64_t no_id = -1;

Tensor select_rows_backward(const char* op, const Tensor& v, int axis, const Tensor& ids, const Shape& shape,
                            std::int64_t skip);

// The rows of x at ids along an axis, or 0 where the id is `zeroed`; `shape` is the shape of the result. Rows where the
// id is `skip` give no gradient.
Tensor select_rows(const char* op, const Tensor& x, int axis, const Tensor& ids, const Shape& shape,
                   std::int64_t zeroed, std::int64_t skip) {
  Tensor y = Tensor::empty(shape, x.dtype());
  kernels::gather_rows(y.fresh<char>(), x.raw(), ids.data<std::int64_t>().data(), ids.numel(),
                       kernels::AxisView(x.shape(), axis), size_of(x.dtype()), zeroed);
  return record({op, {{"axis", axis}, {"ids", ids}}}, {x}, std::move(y), keep::saved(ids),
                [op, axis, skip](Backward& b) {
                  const Tensor dy = b.dy(), ids = b.saved(0);
                  give_sparse(
                      b, [&](Tensor& sum) { add_rows(sum, axis, ids, dy, skip); },
                      [&] { return select_rows_backward(op, dy, axis, ids, b.shape(0), skip); });
                });
}

// Zeros of `shape`, with the rows of v added at ids along the axis, except where the id is `skip`.
Tensor select_rows_backward(const char* op, const Tensor& v, int axis, const Tensor& ids, const Shape& shape,
                            std::int64_t skip) {
  return with_precision(Precision::rounded, {v}, [&](const Tensor& v) {
    Tensor y = zeros(shape, v.dtype());
    add_rows(y, axis, ids, v, skip);
    return record(op, {v}, std::move(y), keep::saved(ids), [op, axis, skip](Backward& b) {
      b.give(0, select_rows(op, b.dy(), axis, b.saved(0), b.shape(0), skip, skip));
    });
  });
}

}  // namespace

Tensor index_select(const Tensor& x, int axis, const Tensor& ids) {
  axis = check::axis("index_select", x, axis);
  const std::int64_t n = x.shape()[axis];
  check::defined("index_select", "ids", ids);
  if (ids.rank() != 1) check::fail("index_select", "ids has shape ", ids.shape(), ": it must be [N]");
  check::dtype("index_select", "ids", ids, int64);
  Tensor front = ids.detach();
  if (!all_within(ids, 0, n)) {
    expect_ids("index_select", ids, -n, n, "the axis");
    const auto given = ids.data<std::int64_t>();
    front = Tensor::empty(ids.shape(), int64);
    std::transform(given.begin(), given.end(), front.fresh<std::int64_t>(),
                   [n](std::int64_t i) { return i < 0 ? i + n : i; });
  }
  return select_rows("index_select", x, axis, front, x.shape().with(axis, ids.numel()), no_id, no_id);
}

int expect_slices(const char* op, const Tensor& x, int axis, const Tensor& ids, const Tensor& src) {
  axis = check::axis(op, x, axis);
  check::defined(op, "ids", ids);
  if (ids.rank() != 1) check::fail(op, "ids has shape ", ids.shape(), ": it must be [N]");
  expect_ids(op, ids, 0, x.shape()[axis], "the axis");
  check::shape(op, "src", src, x.shape().with(axis, ids.numel()));
  check::same_dtype(op, "x", x, "src", src);
  if (x.dtype() == DType::boolean) check::fail(op, "x is boolean: it must be a type of numbers");
  return axis;
}

Tensor index_add(const Tensor& x, int axis, const Tensor& ids, const Tensor& src) {
  axis = expect_slices("index_add", x, axis, ids, src);
  return with_precision(Precision::rounded, {x, src}, [&](const Tensor& x, const Tensor& src) {
    Tensor y = x.detach().clone();
    add_rows(y, axis, ids, src, no_id);
    // dx = dy;  dsrc = dy at the elements to which src was added
    return record("index_add", {x, src}, std::move(y), keep::saved(ids), [axis](Backward& b) {
      b.give(0, b.dy());
      if (b.wants(1)) b.give(1, index_select(b.dy(), axis, b.saved(0)));
    });
  });
}

namespace {

// Writes the indices from `begin` to `end` where a mask is true. No branch depends on the mask.
void write_places(std::int64_t* out, const bool* on, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t part = 64;
  for (std::int64_t i = begin; i < end; i += part) {
    std::int64_t found[part], count = 0;
    for (std::int64_t k = i; k < std::min(i + part, end); ++k) {
      found[count] = k;
      count += on[k];
    }
    out = std::copy_n(found, count, out);
  }
}

// The flat indices where a mask is true.
Tensor places(const Tensor& mask) {
  constexpr std::int64_t block = 1 << 15;
  const auto on = mask.data<bool>();
  const std::int64_t blocks = (on.size() + block - 1) / block;
  std::vector<std::int64_t> first(static_cast<std::size_t>(blocks) + 1);  // of each block, the place in the list
  const auto each_block = [&](const auto& body) {
    parallel_for(blocks, 1, [&](std::int64_t b, std::int64_t end) {
      for (; b < end; ++b) body(static_cast<std::size_t>(b), b * block, std::min(on.size(), (b + 1) * block));
    });
  };
  each_block([&](std::size_t b, std::int64_t from, std::int64_t to) {
    first[b + 1] = std::count(on.begin() + from, on.begin() + to, true);
  });
  std::partial_sum(first.begin(), first.end(), first.begin());
  Tensor ids = Tensor::empty({first.back()}, int64);
  std::int64_t* const out = ids.fresh<std::int64_t>();
  each_block(
      [&](std::size_t b, std::int64_t from, std::int64_t to) { write_places(out + first[b], on.data(), from, to); });
  return ids;
}

// The sizes of `lead`, followed by those of x from axis `from`.
Shape joined(Shape lead, const Tensor& x, int from) {
  for (int a = from; a < x.rank(); ++a) lead = lead.inserted(lead.rank(), x.shape()[a]);
  return lead;
}

}  // namespace

Tensor take(const Tensor& x, const Tensor& where) {
  check::defined("take", "x", x, "where", where);
  if (where.dtype() == boolean) {
    bool fits = where.rank() <= x.rank();
    for (int a = 0; a < where.rank() && fits; ++a) fits = where.shape()[a] == x.shape()[a];
    if (!fits)
      check::fail("take", "x has shape ", x.shape(), ", the mask ", where.shape(),
                  ": the mask's sizes must be those of the first axes");
    const Tensor ids = places(where);
    const Tensor rows = reshape(x, joined({where.numel()}, x, where.rank()));
    return select_rows("index_select", rows, 0, ids, rows.shape().with(0, ids.numel()), no_id, no_id);
  }
  check::axis("take", x, 0);
  if (where.dtype() != int64)
    check::fail("take", "where is ", where.dtype(), ": it must be int64 (ids) or boolean (a mask)");
  expect_ids("take", where, -x.shape()[0], x.shape()[0], "the first axis");
  return reshape(index_select(x, 0, reshape(where, Shape{where.numel()})), joined(where.shape(), x, 1));
}
const Tensor Tensor::operator[](const Tensor& where) const { return fit::take(*this, where); }

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  check::defined("masked_select", "x", x);
  check::dtype("masked_select", "the mask", mask, boolean);
  if (check::broadcast("masked_select", x.shape(), mask.shape()) != x.shape())
    check::fail("masked_select", "the mask has shape ", mask.shape(), ", x ", x.shape(),
                ": the mask must broadcast to the shape of x");
  return take(x, mask.shape() == x.shape() ? mask : broadcast_to(mask, x.shape()));
}

Tensor nonzero(const Tensor& x) {
  check::defined("nonzero", "x", x);
  const Tensor at = places(x.detach().to(boolean));
  const int rank = x.rank(), last = rank - 1;
  if (last <= 0) return reshape(last == 0 ? at : slice(at, 0, 0, 0), {at.numel(), rank});
  Tensor y = Tensor::empty({at.numel(), rank}, int64);
  std::int64_t* const out = y.fresh<std::int64_t>();
  const auto ids = at.data<std::int64_t>();
  const std::int64_t n = x.shape()[last];
  parallel_for(at.numel(), 1 << 14, [&](std::int64_t i, std::int64_t end) {
    for (std::int64_t next; i < end; i = next) {  // ids i … next - 1 are in one row along the last axis
      std::int64_t row = ids[i] / n;
      const std::int64_t first = row * n;
      for (next = i; next < end && ids[next] < first + n; ++next) out[next * rank + last] = ids[next] - first;
      for (int a = last - 1; a >= 0; --a) {
        const std::int64_t place = row % x.shape()[a];
        for (std::int64_t k = i; k < next; ++k) out[k * rank + a] = place;
        row /= x.shape()[a];
      }
    }
  });
  return y;
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

// Checks shared by gather and scatters, except those of the ids' values. Returns the axis as a number >= 0.
int expect_along(const char* op, const Tensor& x, int axis, const Tensor& ids) {
  axis = check::axis(op, x, axis);
  check::defined(op, "ids", ids);
  bool fits = ids.rank() == x.rank();
  for (int a = 0; a < x.rank() && fits; ++a) fits = a == axis || ids.shape()[a] <= x.shape()[a];
  if (!fits)
    check::fail(op, "x has shape ", x.shape(), ", ids ", ids.shape(), ": they must have one rank, and beside axis ",
                axis, " no size of ids may be larger");
  check::dtype(op, "ids", ids, int64);
  return axis;
}

}  // namespace

int expect_scatter(const char* op, const Tensor& x, int axis, const Tensor& ids, const Tensor& src) {
  axis = expect_along(op, x, axis, ids);
  expect_ids(op, ids, 0, x.shape()[axis], "the axis");
  check::shape(op, "src", src, ids.shape());
  check::same_dtype(op, "x", x, "src", src);
  return axis;
}

Tensor gather(const Tensor& x, int axis, const Tensor& ids) {
  axis = expect_along("gather", x, axis, ids);
  Tensor y = Tensor::empty(ids.shape(), x.dtype());
  if (!kernels::gather(y.fresh<char>(), x.raw(), ids.data<std::int64_t>().data(), ids.shape(), x.shape(), axis,
                       size_of(x.dtype())))
    fail_id("gather", ids, 0, x.shape()[axis], "the axis");
  return record({"gather", {{"axis", axis}, {"ids", ids}}}, {x}, std::move(y), keep::saved(ids),
                [axis](Backward& b) { give_scattered(b, axis, b.saved(0), b.dy()); });
}

Tensor take_along(const Tensor& x, int axis, const Tensor& ids) {
  axis = check::axis("take_along", x, axis);
  check::dtype("take_along", "ids", ids, int64);
  if (ids.rank() != x.rank())
    check::fail("take_along", "x has shape ", x.shape(), ", ids ", ids.shape(), ": they must have one rank");
  const Shape others = check::broadcast("take_along", x.shape().with(axis, 1), ids.shape().with(axis, 1));
  const auto wide = [&](const Tensor& t) {
    const Shape shape = others.with(axis, t.shape()[axis]);
    return t.shape() == shape ? t : broadcast_to(t, shape);
  };
  expect_ids("take_along", ids, 0, x.shape()[axis], "the axis");
  return gather(wide(x), axis, wide(ids));
}

// Composed of operations: x with 0 at the written elements, plus src.
Tensor scatter(const Tensor& x, int axis, const Tensor& ids, const Tensor& src) {
  axis = expect_scatter("scatter", x, axis, ids, src);
  if (x.dtype() == DType::boolean) return scatter(x.to(int64), axis, ids, src.to(int64)).to(boolean);
  const Tensor written = scatter_add(zeros(x.shape(), int64), axis, ids, ones_like(ids));
  if (any(written > 1).item<bool>())
    check::fail("scatter", "ids of shape ", ids.shape(), " name an element of x ", x.shape(),
                " more than once along axis ", axis, ": each can be written once; use scatter_add() to add up");
  return scatter_add(masked_fill(x, written > 0, 0), axis, ids, src);
}

Tensor scatter_add(const Tensor& x, int axis, const Tensor& ids, const Tensor& src) {
  axis = expect_scatter("scatter_add", x, axis, ids, src);
  if (x.dtype() == DType::boolean) check::fail("scatter_add", "x is boolean: it must be a type of numbers");
  return with_precision(Precision::rounded, {x, src}, [&](const Tensor& x, const Tensor& src) {
    Tensor y = x.detach().clone();
    scatter_into(y, axis, ids, src);
    // dx = dy;  dsrc = dy at the elements to which src was added
    return record("scatter_add", {x, src}, std::move(y), keep::saved(ids), [axis](Backward& b) {
      b.give(0, b.dy());
      if (b.wants(1)) b.give(1, gather(b.dy(), axis, b.saved(0)));
    });
  });
}

}  // namespace fit
