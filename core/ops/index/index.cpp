// x[{...}]: reading (index, slice), its adjoint, and writing (index_put_).
#include <algorithm>
#include <utility>

#include "kernels/add.hpp"
#include "kernels/copy.hpp"
#include "ops/elementwise/broadcast.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "ops/elementwise/inplace.hpp"
#include "tensor/dispatch.hpp"

namespace fit {

Index::Index(std::vector<std::int64_t> l) : kind(Kind::list), list(std::move(l)) {}
Index::Index(std::initializer_list<std::int64_t> l) : kind(Kind::list), list(l) {}
Index::Index(const Tensor& given) : kind(Kind::list), ids(std::make_shared<const Tensor>(given)) {}

namespace {

using kernels::Strides;

// The elements that the brackets select: element i along axis a is start[a] + i step[a], or entry i of the list.
// Trivially copyable, so that adjoints can capture it.
struct Region {
  Shape whole;   // shape of the indexed tensor
  Shape taken;   // number of elements along each axis; 1 for a number
  Shape result;  // without the axes of numbers, with the new axes
  Strides start{}, step{};
  int place[Shape::max_rank] = {};                 // index of the axis in the result; -1: none
  int list_axes[Shape::max_rank] = {}, lists = 0;  // the axes of lists, which have one place
  bool lists_first = false;                        // whether that place is the first, as something is between lists
};

// A region and its lists, as int64 [lists, N], not negative; undefined without a list.
struct Place {
  Region region, rest;  // rest: with all elements instead of lists
  Tensor list;
};

std::int64_t from_front(const char* op, std::int64_t i, int axis, const Shape& shape) {
  const std::int64_t n = shape[axis];
  if (i < -n || i >= n)
    check::fail(op, "index ", i, " is out of range for axis ", axis, " of shape ", shape, ": it must be in ", -n, " … ",
                n - 1);
  return i < 0 ? i + n : i;
}

// Python's rule for start:stop:step over n elements. Returns the first element and the count.
std::pair<std::int64_t, std::int64_t> resolve(const char* op, const Range& r, std::int64_t n) {
  if (r.step == 0) check::fail(op, "the step of a range is 0: it must not be");
  const bool back = r.step < 0;
  const std::int64_t low = back ? -1 : 0, high = back ? n - 1 : n;
  const auto bound = [&](std::int64_t i, std::int64_t absent) {
    return i == Range::none ? absent : std::clamp(i < 0 ? i + n : i, low, high);
  };
  const std::int64_t start = bound(r.start, back ? high : low), stop = bound(r.stop, back ? low : high);
  const std::int64_t span = back ? start - stop : stop - start;
  // (span - 1) / |step| + 1 without |INT64_MIN|, which would overflow
  return {start, span <= 0 ? 0 : back ? (1 - span) / r.step + 1 : (span - 1) / r.step + 1};
}

// The ids of a list for an axis of n elements; of a mask, where it is true.
std::vector<std::int64_t> numbers_of(const char* op, const Index& i, std::int64_t n) {
  if (!i.ids) return i.list;
  const Tensor& ids = *i.ids;
  const bool mask = ids.dtype() == boolean;
  if (!mask) check::dtype(op, "ids", ids, int64);
  if (ids.rank() != 1)
    check::fail(op, mask ? "a mask" : "ids", " has shape ", ids.shape(), ": beside other entries it must be [N]",
                mask ? "" : "; flatten it, and reshape the result");
  if (!mask) return ids.to_vector<std::int64_t>();
  if (ids.size(0) != n) check::fail(op, "a mask has shape ", ids.shape(), ": its axis has size ", n);
  return nonzero(ids).to_vector<std::int64_t>();
}

// The tensor of x[{ids}] or x[{mask}], which is that of x[ids] or x[mask]; null for other entries.
const Tensor* only_tensor(const std::vector<Index>& where) { return where.size() == 1 ? where[0].ids.get() : nullptr; }

// Moves the place of the lists to the front.
void move_lists_first(Region& r) {
  const int from = r.place[r.list_axes[0]];
  const std::int64_t n = r.result[from];
  r.result = r.result.erased(from).inserted(0, n);
  for (int a = 0; a < r.whole.rank(); ++a)
    if (r.place[a] >= 0 && r.place[a] < from) ++r.place[a];
  for (int k = 0; k < r.lists; ++k) r.place[r.list_axes[k]] = 0;
}

// Lays out the region of the entries of x[{...}], one axis of x after the other.
class Layout {
 public:
  Layout(const char* op, const Shape& whole) : op_(op), whole_(whole) { region_.whole = whole; }

