// Convolutions, and their transposes.
#include <algorithm>
#include <array>

#include "fit/threads/parallel.hpp"
#include "kernels/copy.hpp"
#include "ops/common/autocast.hpp"
#include "ops/common/composed.hpp"
#include "ops/common/precision.hpp"
#include "ops/network/patches.hpp"
#include "ops/network/window_products.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

Tensor patches_backward(const char* op, const Tensor& y, const Windows& w, const Shape& shape);

Shape patches_shape(const Shape& x, const Windows& w) {
  return {x[0],
          x[1],
          w.height,
          w.width,
          places(x[2], w.height, w.stride_down, w.dilation_down),
          places(x[3], w.width, w.stride_right, w.dilation_right)};
}

}  // namespace

Tensor patches(const char* op, const Tensor& x, const Windows& w) {
  const Shape& s = x.shape();
  Tensor y = Tensor::empty(patches_shape(s, w), x.dtype());
  const std::int64_t row = s[3], plane = s[2] * row;
  const kernels::Strides from{s[1] * plane,        plane,         w.dilation_down * row, w.dilation_right,
                              w.stride_down * row, w.stride_right};
  kernels::copy(y.shape(), size_of(x.dtype()), y.fresh<char>(), kernels::row_major(y.shape()), x.raw(), from);
  return record(op, {x}, std::move(y), keep::nothing,
                [op, w](Backward& b) { b.give(0, patches_backward(op, b.dy(), w, b.shape(0))); });
}

namespace {

// The adjoint (col2im): adds up elements that belong to several windows.
Tensor patches_backward(const char* op, const Tensor& y, const Windows& w, const Shape& shape) {
  return with_precision(Precision::rounded, {y}, [&](const Tensor& y) {
    Tensor x = zeros(shape, y.dtype());
    const std::int64_t rows = shape[2], cols = shape[3], down = y.shape()[4], right = y.shape()[5];
    dispatch_compute_floating(y.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* const to = x.fresh<T>();
      const T* const all = y.data<T>().data();
      const std::int64_t each = w.height * w.width * down * right;
      parallel_for(shape[0] * shape[1], std::max<std::int64_t>(1, (1 << 14) / std::max<std::int64_t>(each, 1)),
                   [&](std::int64_t plane, std::int64_t end) {
                     for (; plane < end; ++plane) {
                       const T* from = all + plane * each;
                       for (std::int64_t k = 0; k < w.height; ++k)
                         for (std::int64_t l = 0; l < w.width; ++l)
                           for (std::int64_t i = 0; i < down; ++i, from += right) {
                             T* const at = to + plane * rows * cols + (i * w.stride_down + k * w.dilation_down) * cols +
                                           l * w.dilation_right;
                             for (std::int64_t j = 0; j < right; ++j) at[j * w.stride_right] += from[j];
                           }
                     }
                   });
    });
    return record(op, {y}, std::move(x), keep::nothing, [op, w](Backward& b) { b.give(0, patches(op, b.dy(), w)); });
  });
}

// What a convolution knows beside its tensors: along the last axis (axes = 1) or the last two. Trivially copyable.
struct Convolution {
  const char* op;
  int axes;
  ConvOptions o;
  bool transposed = false;

  // How many zeros lie above and before x.
  std::int64_t above() const { return axes == 1 ? 0 : o.padding()[0]; }
  std::int64_t before() const { return o.padding()[axes - 1]; }
  // For a weight [O, C / groups, K, L] or [O, C / groups, K].
  Windows windows(const Shape& weight) const {
    return axes == 1 ? Windows{1, weight[2], 1, o.stride()[0], 1, o.dilation()[0]}
                     : Windows{weight[2], weight[3], o.stride()[0], o.stride()[1], o.dilation()[0], o.dilation()[1]};
  }
  // y's shape, for n images.
  Shape shape(std::int64_t n, std::int64_t outputs, std::int64_t down, std::int64_t right) const {
    return axes == 1 ? Shape{n, outputs, right} : Shape{n, outputs, down, right};
  }
  // A bias as it is added to y, and the axes over which it is.
  Tensor along_channels(const Tensor& bias) const {
    return reshape(bias, axes == 1 ? Shape{bias.numel(), 1} : Shape{bias.numel(), 1, 1});
  }
  Axes all_but_channels() const { return axes == 1 ? Axes{0, 2} : Axes{0, 2, 3}; }
  // Calls f(name with its attributes).
  template <class F>
  auto named(const F& f) const {
    using Two = std::array<std::int64_t, 2>;
    const Two stride{o.stride()[0], o.stride()[1]}, padding{o.padding()[0], o.padding()[1]},
        dilation{o.dilation()[0], o.dilation()[1]}, more{o.output_padding()[0], o.output_padding()[1]};
    const auto span = [&](const Two& all) { return Span<const std::int64_t>(all.data(), axes); };
    if (transposed)
      return f({op,
                {{"stride", span(stride)},
                 {"padding", span(padding)},
                 {"output_padding", span(more)},
                 {"dilation", span(dilation)},
                 {"groups", o.groups()}}});
    return f(
        {op,
         {{"stride", span(stride)}, {"padding", span(padding)}, {"dilation", span(dilation)}, {"groups", o.groups()}}});
  }
};

