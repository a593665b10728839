// max, min, amax, amin, argmax, argmin, max_with_indices and min_with_indices.
#include <limits>

#include "kernels/rows/reduce.hpp"
#include "ops/common/precision.hpp"
#include "ops/index/axis_slices.hpp"
#include "ops/reduce/reduction.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

// The two directions. order(a, b) returns the larger (or smaller) number, or NaN if there is one.
struct Largest {
  static constexpr const char* index_name = "argmax";
  static constexpr auto order = larger;
  template <class T>
  static constexpr T start = std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity()
                                                         : std::numeric_limits<T>::lowest();
  template <class T>
  static kernels::Fold<T> kernel() {
    return kernels::reduce<T>().max;
  }
};
struct Smallest {
  static constexpr const char* index_name = "argmin";
  static constexpr auto order = smaller;
  template <class T>
  static constexpr T start = std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity()
                                                         : std::numeric_limits<T>::max();
  template <class T>
  static kernels::Fold<T> kernel() {
    return kernels::reduce<T>().min;
  }
};

/// The indices along `count` slices side by side, row by row, the first at `in`. A later element replaces an earlier
/// one if it is better, but not if equal.
template <class Which, class T>
void indices_of_group(const T* in, kernels::AxisView slices, std::int64_t count, std::int64_t* index) {
  T best[max_group];
  for (std::int64_t l = 0; l < count; ++l) {
    best[l] = in[l];
    index[l] = 0;
  }
  for (std::int64_t i = 1; i < slices.n; ++i)
    for (std::int64_t l = 0; l < count; ++l) {
      const T v = in[i * slices.inner + l], winner = Which::order(best[l], v);
      const bool replace = winner != best[l] && best[l] == best[l];
      best[l] = replace ? v : best[l];
      index[l] = replace ? i : index[l];
    }
}

/// The index along one contiguous slice.
template <class Which, class T>
std::int64_t index_of_row(const T* in, const kernels::AxisView& slices) {
  if constexpr (std::is_floating_point_v<T>)
    if (slices.n >= 16) {  // long enough for a kernel
      double winner = Which::template start<double>;
      Which::template kernel<T>()(&winner, in, nullptr, 1, 0, slices.n, 1);
      return kernels::reduce<T>().find(in, slices.n, static_cast<T>(winner));
    }
  std::int64_t index = 0;
  indices_of_group<Which>(in, slices, 1, &index);
  return index;
}

/// argmax or argmin along one axis.
template <class Which>
Tensor indices(const Tensor& x, int axis, KeepDims keep) {
  if (const DType wide = acc_dtype(x.dtype()); wide != x.dtype())
    return indices<Which>(x.detach().to(wide), axis, keep);  // kernels read wide types
  const kernels::AxisView slices(x.shape(), axis);
  if (slices.n == 0)
    check::fail(Which::index_name, "axis ", axis, " of shape ", x.shape(), " has no elements to choose from");
  Shape result = x.shape();
  if (x.rank() > 0) result = keep == keepdims ? result.with(axis, 1) : result.erased(axis);
  Tensor y = Tensor::empty(result, int64);
  std::int64_t* const out = y.fresh<std::int64_t>();
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const in = x.data<T>().data();
    each_group_of_slices(slices, [&](std::int64_t at, std::int64_t count) {
      const std::int64_t block = slices.n * slices.inner;
      std::int64_t* const index = out + at / block * slices.inner + at % block;
      if (slices.inner > 1) return indices_of_group<Which>(in + at, slices, count, index);
      for (std::int64_t l = 0; l < count; ++l) index[l] = index_of_row<Which>(in + at + l * slices.n, slices);
    });
  });
  return y;
}

/// argmax or argmin of all elements.
template <class Which>
Tensor index_of(const Tensor& x) {
  check::defined(Which::index_name, "x", x);
  return indices<Which>(x.alias({x.numel()}), 0, KeepDims::no);
}

/// Which elements get the gradient of an extreme value along one axis: the first of equal elements, or all. Along
/// several axes equal elements share it.
enum class Ties { first, shared };

