// sort, argsort and topk.
#include <algorithm>

#include "fit/parallel.hpp"
#include "ops/scatter.hpp"
#include "tensor/check.hpp"
#include "tensor/convert.hpp"

namespace fit {
namespace {

// The first k of each line along an axis, in order: NaN is the largest, equals stay in theirs.
template <class T>
void sort_lines(T* values, std::int64_t* ids, const T* x, const kernels::AxisView& a, std::int64_t k, bool descending) {
  struct Item {
    T value;
    std::int64_t id;
  };
  const auto below = [](T u, T v) {
    if constexpr (is_floating_element<T>)
      return u < v || (v != v && u == u);
    else
      return u < v;
  };
  const auto before = [&](const Item& u, const Item& v) {
    if (descending ? below(v.value, u.value) : below(u.value, v.value)) return true;
    if (descending ? below(u.value, v.value) : below(v.value, u.value)) return false;
    return u.id < v.id;
  };
  const std::int64_t grain = std::max<std::int64_t>(1, 1024 / std::max<std::int64_t>(1, a.n));
  parallel_for(a.outer * a.inner, grain, [&](std::int64_t line, std::int64_t end) {
    std::vector<Item> items(static_cast<std::size_t>(a.n));
    for (; line < end; ++line) {
      const std::int64_t o = line / a.inner, c = line % a.inner;
      for (std::int64_t i = 0; i < a.n; ++i) items[static_cast<std::size_t>(i)] = {x[(o * a.n + i) * a.inner + c], i};
      if (k == a.n)
        std::sort(items.begin(), items.end(), before);
      else
        std::partial_sort(items.begin(), items.begin() + k, items.end(), before);
      for (std::int64_t i = 0; i < k; ++i) {
        values[(o * k + i) * a.inner + c] = items[static_cast<std::size_t>(i)].value;
        ids[(o * k + i) * a.inner + c] = items[static_cast<std::size_t>(i)].id;
      }
    }
  });
}

std::pair<Tensor, Tensor> sorted(const char* op, const Tensor& x, std::int64_t k, int axis, bool descending) {
  const Shape shape = x.shape().with(axis, k);
  std::vector<Tensor> y{Tensor::empty(shape, x.dtype()), Tensor::empty(shape, int64)};
  if (shape.numel() > 0)
    dispatch(x.dtype(), [&](auto kind) {
      using T = decltype(kind);
      sort_lines(y[0].fresh<T>(), y[1].fresh<std::int64_t>(), x.data<T>().data(), kernels::AxisView(x.shape(), axis), k,
                 descending);
    });
  record(op, {x}, y, keep::saved(y[1]), [axis](Backward& b) { give_scattered(b, axis, b.saved(0), b.dy()); });
  return {y[0], y[1]};
}

}  // namespace

std::pair<Tensor, Tensor> sort(const Tensor& x, int axis, SortOrder order) {
  axis = check::axis("sort", x, axis);
  return sorted("sort", x, x.shape()[axis], axis, order == descending);
}

Tensor argsort(const Tensor& x, int axis, SortOrder order) {
  axis = check::axis("argsort", x, axis);
  return sort(x.detach(), axis, order).second;
}

std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, int axis, Extremes which) {
  axis = check::axis("topk", x, axis);
  if (k < 0 || k > x.shape()[axis])
    check::fail("topk", "k is ", k, ": axis ", axis, " of shape ", x.shape(), " allows 0 … ", x.shape()[axis]);
  return sorted("topk", x, k, axis, which == Extremes::largest);
}

}  // namespace fit
