// median, quantile, unique, searchsorted, bincount, histogram: by choosing, sorting and counting.
#include <algorithm>
#include <cmath>

#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "fit/threads/parallel.hpp"
#include "ops/common/precision.hpp"
#include "ops/index/axis_slices.hpp"
#include "ops/reduce/ranked.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

Tensor flat(const Tensor& x) { return reshape(x, Shape{x.numel()}); }

// The slices of x (a scalar as a vector of one) along an axis, for taking elements by rank.
struct Slices {
  Slices(const char* op, const Tensor& given, int a)
      : op(op), axis(slice_axis(op, given, a)), scalar(given.rank() == 0), x(scalar ? flat(given) : given) {
    n = x.shape()[axis];
    if (n == 0) check::fail(op, "axis ", axis, " of shape ", x.shape(), " has no elements to choose from");
  }
  // {values, ids} of k ranks from `first` on.
  std::pair<Tensor, Tensor> ranked(std::int64_t first, std::int64_t k) const {
    return detail::ranked(op, x, axis, first, k);
  }
  Tensor shaped(const Tensor& y, KeepDims keep) const {
    return scalar ? reshape(y, Shape{}) : keep == keepdims ? y : squeeze(y, axis);
  }

  const char* op;
  int axis;
  bool scalar;
  Tensor x;
  std::int64_t n;
};

}  // namespace

std::pair<Tensor, Tensor> median(const Tensor& x, int axis, KeepDims keep) {
  const Slices s("median", x, axis);
  const auto [value, id] = s.ranked((s.n - 1) / 2, 1);
  return {s.shaped(value, keep), s.shaped(id, keep)};
}

Tensor median(const Tensor& x) {
  check::defined("median", "x", x);
  return median(flat(x), 0).first;
}

Tensor quantile(const Tensor& x, double q, int axis, KeepDims keep) {
  check::floating("quantile", "x", x);
  if (!(q >= 0 && q <= 1)) check::fail("quantile", "q is ", q, ": it must be in 0 … 1");
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    const Slices s("quantile", x, axis);
    const double place = q * static_cast<double>(s.n - 1), low = std::floor(place), share = place - low;
    const std::int64_t k = share > 0 ? 2 : 1;
    const Tensor near = s.ranked(static_cast<std::int64_t>(low), k).first;
    Tensor y = k == 1 ? near : slice(near, s.axis, 0, 1);
    if (share > 0) {
      const Tensor above = slice(near, s.axis, 1, 2), gap = above - y;
      if (all(isfinite(gap)).item<bool>()) {
        y = y + gap * share;
      } else {  // half of a gap can't overflow; beside an infinity, the quantile is that
        const Tensor half = (above * 0.5 - y * 0.5) * share;
        y = where(isinf(y), y, where(isinf(above), above, y + half + half));
      }
    }
    return s.shaped(y, keep);
  });
}

Tensor quantile(const Tensor& x, double q) {
  check::floating("quantile", "x", x);
  return quantile(flat(x), q, 0);
}

Unique unique(const Tensor& x) {
  check::defined("unique", "x", x);
  const std::pair<Tensor, Tensor> in_order = sort(flat(x.detach()), 0);
  const Tensor &sorted = in_order.first, &order = in_order.second;
  const std::int64_t n = sorted.numel();
  Unique u{Tensor(), Tensor::empty(x.shape(), int64), Tensor()};
  std::vector<std::int64_t> first, counts;  // for each distinct number: index in `sorted`, and count
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto at = sorted.data<T>();
    const auto ids = order.data<std::int64_t>();
    for (std::int64_t i = 0; i < n; ++i) {
      const bool same = i > 0 && (at[i] == at[i - 1] || (at[i] != at[i] && at[i - 1] != at[i - 1]));
      if (!same) first.push_back(i), counts.push_back(0);
      ++counts.back();
      u.inverse.fresh<std::int64_t>()[ids[i]] = static_cast<std::int64_t>(first.size()) - 1;
    }
  });
  const auto found = static_cast<std::int64_t>(first.size());
  u.values = index_select(sorted, 0, tensor(first, {found}));
  u.counts = tensor(counts, {found});
  return u;
}

