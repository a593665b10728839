// max_pool1d, max_pool2d, avg_pool1d, avg_pool2d: the elements of every window side by side, and a reduction.
#include <limits>

#include "ops/network/patches.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

// The widths for pad(); empty for no padding.
std::vector<std::int64_t> padding_widths(const PerAxis& padding, int axes) {
  if (padding == 0) return {};
  if (axes == 1) return {padding[0], padding[0]};
  return {padding[1], padding[1], padding[0], padding[0]};
}

enum class Pool { max, mean };

// Checks the arguments; `stride` has no 0.
void expect_pool(const char* op, int axes, const Tensor& x, const PerAxis& size, const PerAxis& stride,
                 const PoolOptions& o) {
  check::floating(op, "x", x);
  if (x.rank() != axes + 2)
    check::fail(op, "x has shape ", x.shape(), ": it must be ", axes == 1 ? "[N, C, L]" : "[N, C, H, W]");
  expect_axes(op, "size", axes, size);
  expect_axes(op, "stride", axes, o.stride());
  expect_axes(op, "padding", axes, o.padding());
  expect_axes(op, "dilation", axes, o.dilation());
  constexpr std::int64_t largest = std::int64_t{1} << 30;
  for (int a = 0; a < axes; ++a) {
    if (size[a] < 1 || size[a] > largest || stride[a] < 1 || o.dilation()[a] < 1 || o.dilation()[a] > largest)
      check::fail(op, "size is ", size.str(), ", stride ", o.stride().str(), ", dilation ", o.dilation().str(),
                  ": all must be positive, and at most ", largest, " (or the stride 0, for size)");
    if (o.padding()[a] < 0 || o.padding()[a] > size[a] / 2)
      check::fail(op, "padding is ", o.padding().str(), ": it must be in 0 … ", size[a] / 2, ", half the size ",
                  size.str());
    if (x.shape()[a + 2] + 2 * o.padding()[a] < o.dilation()[a] * (size[a] - 1) + 1)
      check::fail(op, "x has shape ", x.shape(), ", the window ", size.str(),
                  o.dilation() == 1 ? "" : ", dilation " + o.dilation().str(), ": it is wider than axis ", a + 2);
  }
}

Tensor pooled(const char* op, Pool kind, int axes, const Tensor& x, const PerAxis& size, const PoolOptions& o) {
  const auto stride_of = [&](int a) { return o.stride()[a] == 0 ? size[a] : o.stride()[a]; };
  const PerAxis stride(stride_of(0), stride_of(1));
  expect_pool(op, axes, x, size, stride, o);
  const Scalar border = kind == Pool::max ? -std::numeric_limits<double>::infinity() : 0.;
  const std::vector<std::int64_t> widths = padding_widths(o.padding(), axes);
  const Windows w = axes == 1 ? Windows{1, size[0], 1, stride[0], 1, o.dilation()[0]}
                              : Windows{size[0], size[1], stride[0], stride[1], o.dilation()[0], o.dilation()[1]};
  const auto windows_of = [&](const Tensor& t, Scalar border) {  // [N, C, elements, down, right]
    const Tensor wide = !widths.empty() ? pad(t, widths, PadMode::constant, border) : t;
    return flatten(patches(op, axes == 1 ? unsqueeze(wide, 2) : wide, w), 2, 3);
  };
  const Tensor windows = windows_of(x, border);
  Tensor y = kind == Pool::max ? max(windows, 2) : mean(windows, 2);
  if (kind == Pool::max && !widths.empty() && any(y.detach() == border).item<bool>()) {
    // The border is as large as all elements of a window: the first that is no border gets the gradient.
    const Tensor first = argmax(windows_of(ones(x.shape().with(0, 1).with(1, 1)), 0.), 2, keepdims);
    const Tensor ids = where(unsqueeze(y.detach(), 2) == border, first, argmax(windows, 2, keepdims));
    y = squeeze(gather(windows, 2, ids), 2);
  }
  if (axes == 1) y = squeeze(y, 2);
  if (detail::thread_state.observed) {  // of the whole pooling
    const std::int64_t sizes[] = {size[0], size[1]}, strides[] = {stride[0], stride[1]},
                       padding[] = {o.padding()[0], o.padding()[1]}, dilation[] = {o.dilation()[0], o.dilation()[1]};
    const auto span = [&](const std::int64_t* all) { return Span<const std::int64_t>(all, axes); };
    detail::notify_op(
        {op,
         {{"size", span(sizes)}, {"stride", span(strides)}, {"padding", span(padding)}, {"dilation", span(dilation)}}},
        {x}, &y, 1);
  }
  return y;
}

}  // namespace

Tensor max_pool1d(const Tensor& x, PerAxis size, const PoolOptions& options) {
  return pooled("max_pool1d", Pool::max, 1, x, size, options);
}
Tensor max_pool2d(const Tensor& x, PerAxis size, const PoolOptions& options) {
  return pooled("max_pool2d", Pool::max, 2, x, size, options);
}
Tensor avg_pool1d(const Tensor& x, PerAxis size, const PoolOptions& options) {
  return pooled("avg_pool1d", Pool::mean, 1, x, size, options);
}
Tensor avg_pool2d(const Tensor& x, PerAxis size, const PoolOptions& options) {
  return pooled("avg_pool2d", Pool::mean, 2, x, size, options);
}

}  // namespace fit
