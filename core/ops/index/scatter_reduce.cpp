// scatter_reduce, index_reduce and segment_softmax.
#include <limits>

#include "kernels/rows/rows_softmax.hpp"
#include "ops/common/precision.hpp"
#include "ops/index/scatter.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

// Whether an element is the result or NaN (then the result is NaN, too).
Tensor is_extreme(const Tensor& x, const Tensor& extreme) { return x == extreme || isnan(x); }

// Numbers of the slices along an axis, [N], as those of all elements of a shape.
Tensor of_elements(const Tensor& of_slices, int axis, const Shape& shape) {
  Shape along = shape;
  for (int a = 0; a < shape.rank(); ++a)
    if (a != axis) along = along.with(a, 1);
  return broadcast_to(reshape(of_slices, along), shape);
}

// y with elements of src instead of smaller (or larger) ones. `slices`: ids are [N]. `replaced`: where x was left out;
// undefined if nowhere.
Tensor extreme_of(const char* op, const Tensor& x, int axis, const Tensor& ids, bool slices, const Tensor& src,
                  bool largest, const Tensor& replaced) {
  Tensor y = x.detach().clone();
  const Tensor each = slices ? of_elements(ids, axis, src.shape()) : ids;
  dispatch_compute(x.dtype(), [&](auto kind) {
    using T = decltype(kind);
    if constexpr (!std::is_same_v<T, bool>) {
      using Limits = std::numeric_limits<T>;
      const T high = Limits::has_infinity ? Limits::infinity() : Limits::max();
      const T low = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
      if (replaced.defined()) y = masked_fill(y, replaced, largest ? low : high);
      (largest ? kernels::scatter_max<T> : kernels::scatter_min<T>)(y.fresh<T>(), src.data<T>().data(),
                                                                    each.data<std::int64_t>().data(), each.shape(),
                                                                    y.shape(), axis);
    }
  });
  return record(
      op, {x, src}, std::move(y), keep::inputs | keep::output | keep::saved(ids, replaced),
      [axis, slices](Backward& b) {
        // dy is divided among all elements that are equal to the result.
        const Tensor ids = b.saved(0);
        const auto read = [&](const Tensor& y) { return slices ? index_select(y, axis, ids) : gather(y, axis, ids); };
        Tensor from_x = is_extreme(b.x(0), b.y());
        if (b.has_saved(1)) from_x = logical_and(from_x, logical_not(b.saved(1)));
        const Tensor from_src = is_extreme(b.x(1), read(b.y()));
        const DType t = b.y().dtype();
        const Tensor share = b.dy() / (slices ? index_add : scatter_add)(from_x.to(t), axis, ids, from_src.to(t));
        if (b.wants(0)) b.give(0, where(from_x, share, 0));
        if (b.wants(1)) b.give(1, where(from_src, read(share), 0));
      });
}

// How many elements of src are joined with each one of x.
Tensor counts_of(const Tensor& x, int axis, const Tensor& ids, bool slices) {
  if (slices) return of_elements(bincount(ids, {}, x.shape()[axis]), axis, x.shape());
  return scatter_add(zeros(x.shape(), int64), axis, ids, ones_like(ids));
}

// scatter_reduce(), or index_reduce() for `slices`. The other arguments have been checked.
Tensor reduced(const char* op, const Tensor& x, int axis, const Tensor& ids, bool slices, const Tensor& src,
               Reduce reduce, IncludeSelf include_self) {
  if (x.dtype() == boolean) check::fail(op, "x is boolean: it must be a type of numbers");
  if (reduce == Reduce::mean) check::floating(op, "x", x);
  Tensor counts, replaced;
  if (reduce == Reduce::mean || include_self == IncludeSelf::no) counts = counts_of(x, axis, ids, slices);
  if (include_self == IncludeSelf::no) replaced = counts > 0;
  return with_precision(Precision::rounded, {x, src}, [&](const Tensor& x, const Tensor& src) {
    if (reduce == Reduce::amax || reduce == Reduce::amin)
      return extreme_of(op, x, axis, ids, slices, src, reduce == Reduce::amax, replaced);
    const Tensor from = replaced.defined() ? masked_fill(x, replaced, 0) : x;
    const Tensor sums = (slices ? index_add : scatter_add)(from, axis, ids, src);
    if (reduce == Reduce::sum) return sums;
    return sums / (replaced.defined() ? clamp_min(counts, 1) : counts + 1).to(x.dtype());
  });
}

}  // namespace

Tensor scatter_reduce(const Tensor& x, int axis, const Tensor& ids, const Tensor& src, Reduce reduce,
                      IncludeSelf include_self) {
  axis = expect_scatter("scatter_reduce", x, axis, ids, src);
  return reduced("scatter_reduce", x, axis, ids, false, src, reduce, include_self);
}

Tensor index_reduce(const Tensor& x, int axis, const Tensor& ids, const Tensor& src, Reduce reduce,
                    IncludeSelf include_self) {
  axis = expect_slices("index_reduce", x, axis, ids, src);
  return reduced("index_reduce", x, axis, ids, true, src, reduce, include_self);
}

namespace {

// The sums of the slices of x with equal ids, for each slice.
Tensor segment_sums(const Tensor& x, const Tensor& ids, int axis, std::int64_t segments) {
  return index_select(index_add(zeros(x.shape().with(axis, segments), x.dtype()), axis, ids, x), axis, ids);
}

}  // namespace

Tensor segment_softmax(const Tensor& x, const Tensor& given_ids, int axis) {
  constexpr const char* op = "segment_softmax";
  check::floating(op, "x", x);
  axis = check::axis(op, x, axis);
  check::dtype(op, "ids", given_ids, int64);
  check::shape(op, "ids", given_ids, {x.shape()[axis]});
  if (any(given_ids < 0).item<bool>())
    check::fail(op, "an id is ", min(given_ids).item<std::int64_t>(), ": it must not be negative");
  // Ids may be large: then they are numbered anew.
  const Tensor ids = any(given_ids >= given_ids.numel()).item<bool>() ? unique(given_ids).inverse : given_ids;
  const std::int64_t segments = ids.numel() == 0 ? 0 : max(ids).item<std::int64_t>() + 1;
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    Tensor y;
    {
      const NoGrad no_grad;
      const Tensor none = full(x.shape().with(axis, segments), -std::numeric_limits<double>::infinity(), x.dtype());
      const Tensor largest = index_reduce(none, axis, ids, x, Reduce::amax);
      const Tensor e = exp(x - index_select(largest, axis, ids));
      y = e / segment_sums(e, ids, axis, segments);
    }
    return record(op, {x}, std::move(y), keep::output | keep::saved(ids), [axis, segments](Backward& b) {
      // dx = y (dy - sum(y dy)) over each segment, with dy less that of the leading element, as in softmax
      const Tensor y = b.y(), ids = b.saved(0);
      const auto sums = [&](const Tensor& x) { return segment_sums(x, ids, axis, segments); };
      const Tensor leads = logical_and(gt(y, kernels::softmax_leads), isfinite(b.dy()));
      const Tensor dy = b.dy() - sums(where(leads, b.dy(), 0));
      b.give(0, y * (dy - sums(y * dy)));
    });
  });
}

}  // namespace fit