  // `named`: the entries that are neither an ellipsis nor newaxis.
  void add(const Index& i, int named) {
    if (i.kind != Index::Kind::number) ++at_;
    switch (i.kind) {
      case Index::Kind::number:
        return along(from_front(op_, i.number, axis_, whole_), 1, 1, false);
      case Index::Kind::range: {
        const auto [start, n] = resolve(op_, i.span, whole_[axis_]);
        return along(start, i.span.step, n, true);
      }
      case Index::Kind::list:
        return add_list(numbers_of(op_, i, whole_[axis_]));
      case Index::Kind::ellipsis:
        return rest(whole_.rank() - named);
      case Index::Kind::newaxis:
        if (rank_ >= Shape::max_rank) check::fail(op_, "the result has more than ", Shape::max_rank, " axes");
        result_[rank_++] = 1;
    }
  }
  // Takes the axes that are left whole, and returns the region.
  const Region& complete() {
    rest(whole_.rank() - axis_);
    region_.taken = Shape(taken_, axis_);
    region_.result = Shape(result_, rank_);
    return region_;
  }
  // The numbers of the lists, [lists, length].
  Tensor list() const { return tensor(ids_, {region_.lists, length_}); }

 private:
  void along(std::int64_t start, std::int64_t step, std::int64_t n, bool stays) {
    region_.start[axis_] = n > 0 ? start : 0;
    region_.step[axis_] = n > 1 ? step : 1;  // so that no stride overflows
    region_.place[axis_] = stays ? rank_ : -1;
    if (stays) result_[rank_++] = n;
    taken_[axis_++] = n;
  }
  void rest(int axes) {
    for (; axes > 0; --axes) along(0, 1, whole_[axis_], true);
  }
  void add_list(const std::vector<std::int64_t>& numbers) {
    Region& r = region_;
    if (const auto n = static_cast<std::int64_t>(numbers.size()); r.lists > 0 && n != length_)
      check::fail(op_, "a list has ", length_, " numbers, another ", n,
                  ": lists are read in pairs, and must have one length; for all combinations, use index_select() "
                  "for each list");
    else
      length_ = n;
    for (const std::int64_t id : numbers) ids_.push_back(from_front(op_, id, axis_, whole_));
    if (r.lists > 0) {
      r.lists_first |= list_at_ + 1 != at_;
      along(0, 1, 1, false);
      r.place[axis_ - 1] = r.place[r.list_axes[0]];
    } else {
      along(0, 1, length_, true);
    }
    r.list_axes[r.lists++] = axis_ - 1;
    list_at_ = at_;
  }

  const char* op_;
  const Shape& whole_;
  Region region_;
  std::int64_t taken_[Shape::max_rank], result_[2 * Shape::max_rank];
  int axis_ = 0, rank_ = 0, at_ = 0, list_at_ = 0;
  std::vector<std::int64_t> ids_;
  std::int64_t length_ = 0;  // of the lists
};

Place resolve(const char* op, const std::vector<Index>& where, const Shape& whole) {
  const auto count = [&](Index::Kind k) {
    return static_cast<int>(std::count_if(where.begin(), where.end(), [k](const Index& i) { return i.kind == k; }));
  };
  const int ellipses = count(Index::Kind::ellipsis), fresh = count(Index::Kind::newaxis);
  const int named = static_cast<int>(where.size()) - ellipses - fresh;
  if (named > whole.rank())
    check::fail(op, named, " entries for shape ", whole, ": there can be at most one for each of its ", whole.rank(),
                " axes");
  if (ellipses > 1) check::fail(op, ellipses, " ellipses: there can be at most one");

  Layout layout(op, whole);
  for (const Index& i : where) layout.add(i, named);
  Place p;
  Region& r = p.region = layout.complete();
  if (r.lists == 0) return p;
  p.list = layout.list();
  if (r.lists_first) move_lists_first(r);
  std::vector<Index> others = where;
  for (Index& i : others)
    if (i.kind == Index::Kind::list) i = range();
  p.rest = resolve(op, others, whole).region;
  return p;
}

// Calls body(sizes, at, strides, row) once, or once for each entry of the list. The block has shape `sizes` and begins
// at element `at` of the indexed tensor. In the result, it is at index `row` of the list's axis.
template <class Body>
void each_block(const Region& r, const Tensor& list, const Body& body) {
  if (r.taken.numel() == 0) return;  // then the axes may have any size, and offsets could overflow
  const Strides full = kernels::row_major(r.whole);
  Strides strides{};
  std::int64_t at = 0;
  for (int a = 0; a < r.whole.rank(); ++a) {
    at += r.start[a] * full[a];
    strides[a] = r.step[a] * full[a];
  }
  if (r.lists == 0) return body(r.taken, at, strides, 0);
  const Shape block = r.taken.with(r.list_axes[0], 1);
  const auto ids = list.data<std::int64_t>();
  const std::int64_t rows = list.size(1);
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 15) / std::max<std::int64_t>(1, block.numel()));
  parallel_for(rows, grain, [&](std::int64_t row, std::int64_t end) {
    for (; row < end; ++row) {
      std::int64_t first = at;
      for (int k = 0; k < r.lists; ++k) first += ids[k * rows + row] * full[r.list_axes[k]];
      body(block, first, strides, row);
    }
  });
}

