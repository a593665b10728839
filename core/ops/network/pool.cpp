// max_pool1d, max_pool2d, avg_pool1d, avg_pool2d.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/acc_type.hpp"
#include "base/scratch.hpp"
#include "fit/threads/parallel.hpp"
#include "kernels/rows/reduce.hpp"
#include "kernels/windows.hpp"
#include "ops/common/composed.hpp"
#include "ops/common/precision.hpp"
#include "ops/network/patches.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

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

// What a pool knows beside its tensor: along the last axis (axes = 1) or the last two. Trivially copyable.
struct PoolCall {
  const char* op;
  Pool kind;
  int axes;
  PerAxis size, stride;
  PoolOptions o;

  // How far the border goes above and before x.
  std::int64_t above() const { return axes == 1 ? 0 : o.padding()[0]; }
  std::int64_t before() const { return o.padding()[axes - 1]; }
  Windows windows() const {
    return axes == 1 ? Windows{1, size[0], 1, stride[0], 1, o.dilation()[0]}
                     : Windows{size[0], size[1], stride[0], stride[1], o.dilation()[0], o.dilation()[1]};
  }
  // Calls f(name with its attributes).
  template <class F>
  auto named(const F& f) const {
    using Two = std::array<std::int64_t, 2>;
    const auto both = [](const PerAxis& p) { return Two{p[0], p[1]}; };
    const Two sizes = both(size), strides = both(stride), padding = both(o.padding()), dilation = both(o.dilation());
    const auto span = [&](const Two& all) { return Span<const std::int64_t>(all.data(), axes); };
    return f(
        {op,
         {{"size", span(sizes)}, {"stride", span(strides)}, {"padding", span(padding)}, {"dilation", span(dilation)}}});
  }
};

// By operations, the elements of all windows side by side: for derivatives of gradients.
Tensor composed_pool(const PoolCall& c, const Tensor& given) {
  const Tensor x = c.axes == 1 ? unsqueeze(given, 2) : given;
  const Scalar border = c.kind == Pool::max ? -std::numeric_limits<double>::infinity() : 0.;
  const bool padded = c.above() > 0 || c.before() > 0;
  const auto windows_of = [&](const Tensor& t, Scalar border) {  // [N, C, elements, down, right]
    const Tensor wide = padded ? pad(t, {c.before(), c.before(), c.above(), c.above()}, PadMode::constant, border) : t;
    return flatten(patches(c.op, wide, c.windows()), 2, 3);
  };
  const Tensor windows = windows_of(x, border);
  Tensor y = c.kind == Pool::max ? max(windows, 2) : mean(windows, 2);
  if (c.kind == Pool::max && padded && any(y.detach() == border).item<bool>()) {
    // The border is as large as all elements of a window: the first that is no border gets the gradient.
    const Tensor first = argmax(windows_of(ones(x.shape().with(0, 1).with(1, 1)), 0.), 2, keepdims);
    const Tensor ids = where(unsqueeze(y.detach(), 2) == border, first, argmax(windows, 2, keepdims));
    y = squeeze(gather(windows, 2, ids), 2);
  }
  return c.axes == 1 ? squeeze(y, 2) : y;
}

// Calls f(plane of x, plane of y) for the offsets of all planes.
template <class F>
void each_plane(const kernels::PoolLayout& p, std::int64_t planes, const F& f) {
  const std::int64_t work = p.w.places() * p.w.in_window();
  parallel_for(planes, std::max<std::int64_t>(1, (1 << 14) / work), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(i * p.w.plane(), i * p.w.places());
  });
}

// Whether the only window is the whole plane, as in global pools: then the planes are rows.
bool is_global(const kernels::PoolLayout& p) {
  return p.w.places() == 1 && p.w.in_window() == p.w.plane() && p.above == 0 && p.before == 0;
}

// Calls f(first plane, planes) for parts of all planes.
template <class F>
void each_part(const kernels::PoolLayout& p, std::int64_t planes, const F& f) {
  parallel_for(planes, std::max<std::int64_t>(1, (1 << 14) / p.w.plane()),
               [&](std::int64_t begin, std::int64_t end) { f(begin, end - begin); });
}

template <class T>
void global_forward(Pool kind, const kernels::PoolLayout& p, std::int64_t planes, const T* x, T* y) {
  const auto& kernels = kernels::reduce<T>();
  const std::int64_t size = p.w.plane();
  each_part(p, planes, [&](std::int64_t first, std::int64_t n) {
    const kernels::Scratch<double> totals(n);
    std::fill_n(totals.get(), n, kind == Pool::max ? -std::numeric_limits<double>::infinity() : 0.0);
    (kind == Pool::max ? kernels.max : kernels.sum)(totals.get(), x + first * size, nullptr, n, size, size, 1);
    const double divisor = kind == Pool::max ? 1 : static_cast<double>(size);
    std::transform(totals.get(), totals.get() + n, y + first, [=](double t) { return static_cast<T>(t / divisor); });
  });
}

template <class T>
void global_backward(Pool kind, const kernels::PoolLayout& p, std::int64_t planes, const T* x, const T* y, const T* dy,
                     T* dx) {
  const std::int64_t size = p.w.plane();
  const auto factor = static_cast<T>(1 / static_cast<double>(size));
  each_part(p, planes, [&](std::int64_t first, std::int64_t n) {
    for (std::int64_t i = first; i < first + n; ++i) {
      T* const to = dx + i * size;
      std::fill_n(to, size, kind == Pool::max ? T(0) : dy[i] * factor);
      if (kind == Pool::max) to[kernels::reduce<T>().find(x + i * size, size, y[i])] = dy[i];
    }
  });
}

