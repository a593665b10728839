// Sums and their kin over axes.
#include "kernels/reduce.hpp"

#include <cmath>
#include <functional>

#include "check.hpp"
#include "dispatch.hpp"
#include "ops/reduction.hpp"

namespace fit {
namespace {

/// y[i] = finish(i, sum of x), in double for floating types and in int64 for the others.
template <class T, class Finish>
void sum_into(const Reduction& r, const Tensor& x, const Finish& finish) {
  const T* const p = x.data<T>().data();
  if constexpr (std::is_floating_point_v<T>)
    r.fold(
        p, 0.0,
        [f = kernels::reduce<T>().sum](double* acc, const T* at, std::int64_t, auto... block) {
          f(acc, at, nullptr, block...);
        },
        std::plus<>(), finish);
  else
    r.fold(p, std::int64_t{0}, plain_fold<T, std::int64_t>(std::plus<>()), std::plus<>(), finish);
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, bool keepdims) {
  const Reduction r("sum", x, axes);
  Tensor y = Tensor::empty(r.shape(keepdims), is_floating(x.dtype()) ? x.dtype() : DType::int64);
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using Y = std::conditional_t<std::is_floating_point_v<T>, T, std::int64_t>;
    sum_into<T>(r, x, [out = y.fresh<Y>()](std::int64_t i, auto total) { out[i] = static_cast<Y>(total); });
  });
  return record("sum", {x}, std::move(y), keep::nothing,
                [kept = r.shape(true)](Backward& b) { b.give(0, spread(b.dy(), kept, b.shape(0))); });
}

Tensor mean(const Tensor& x, const Axes& axes, bool keepdims) {
  check::floating("mean", "x", x);
  const Reduction r("mean", x, axes);
  Tensor y = Tensor::empty(r.shape(keepdims), x.dtype());
  const double n = static_cast<double>(r.count());
  dispatch_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    sum_into<T>(r, x, [n, out = y.fresh<T>()](std::int64_t i, double total) { out[i] = static_cast<T>(total / n); });
  });
  return record("mean", {x}, std::move(y), keep::nothing,
                [n, kept = r.shape(true)](Backward& b) { b.give(0, spread(div(b.dy(), n), kept, b.shape(0))); });
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int extra = x.rank() - shape.rank();
  std::vector<int> axes;
  for (int a = 0; a < x.rank(); ++a) {
    const std::int64_t to = a < extra ? 1 : shape[a - extra];
    if (extra < 0 || (to != 1 && to != x.shape()[a]))
      check::fail("sum_to", "x has shape ", x.shape(), ": ", shape, " does not broadcast to it");
    if (a < extra || to != x.shape()[a]) axes.push_back(a);
  }
  return reshape(sum(x, axes), shape);
}

}  // namespace fit