/// max or min. Over one axis with Ties::first, the gradient goes to the element of indices().
template <class Which>
Tensor extreme(const char* op, const Tensor& x, const Axes& axes, KeepDims keep, Ties ties) {
  const Reduction r(op, x, axes);
  if (r.count() == 0) check::fail(op, "there is nothing to choose from along the axes given of shape ", x.shape());
  return with_precision(Precision::rounded, {x}, [&](const Tensor& x) {
    Tensor y = Tensor::empty(r.shape(keep), x.dtype());
    dispatch_compute(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const auto finish = [out = y.fresh<T>()](std::int64_t i, auto v) { out[i] = static_cast<T>(v); };
      if constexpr (std::is_floating_point_v<T>)
        fold_floating<T>(r, x, Which::template start<double>, Which::template kernel<T>(), nullptr, Which::order,
                         finish);
      else
        fold_plain<T>(r, x.data<T>().data(), Which::template start<T>, Which::order, Which::order, finish);
    });
    const Shape kept = r.shape(keepdims);
    if (ties == Ties::first && axes.list().size() == 1 && x.rank() > 0)
      return record({op, {{"axes", r.axes()}, {"keepdims", keep == KeepDims::yes}}}, {x}, std::move(y), keep::inputs,
                    [kept, axis = check::axis(op, x, axes.list()[0])](Backward& b) {
                      const Tensor chosen = indices<Which>(b.x(0), axis, keepdims);
                      b.give(0, scatter_add(zeros(b.shape(0), b.dtype(0)), axis, chosen, reshape(b.dy(), kept)));
                    });
    return record({op, {{"axes", r.axes()}, {"keepdims", keep == KeepDims::yes}}}, {x}, std::move(y),
                  keep::inputs | keep::output, [kept](Backward& b) {
                    // If the result is NaN, the NaNs share the gradient; otherwise there are none.
                    const Tensor x = b.x(0), equal = logical_or(eq(x, reshape(b.y(), kept)), isnan(x));
                    const Tensor share = reshape(b.dy(), kept) / sum_to(equal.to(x.dtype()), kept);
                    b.give(0, where(equal, share, 0));  // not equal times share: 0 times infinity is NaN
                  });
  });
}

template <class Which>
std::pair<Tensor, Tensor> extreme_with_indices(const char* op, const Tensor& x, int axis, KeepDims keep) {
  axis = slice_axis(op, x, axis);
  if (x.rank() == 0) return {x.clone(), zeros({}, int64)};
  if (x.shape()[axis] == 0) check::fail(op, "axis ", axis, " of shape ", x.shape(), " has no elements to choose from");
  const Tensor ids = indices<Which>(x, axis, keepdims), values = gather(x, axis, ids);
  if (keep == keepdims) return {values, ids};
  return {squeeze(values, axis), squeeze(ids, axis)};
}

}  // namespace

Tensor max(const Tensor& x, const Axes& axes, KeepDims keep) {
  return extreme<Largest>("max", x, axes, keep, Ties::first);
}
Tensor min(const Tensor& x, const Axes& axes, KeepDims keep) {
  return extreme<Smallest>("min", x, axes, keep, Ties::first);
}
Tensor amax(const Tensor& x, const Axes& axes, KeepDims keep) {
  return extreme<Largest>("amax", x, axes, keep, Ties::shared);
}
Tensor amin(const Tensor& x, const Axes& axes, KeepDims keep) {
  return extreme<Smallest>("amin", x, axes, keep, Ties::shared);
}
std::pair<Tensor, Tensor> max_with_indices(const Tensor& x, int axis, KeepDims keep) {
  return extreme_with_indices<Largest>("max_with_indices", x, axis, keep);
}
std::pair<Tensor, Tensor> min_with_indices(const Tensor& x, int axis, KeepDims keep) {
  return extreme_with_indices<Smallest>("min_with_indices", x, axis, keep);
}

Tensor argmax(const Tensor& x, int axis, KeepDims keep) {
  return indices<Largest>(x, slice_axis("argmax", x, axis), keep);
}
Tensor argmin(const Tensor& x, int axis, KeepDims keep) {
  return indices<Smallest>(x, slice_axis("argmin", x, axis), keep);
}
Tensor argmax(const Tensor& x) { return index_of<Largest>(x); }
Tensor argmin(const Tensor& x) { return index_of<Smallest>(x); }

}  // namespace fit
