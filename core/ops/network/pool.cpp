// max_pool1d, max_pool2d, avg_pool1d, avg_pool2d: the elements of every window side by side, and a reduction.
#include <limits>

#include "ops/network/patches.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

enum class Pool { max, mean };

Tensor pooled(const char* op, Pool kind, int axes, const Tensor& x, std::int64_t size, const PoolOptions& o) {
  check::floating(op, "x", x);
  if (x.rank() != axes + 2)
    check::fail(op, "x has shape ", x.shape(), ": it must be ", axes == 1 ? "[N, C, L]" : "[N, C, H, W]");
  const std::int64_t stride = o.stride() == 0 ? size : o.stride();
  if (size < 1 || size > std::int64_t{1} << 30 || stride < 1)
    check::fail(op, "size is ", size, ", stride ", o.stride(), ": both must be positive (or the stride 0, for size)");
  if (o.padding() < 0 || o.padding() > size / 2)
    check::fail(op, "padding is ", o.padding(), ": it must be in 0 … ", size / 2, ", half the size ", size);
  for (int a = 2; a < x.rank(); ++a)
    if (x.shape()[a] + 2 * o.padding() < size)
      check::fail(op, "x has shape ", x.shape(), ", the window ", size, ": it is wider than axis ", a);
  const Scalar border = kind == Pool::max ? -std::numeric_limits<double>::infinity() : 0.;
  const std::vector<std::int64_t> widths(static_cast<std::size_t>(2 * axes), o.padding());
  const Windows w = axes == 1 ? Windows{1, size, 1, stride} : Windows{size, size, stride, stride};
  const auto windows_of = [&](const Tensor& t, Scalar border) {  // [N, C, elements, down, right]
    const Tensor wide = o.padding() > 0 ? pad(t, widths, PadMode::constant, border) : t;
    return flatten(patches(op, axes == 1 ? unsqueeze(wide, 2) : wide, w), 2, 3);
  };
  const Tensor windows = windows_of(x, border);
  Tensor y = kind == Pool::max ? max(windows, 2) : mean(windows, 2);
  if (kind == Pool::max && o.padding() > 0 && any(y.detach() == border).item<bool>()) {
    // The border is as large as all elements of a window: the first that is no border gets the gradient.
    const Tensor first = argmax(windows_of(ones(x.shape().with(0, 1).with(1, 1)), 0.), 2, keepdims);
    const Tensor ids = where(unsqueeze(y.detach(), 2) == border, first, argmax(windows, 2, keepdims));
    y = squeeze(gather(windows, 2, ids), 2);
  }
  return axes == 1 ? squeeze(y, 2) : y;
}

}  // namespace

Tensor max_pool1d(const Tensor& x, std::int64_t size, const PoolOptions& options) {
  return pooled("max_pool1d", Pool::max, 1, x, size, options);
}
Tensor max_pool2d(const Tensor& x, std::int64_t size, const PoolOptions& options) {
  return pooled("max_pool2d", Pool::max, 2, x, size, options);
}
Tensor avg_pool1d(const Tensor& x, std::int64_t size, const PoolOptions& options) {
  return pooled("avg_pool1d", Pool::mean, 1, x, size, options);
}
Tensor avg_pool2d(const Tensor& x, std::int64_t size, const PoolOptions& options) {
  return pooled("avg_pool2d", Pool::mean, 2, x, size, options);
}

}  // namespace fit