// Reads the region of x, which has no list.
Tensor taken(const Tensor& x, const Region& r) {
  Tensor y = Tensor::empty(r.result, x.dtype());
  const std::int64_t size = size_of(x.dtype());
  each_block(r, {}, [&](const Shape& sizes, std::int64_t at, const Strides& strides, std::int64_t) {
    kernels::copy(sizes, size, y.fresh<char>(), kernels::row_major(r.taken),
                  static_cast<const char*>(x.raw()) + at * size, strides);
  });
  return y;
}

// Writes v into the region of y. v has y's type and broadcasts to the region's result.
void write(Tensor& y, const Region& r, const Tensor& list, const Tensor& v) {
  const std::int64_t size = size_of(y.dtype());
  const Strides full = kernels::row_major(v.shape());
  const int lead = r.result.rank() - v.rank();
  Strides part{};
  for (int a = 0; a < r.whole.rank(); ++a)
    if (const int axis = r.place[a] - lead; r.place[a] >= 0 && axis >= 0 && v.shape()[axis] != 1) part[a] = full[axis];
  each_block(r, list, [&](const Shape& sizes, std::int64_t at, const Strides& strides, std::int64_t row) {
    kernels::copy(sizes, size, y.fresh<char>() + at * size, strides,
                  static_cast<const char*>(v.raw()) + row * (r.lists == 0 ? 0 : part[r.list_axes[0]]) * size, part);
  });
}

// Adds v to the region of y, which has no list. v has y's floating type.
void add_to(Tensor& y, const Region& r, const Tensor& v) {
  if (is_narrow(y.dtype())) {
    Tensor part = taken(y, r);
    add_into(part, v);
    return write(y, r, {}, part);
  }
  dispatch_compute_floating(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    each_block(r, {}, [&](const Shape& sizes, std::int64_t at, const Strides& strides, std::int64_t) {
      kernels::add(sizes, y.fresh<T>() + at, strides, v.data<T>().data(), kernels::row_major(r.taken));
    });
  });
}

Tensor slice_backward(const char* op, const Tensor& v, const Region& r);

// Reads a region without a list.
Tensor take(const char* op, const Tensor& x, const Region& r) {
  const int n = r.whole.rank();
  return record({op,
                 {{"taken", r.taken},
                  {"start", Span<const std::int64_t>(r.start.data(), n)},
                  {"step", Span<const std::int64_t>(r.step.data(), n)}}},
                {x}, taken(x, r), keep::nothing, [op, r](Backward& b) {
                  if (b.recording()) return b.give(0, slice_backward(op, b.dy(), r));
                  // dx = dy in the region, 0 elsewhere. Adds into the gradient in place: many slices of one tensor cost
                  // no more than one pass over it.
                  Backward::Target t = b.target(0);
                  const Tensor part = b.dy().to(t.grad.dtype());
                  if (t.add) return add_to(t.grad, r, part);
                  kernels::zero(t.grad.fresh<char>(), t.grad.numel() * size_of(t.grad.dtype()));
                  write(t.grad, r, {}, part);
                });
}

// Zeros with v written into the region: the adjoint of take(), and take() is its adjoint.
Tensor slice_backward(const char* op, const Tensor& v, const Region& r) {
  Tensor y = zeros(r.whole, v.dtype());
  write(y, r, {}, v);
  return record(op, {v}, std::move(y), keep::nothing, [op, r](Backward& b) { b.give(0, take(op, b.dy(), r)); });
}