// By operations: im2col (the elements of all windows side by side), then a matrix product. For derivatives of
// gradients.
Tensor composed_convolution(const Convolution& c, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const bool padded = c.above() > 0 || c.before() > 0;
  const Tensor image = c.axes == 1 ? unsqueeze(x, 2) : x;
  const Tensor wide = padded ? pad(image, {c.before(), c.before(), c.above(), c.above()}) : image;
  const Windows w = c.windows(weight.shape());
  const Tensor p = patches(c.op, wide, w);
  const std::int64_t n = p.shape()[0], outputs = weight.shape()[0], places = p.shape()[4] * p.shape()[5];
  const std::int64_t inputs = weight.shape()[1] * w.height * w.width, groups = c.o.groups();
  const Tensor y =
      matmul(reshape(weight, Shape{groups, outputs / groups, inputs}), reshape(p, Shape{n, groups, inputs, places}));
  const Tensor image_y = reshape(y, c.shape(n, outputs, p.shape()[4], p.shape()[5]));
  return bias.defined() ? image_y + c.along_channels(bias) : image_y;
}

WindowProducts products_of(const Convolution& c, const Shape& x, const Shape& weight) {
  const Windows w = c.windows(weight);
  const std::int64_t rows = (c.axes == 1 ? 1 : x[2]) + 2 * c.above(), cols = x[-1] + 2 * c.before();
  return {{x[1] / c.o.groups(), rows, cols, w.height, w.width, w.stride_down, w.stride_right, w.dilation_down,
           w.dilation_right, places(rows, w.height, w.stride_down, w.dilation_down),
           places(cols, w.width, w.stride_right, w.dilation_right)},
          x[0],
          c.o.groups(),
          weight[0] / c.o.groups(),
          c.above(),
          c.before()};
}

// Operands as the products take them: of bfloat16, with sums in float32, if x is of it. Trivially copyable.
struct OperandTypes {
  OperandTypes(const WindowProducts& p, const Tensor& x)
      : low(x.dtype() == bfloat16), type(low ? factor_dtype(p) : x.dtype()) {}
  Tensor wide(const Tensor& t) const { return low && t.defined() ? t.to(float32) : t; }
  Tensor factor(const Tensor& t) const { return low ? t.to(bfloat16).to(type) : t; }

  bool low;
  DType type;  // of factors
};

void give_as(Backward& b, int input, const Tensor& dx) { b.give(input, dx.to(b.x(input).dtype())); }

// As one operation, which keeps x instead of the windows. If x is bfloat16, weight and bias may have any type.
Tensor fused_convolution(const detail::OpName& name, const Convolution& c, const Tensor& x, const Tensor& weight,
                         const Tensor& bias) {
  const WindowProducts p = products_of(c, x.shape(), weight.shape());
  const Shape shape = c.shape(p.n, weight.shape()[0], p.w.down, p.w.right);
  const OperandTypes as(p, x);
  Tensor y;
  {
    const NoGrad no_grad;
    y = window_products(p, shape, as.wide(x), as.factor(weight), as.wide(bias)).to(x.dtype());
  }
  return record(name, {x, weight, bias}, std::move(y), keep::inputs, [c, p, as](Backward& b) {
    if (b.recording())
      return give_by_decomposition(b, [&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{composed_convolution(c, in[0], in[1], in[2]).to(b.dy().dtype())};
      });
    const Tensor dy = b.dy(), wide_dy = as.wide(dy);
    if (b.wants(0)) give_as(b, 0, window_products_dx(p, b.shape(0), wide_dy, as.factor(b.x(1))));
    if (b.wants(1))
      give_as(b, 1, window_products_dweight(p, b.shape(1), as.wide(b.x(0)), as.type == bfloat16 ? dy : wide_dy));
    if (b.wants(2)) give_as(b, 2, sum(wide_dy, c.all_but_channels()));
  });
}