namespace {

// The order of sort(): NaN is last.
template <class T>
bool below(T a, T b) {
  return a < b || (a == a && b != b);  // NOLINT(misc-redundant-expression)
}

void expect_searchable(const Tensor& sorted, const Tensor& values) {
  constexpr const char* op = "searchsorted";
  check::defined(op, "sorted", sorted);
  check::defined(op, "values", values);
  if (sorted.dtype() != values.dtype())
    check::fail(op, "sorted is ", sorted.dtype(), ", values ", values.dtype(), ": convert one of them by to()");
  const int last = sorted.rank() - 1;
  const bool alike =
      last >= 0 && values.rank() == sorted.rank() && sorted.shape().with(last, 1) == values.shape().with(last, 1);
  if (last != 0 && !alike)
    check::fail(op, "sorted has shape ", sorted.shape(), ", values ", values.shape(),
                ": sorted must be [N], or have the leading axes of values");
}

}  // namespace

Tensor searchsorted(const Tensor& sorted, const Tensor& values, Side side) {
  expect_searchable(sorted, values);
  Tensor places = Tensor::empty(values.shape(), int64);
  const std::int64_t n = sorted.size(-1), m = sorted.rank() == 1 ? values.numel() : values.size(-1);
  dispatch(sorted.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto rows = sorted.data<T>(), all = values.data<T>();
    for (std::int64_t i = 1; i < rows.size(); ++i)
      if (below(rows[i], rows[i - 1]) && i % n != 0)
        check::fail("searchsorted", "sorted does not ascend: element ", i % n, " of a row is below the one before");
    std::int64_t* const to = places.fresh<std::int64_t>();
    parallel_for(values.numel(), 1 << 10, [&](std::int64_t i, std::int64_t end) {
      for (; i < end; ++i) {
        const T* const row = rows.data() + (sorted.rank() == 1 ? 0 : i / m * n);
        const T* const at = side == Side::left ? std::lower_bound(row, row + n, all[i], below<T>)
                                               : std::upper_bound(row, row + n, all[i], below<T>);
        to[i] = at - row;
      }
    });
  });
  return detail::unrecorded("searchsorted", {sorted, values}, std::move(places));
}

Tensor bincount(const Tensor& ids, const Tensor& weights, std::int64_t minimum) {
  check::dtype("bincount", "ids", ids, int64);
  if (ids.rank() != 1) check::fail("bincount", "ids has shape ", ids.shape(), ": it must be [N]");
  check::not_negative("bincount", "minimum", minimum);
  const auto all = ids.data<std::int64_t>();
  std::int64_t least = 0, most = -1;
  for (const std::int64_t id : all) least = std::min(least, id), most = std::max(most, id);
  if (least < 0 || most == INT64_MAX)
    check::fail("bincount", "an id is ", least < 0 ? least : most, ": it must be 0 or more, and can be counted");
  const std::int64_t n = std::max(minimum, most + 1);
  if (!weights.defined()) {
    Tensor counts = zeros({n}, int64);
    std::int64_t* const count = counts.fresh<std::int64_t>();
    for (const std::int64_t id : all) ++count[id];
    return counts;
  }
  check::floating("bincount", "weights", weights);
  check::shape("bincount", "weights", weights, ids.shape());
  return scatter_add(zeros({n}, weights.dtype()), 0, ids, weights);
}

std::pair<Tensor, Tensor> histogram(const Tensor& x, std::int64_t bins) {
  check::floating("histogram", "x", x);
  if (x.numel() == 0) return histogram(x, bins, 0, 1);
  const NoGrad no_grad;
  const double low = min(x).item(), high = max(x).item();
  if (!std::isfinite(low) || !std::isfinite(high))
    check::fail("histogram", "x goes from ", low, " to ", high, ": give the range that is to be counted");
  return low < high ? histogram(x, bins, low, high) : histogram(x, bins, low - 0.5, high + 0.5);
}

std::pair<Tensor, Tensor> histogram(const Tensor& x, std::int64_t bins, double low, double high) {
  check::floating("histogram", "x", x);
  if (bins < 1) check::fail("histogram", "bins is ", bins, ": it must be positive");
  if (!(std::isfinite(low) && std::isfinite(high) && low < high))
    check::fail("histogram", "the range is ", low, " … ", high, ": both must be finite, and low below high");
  const auto counts_and_edges = with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    const Tensor edges = linspace(low, high, bins + 1, x.dtype());
    Tensor counts = zeros({bins}, int64);
    std::int64_t* const count = counts.fresh<std::int64_t>();
    dispatch_compute_floating(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const auto edge = edges.data<T>();
      for (const T v : x.data<T>()) {
        if (!(v >= edge[0] && v <= edge[bins])) continue;
        const std::int64_t above = std::upper_bound(edge.begin(), edge.end(), v) - edge.begin();
        ++count[std::min(above, bins) - 1];
      }
    });
    return std::vector<Tensor>{counts, edges};
  });
  return {counts_and_edges[0], counts_and_edges[1]};
}

}  // namespace fit