bool is_all(const Region& r) {
  const auto from_first = [](std::int64_t i) { return i == 0; };
  const auto by_one = [](std::int64_t i) { return i == 1; };
  const int n = r.whole.rank();
  return r.result == r.whole && r.taken == r.whole && std::all_of(r.start.begin(), r.start.begin() + n, from_first) &&
         std::all_of(r.step.begin(), r.step.begin() + n, by_one);
}

// The number of each element that lists name, if their axes were one axis: int64 [N].
Tensor joined_ids(const Place& p) {
  const std::int64_t n = p.list.size(1);
  Tensor joint = Tensor::empty({n}, int64);
  const auto ids = p.list.data<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t id = 0;
    for (int k = 0; k < p.region.lists; ++k) id = id * p.region.whole[p.region.list_axes[k]] + ids[k * n + i];
    joint.fresh<std::int64_t>()[i] = id;
  }
  return joint;
}

// Reads a region: first the entries that are no lists, then the rows that the lists name, whose axes become one.
Tensor read(const char* op, const Tensor& x, const Place& p) {
  if (!p.list.defined()) return take(op, x, p.region);
  const Region &r = p.region, &rest = p.rest;
  Tensor y = is_all(rest) ? x : take(op, x, rest);
  const int place = r.place[r.list_axes[0]];
  if (r.lists == 1) return index_select(y, place, joined_ids(p));
  std::vector<int> order;  // the axes of lists, then the others
  std::vector<std::int64_t> sizes{1};
  for (int k = 0; k < r.lists; ++k) {
    order.push_back(rest.place[r.list_axes[k]]);
    sizes[0] *= r.whole[r.list_axes[k]];
  }
  for (int a = 0; a < y.rank(); ++a) {
    if (std::find(order.begin(), order.begin() + r.lists, a) != order.begin() + r.lists) continue;
    order.push_back(a);
    sizes.push_back(y.size(a));
  }
  return movedim(index_select(reshape(permute(y, order), Shape(sizes)), 0, joined_ids(p)), 0, place);
}

constexpr const char* put_name = "index_put_";

// Writes v into the region of y, which holds x's elements.
Tensor put(Tensor y, const Tensor& x, const Place& p, const Tensor& v) {
  write(y, p.region, p.list, v);
  return record(put_name, {x, v}, std::move(y), keep::saved(p.list), [r = p.region, rest = p.rest](Backward& b) {
    // dx = dy, 0 in the region;  dv = dy[where], which give() sums to v's shape
    const Place p{r, rest, b.has_saved(0) ? b.saved(0) : Tensor()};
    if (b.wants(0)) {
      const Tensor dy = b.dy();
      b.give(0, put(dy.detach().clone(), dy, p, zeros({}, dy.dtype())));
    }
    if (b.wants(1)) b.give(1, read(put_name, reshape(b.dy(), r.whole), p));  // a mask's axes are joined into one
  });
}

void expect_distinct(const Place& p) {
  if (!p.list.defined()) return;
  std::vector<std::int64_t> ids = joined_ids(p).to_vector<std::int64_t>();
  std::sort(ids.begin(), ids.end());
  if (const auto twice = std::adjacent_find(ids.begin(), ids.end()); twice != ids.end())
    check::fail(put_name, "the list for axis ", p.region.list_axes[0], " of shape ", p.region.whole, " names element ",
                *twice, " more than once: each can be written once; use scatter_add() to add up");
}

}  // namespace

Tensor index(const Tensor& x, const std::vector<Index>& where) {
  check::defined("index", "x", x);
  if (const Tensor* const only = only_tensor(where)) return fit::take(x, *only);
  return read("index", x, resolve("index", where, x.shape()));
}

Tensor slice(const Tensor& x, int axis, std::int64_t start, std::int64_t stop, std::int64_t step) {
  std::vector<Index> where(static_cast<std::size_t>(check::axis("slice", x, axis)), range());
  where.emplace_back(range(start, stop, step));
  return take("slice", x, resolve("slice", where, x.shape()).region);
}