// ---- transposed: the gradient of a convolution of y with the same weight, by its input ------------------------------

// y's size along axis a.
std::int64_t transposed_size(const Convolution& c, int a, std::int64_t x, std::int64_t weight) {
  return (x - 1) * c.o.stride()[a] - 2 * c.o.padding()[a] + c.o.dilation()[a] * (weight - 1) + c.o.output_padding()[a] +
         1;
}
Shape transposed_shape(const Convolution& c, const Shape& x, const Shape& weight) {
  const std::int64_t outputs = weight[1] * c.o.groups(), first = transposed_size(c, 0, x[2], weight[2]);
  return c.axes == 1 ? Shape{x[0], outputs, first}
                     : Shape{x[0], outputs, first, transposed_size(c, 1, x[3], weight[3])};
}

// By operations: a matrix product gives the windows, which are added up (col2im).
Tensor composed_transposed(const Convolution& c, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Shape shape = transposed_shape(c, x.shape(), weight.shape());
  const Windows w = c.windows(weight.shape());
  const std::int64_t n = shape[0], outputs = shape[1], groups = c.o.groups(), inputs = x.shape()[1];
  const std::int64_t rows = c.axes == 1 ? 1 : x.shape()[2], cols = x.shape()[-1];
  const Tensor p = matmul(reshape(weight, Shape{groups, inputs / groups, outputs / groups * w.height * w.width}),
                          Transpose::yes, reshape(x, Shape{n, groups, inputs / groups, rows * cols}), Transpose::no);
  const Shape wide{n, outputs, (c.axes == 1 ? 1 : shape[2]) + 2 * c.above(), shape[-1] + 2 * c.before()};
  const Tensor padded = patches_backward(c.op, reshape(p, Shape{n, outputs, w.height, w.width, rows, cols}), w, wide);
  const Tensor y = reshape(pad(padded, {-c.before(), -c.before(), -c.above(), -c.above()}), shape);
  return bias.defined() ? y + c.along_channels(bias) : y;
}

Tensor fused_transposed(const detail::OpName& name, const Convolution& c, const Tensor& x, const Tensor& weight,
                        const Tensor& bias) {
  const Shape shape = transposed_shape(c, x.shape(), weight.shape());
  const WindowProducts p = products_of(c, shape, weight.shape());
  const OperandTypes as(p, x);
  Tensor y;
  {
    const NoGrad no_grad;
    y = window_products_dx(p, shape, as.wide(x), as.factor(weight));
    if (bias.defined()) y.add_(c.along_channels(as.wide(bias)));
    y = y.to(x.dtype());
  }
  return record(name, {x, weight, bias}, std::move(y), keep::inputs, [c, p, as](Backward& b) {
    if (b.recording())
      return give_by_decomposition(b, [&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{composed_transposed(c, in[0], in[1], in[2]).to(b.dy().dtype())};
      });
    const Tensor dy = as.wide(b.dy());
    if (b.wants(0)) give_as(b, 0, window_products(p, b.shape(0), dy, as.factor(b.x(1)), {}));
    if (b.wants(1)) give_as(b, 1, window_products_dweight(p, b.shape(1), dy, as.factor(b.x(0))));
    if (b.wants(2)) give_as(b, 2, sum(dy, c.all_but_channels()));
  });
}

// ---- of any type ----------------------------------------------------------------------------------------------------

Tensor convolution(const Convolution& c, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return with_precision(Precision::rounded_or_native, {x, weight}, [&](const Tensor& x, const Tensor& weight) {
    return c.named([&](const detail::OpName& name) {
      const auto fused = c.transposed ? fused_transposed : fused_convolution;
      if (product_dtype(x.dtype(), weight.dtype()) == bfloat16) return fused(name, c, x.to(bfloat16), weight, bias);
      DType t = promote(x.dtype(), weight.dtype());
      if (bias.defined()) t = promote(t, bias.dtype());
      return fused(name, c, x.to(t), weight.to(t), bias.defined() ? bias.to(t) : bias);
    });
  });
}

}  // namespace

std::string PerAxis::str() const {
  return at_[0] == at_[1] ? std::to_string(at_[0]) : '(' + std::to_string(at_[0]) + ", " + std::to_string(at_[1]) + ')';
}

void expect_axes(const char* op, const char* name, int axes, const PerAxis& given) {
  if (given.count() > axes)
    check::fail(op, name, " is ", given.str(), ": the windows slide along one axis, so it must be one number");
}