template <class T>
void forward(const PoolCall& c, const kernels::PoolLayout& p, std::int64_t planes, const T* x, T* y) {
  if (is_global(p)) return global_forward(c.kind, p, planes, x, y);
  const auto& kernels = kernels::pools<T>();
  const std::int64_t places = p.w.places();
  each_plane(p, planes, [&](std::int64_t in, std::int64_t out) {
    if (c.kind == Pool::max) return kernels.max(p, x + in, y + out);
    const kernels::Scratch<double> sums(places);
    std::fill_n(sums.get(), places, 0.0);
    kernels.add(p, x + in, sums.get());
    const auto size = static_cast<double>(p.w.in_window());
    std::transform(sums.get(), sums.get() + places, y + out, [=](double sum) { return static_cast<T>(sum / size); });
  });
}

template <class T>
void backward(const PoolCall& c, const kernels::PoolLayout& p, std::int64_t planes, const T* x, const T* y, const T* dy,
              T* dx) {
  if (is_global(p)) return global_backward(c.kind, p, planes, x, y, dy, dx);
  const auto& kernels = kernels::pools<T>();
  const std::int64_t places = p.w.places();
  const auto factor = static_cast<T>(1 / static_cast<double>(p.w.in_window()));
  each_plane(p, planes, [&](std::int64_t in, std::int64_t out) {
    const kernels::Scratch<T> seed(places);
    std::fill_n(dx + in, p.w.plane(), T(0));
    if (c.kind == Pool::max) {
      std::copy_n(dy + out, places, seed.get());
      kernels.max_back(p, x + in, y + out, seed.get(), dx + in);
    } else {
      std::transform(dy + out, dy + out + places, seed.get(), [=](T g) { return g * factor; });
      kernels.add_back(p, seed.get(), dx + in);
    }
  });
}

kernels::PoolLayout layout_of(const PoolCall& c, const Shape& x) {
  const Windows w = c.windows();
  const std::int64_t rows = c.axes == 1 ? 1 : x[2], cols = x[-1];
  return {{1, rows, cols, w.height, w.width, w.stride_down, w.stride_right, w.dilation_down, w.dilation_right,
           places(rows + 2 * c.above(), w.height, w.stride_down, w.dilation_down),
           places(cols + 2 * c.before(), w.width, w.stride_right, w.dilation_right)},
          c.above(),
          c.before()};
}

Shape pooled_shape(const PoolCall& c, const kernels::PoolLayout& p, const Shape& x) {
  return c.axes == 1 ? Shape{x[0], x[1], p.w.right} : Shape{x[0], x[1], p.w.down, p.w.right};
}

// The gradient of a pool with respect to x of this shape. A mean needs neither x nor y.
Tensor gradient(const PoolCall& c, const Shape& shape, const Tensor& x, const Tensor& y, const Tensor& dy) {
  Tensor dx = Tensor::empty(shape, dy.dtype());
  dispatch_compute_floating(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto numbers = [](const Tensor& t) { return t.defined() ? t.data<T>().data() : nullptr; };
    backward(c, layout_of(c, shape), shape[0] * shape[1], numbers(x), numbers(y), numbers(dy), dx.fresh<T>());
  });
  return dx;
}

Tensor fused_mean(const detail::OpName& name, const PoolCall& c, const Tensor& x);

// The adjoint of a mean, and that of the adjoint.
Tensor mean_gradient(const PoolCall& c, const Shape& shape, const Tensor& dy) {
  return record(c.op, {dy}, gradient(c, shape, {}, {}, dy), keep::nothing, [c](Backward& b) {
    b.give(0, c.named([&](const detail::OpName& name) { return fused_mean(name, c, b.dy()); }));
  });
}

Tensor values(const PoolCall& c, const Tensor& x) {
  const kernels::PoolLayout p = layout_of(c, x.shape());
  Tensor y = Tensor::empty(pooled_shape(c, p, x.shape()), x.dtype());
  dispatch_compute_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    forward(c, p, x.shape()[0] * x.shape()[1], x.data<T>().data(), y.fresh<T>());
  });
  return y;
}

Tensor fused_mean(const detail::OpName& name, const PoolCall& c, const Tensor& x) {
  return record(name, {x}, values(c, x), keep::nothing,
                [c](Backward& b) { b.give(0, mean_gradient(c, b.shape(0), b.dy())); });
}

// A maximum is computed again in the gradient: neither it nor its place is kept. x may be bfloat16.
Tensor fused_max(const detail::OpName& name, const PoolCall& c, const Tensor& x) {
  Tensor y;
  {
    const NoGrad no_grad;
    y = values(c, to_float32(x)).to(x.dtype());
  }
  return record(name, {x}, std::move(y), keep::inputs, [c](Backward& b) {
    if (b.recording())
      return give_by_decomposition(
          b, [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{composed_pool(c, in[0])}; });
    const Tensor x = to_float32(b.x(0));
    b.give(0, gradient(c, x.shape(), x, values(c, x), to_float32(b.dy())).to(b.x(0).dtype()));
  });
}

Tensor pooled(const char* op, Pool kind, int axes, const Tensor& x, const PerAxis& size, const PoolOptions& o) {
  const auto stride_of = [&](int a) { return o.stride()[a] == 0 ? size[a] : o.stride()[a]; };
  const PoolCall c{op, kind, axes, size, PerAxis(stride_of(0), stride_of(1)), o};
  expect_pool(op, axes, x, size, c.stride, o);
  return c.named([&](const detail::OpName& name) {
    if (kind == Pool::max) return fused_max(name, c, x);
    return with_precision(Precision::float32, {x}, [&](const Tensor& x) { return fused_mean(name, c, x); });
  });
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