namespace {

// Throws Error if x's integer type can't hold a floating value exactly.
void expect_integers(const Tensor& x, const Tensor& v) {
  if (is_floating(x.dtype()) || x.dtype() == boolean || !is_floating(v.dtype())) return;
  const Tensor wide = to_dtype_no_grad(v, float64);
  for (const double number : wide.data<double>())
    if (!Scalar(number).is_integer())
      check::fail(put_name, "the tensor is ", x.dtype(), ", the value ", v.dtype(), " with ", number,
                  ": convert the value with .to(), or the tensor with .to(float32)");
}

void put_in_place(Tensor& x, const Place& p, const Tensor& v) {
  if (!broadcasts_to(v.shape(), p.region.result))
    check::fail(put_name, "the value has shape ", v.shape(), ": it does not broadcast to ", p.region.result,
                ", the shape of what is written");
  expect_integers(x, v);
  const bool shared = v.impl()->storage == x.impl()->storage;
  const Tensor value = v.dtype() != x.dtype() ? v.to(x.dtype()) : shared ? v.clone() : v;
  if (must_record(put_name, x, value)) {
    // No other tensor reads the buffer, so the write is in place, and only the history is new.
    rebind_storage(x, put(x.alias(x.shape()), x, p, value));
  } else {
    x.before_write(put_name);
    write(x, p.region, p.list, value);
  }
}

}  // namespace

void index_put_(Tensor& x, const std::vector<Index>& where, const Tensor& v) {
  check::defined(put_name, "x", x, "the value", v);
  if (const Tensor* const only = only_tensor(where)) return index_put_(x, *only, v);
  const Place p = resolve(put_name, where, x.shape());
  expect_distinct(p);
  put_in_place(x, p, v);
}

void index_put_(Tensor& x, const Tensor& where, const Tensor& v) {
  check::defined(put_name, "x", x, "where", where, "the value", v);
  const bool mask = where.dtype() == boolean;
  // The axes of a mask are joined into one. Ids of several axes are one list.
  const int axes = mask ? where.rank() : 1;
  if (mask && (axes > x.rank() || !std::equal(where.shape().begin(), where.shape().end(), x.shape().begin())))
    check::fail(put_name, "x has shape ", x.shape(), ", the mask ", where.shape(),
                ": the mask's sizes must be those of the first axes");
  if (!mask) {
    check::axis(put_name, x, 0);
    if (where.dtype() != int64)
      check::fail(put_name, "where is ", where.dtype(), ": it must be int64 (ids) or boolean (a mask)");
  }
  std::vector<std::int64_t> rows{mask ? where.numel() : x.shape()[0]};
  rows.insert(rows.end(), x.shape().begin() + axes, x.shape().end());
  const Tensor ids = mask ? nonzero(where.flatten()) : where;
  const Place p = resolve(put_name, {Index(ids.to_vector<std::int64_t>())}, Shape(rows));
  expect_distinct(p);
  if (mask || where.rank() == 1) return put_in_place(x, p, v);
  std::vector<std::int64_t> taken(where.shape().begin(), where.shape().end());
  taken.insert(taken.end(), rows.begin() + 1, rows.end());
  put_in_place(x, p, reshape(broadcast_to(v, Shape(taken)), p.region.result));
}

// ---- brackets -----------------------------------------------------------------------------------------------------

const Tensor Tensor::operator[](std::initializer_list<Index> where) const { return index(*this, where); }
Indexed Tensor::operator[](std::initializer_list<Index> where) { return Indexed(*this, where); }

Indexed Tensor::operator[](const Tensor& where) { return Indexed(*this, where); }

Indexed::Indexed(Tensor base, std::vector<Index> where)
    : Tensor(index(base, where)), base_(std::move(base)), where_(std::move(where)) {}
Indexed::Indexed(Tensor base, Tensor ids)
    : Tensor(fit::take(base, ids)), base_(std::move(base)), ids_(std::move(ids)) {}

void Indexed::put(const Tensor& v) { ids_.defined() ? index_put_(base_, ids_, v) : index_put_(base_, where_, v); }
void Indexed::operator=(const Tensor& v) && { put(v); }
void Indexed::operator=(Scalar v) && { put(number_of(put_name, v, dtype())); }

namespace {
// Checks that x's type can hold the result of `op`.
const Tensor& fitting(const char* op, const Tensor& x, const Tensor& result) {
  if (result.dtype() > x.dtype() && !is_floating(x.dtype()))
    check::fail(op, "the tensor is ", x.dtype(), ", the result ", result.dtype(), ": convert the tensor with .to(",
                result.dtype(), ")");
  return result;
}
}  // namespace

#define FIT_INDEXED(sign, name)                                                                       \
  void Indexed::operator sign(const Tensor& v)&& { put(fitting(#name, *this, fit::name(*this, v))); } \
  void Indexed::operator sign(Scalar v)&& { put(fitting(#name, *this, fit::name(*this, v))); }
FIT_INDEXED(+=, add)
FIT_INDEXED(-=, sub)
FIT_INDEXED(*=, mul)
FIT_INDEXED(/=, div)
#undef FIT_INDEXED

}  // namespace fit