namespace {

// Checks the types and the options of a convolution along one axis or two.
void expect_options(const Convolution& c, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const ConvOptions& o = c.o;
  check::floating(c.op, "x", x);
  check::floating(c.op, "weight", weight);
  if (bias.defined()) check::floating(c.op, "bias", bias);
  expect_axes(c.op, "stride", c.axes, o.stride());
  expect_axes(c.op, "padding", c.axes, o.padding());
  expect_axes(c.op, "dilation", c.axes, o.dilation());
  constexpr std::int64_t largest = std::int64_t{1} << 30;
  for (int a = 0; a < c.axes; ++a)
    if (o.stride()[a] < 1 || o.dilation()[a] < 1 || o.padding()[a] < 0 || o.groups() < 1 ||
        std::max({o.stride()[a], o.dilation()[a], o.padding()[a], o.groups()}) > largest)
      check::fail(c.op, "stride ", o.stride().str(), ", padding ", o.padding().str(), ", dilation ", o.dilation().str(),
                  ", groups ", o.groups(),
                  ": padding can't be negative, the others must be positive, and all at most 2^30");
}

void expect_convolution(const Convolution& c, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const char* const sizes =
      c.axes == 1 ? "x [N, C, L] and weight [O, C / groups, K]" : "x [N, C, H, W] and weight [O, C / groups, K, L]";
  expect_options(c, x, weight, bias);
  const ConvOptions& o = c.o;
  if (o.output_padding() != 0)
    check::fail(c.op, "output_padding is ", o.output_padding().str(), ": only transposed convolutions have it");
  if (x.rank() != c.axes + 2 || weight.rank() != c.axes + 2 || x.shape()[1] != weight.shape()[1] * o.groups() ||
      weight.shape()[0] % o.groups() != 0 || weight.numel() == 0)
    check::fail(c.op, "x has shape ", x.shape(), ", weight ", weight.shape(), ", groups is ", o.groups(),
                ": they must be ", sizes, ", none of them empty, with groups a divisor of O");
  for (int a = 0; a < c.axes; ++a)
    if (o.dilation()[a] * (weight.shape()[a + 2] - 1) + 1 > x.shape()[a + 2] + 2 * o.padding()[a])
      check::fail(c.op, "x has shape ", x.shape(), ", weight ", weight.shape(), ", padding ", o.padding().str(),
                  ", dilation ", o.dilation().str(), ": the window is wider than axis ", a + 2);
  if (bias.defined()) check::shape(c.op, "bias", bias, {weight.shape()[0]});
}

void expect_transposed(const Convolution& c, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const char* const sizes =
      c.axes == 1 ? "x [N, C, L] and weight [C, O / groups, K]" : "x [N, C, H, W] and weight [C, O / groups, K, L]";
  expect_options(c, x, weight, bias);
  expect_axes(c.op, "output_padding", c.axes, c.o.output_padding());
  for (int a = 0; a < c.axes; ++a)
    if (c.o.output_padding()[a] < 0 || c.o.output_padding()[a] >= c.o.stride()[a])
      check::fail(c.op, "output_padding is ", c.o.output_padding().str(), ", stride ", c.o.stride().str(),
                  ": output_padding must be in 0 … stride - 1");
  if (x.rank() != c.axes + 2 || weight.rank() != c.axes + 2 || x.shape()[1] != weight.shape()[0] ||
      weight.shape()[0] % c.o.groups() != 0 || weight.numel() == 0)
    check::fail(c.op, "x has shape ", x.shape(), ", weight ", weight.shape(), ", groups is ", c.o.groups(),
                ": they must be ", sizes, ", none of them empty, with groups a divisor of C");
  for (int a = 0; a < c.axes; ++a)
    if (x.shape()[a + 2] < 1 || transposed_size(c, a, x.shape()[a + 2], weight.shape()[a + 2]) < 1)
      check::fail(c.op, "x has shape ", x.shape(), ", weight ", weight.shape(), ", padding ", c.o.padding().str(),
                  ": nothing is left of axis ", a + 2);
  if (bias.defined()) check::shape(c.op, "bias", bias, {weight.shape()[1] * c.o.groups()});
}

Tensor checked_convolution(const Convolution& c, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  (c.transposed ? expect_transposed : expect_convolution)(c, x, weight, bias);
  return convolution(c, x, weight, bias);
}

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& o) {
  return checked_convolution({"conv1d", 1, o}, x, weight, bias);
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& o) {
  return checked_convolution({"conv2d", 2, o}, x, weight, bias);
}
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& o) {
  return checked_convolution({"conv_transpose1d", 1, o, true}, x, weight, bias);
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& o) {
  return checked_convolution({"conv_transpose2d", 2, o, true}, x, weight, bias);
}

}  // namespace fit
