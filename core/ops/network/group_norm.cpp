// group_norm and batch_norm, composed of operations.
#include <cmath>

#include "fit/ops/ops.hpp"
#include "ops/common/precision.hpp"
#include "ops/reduce/slice_scale.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

// Returns C of x [N, C, ...], after the checks that both norms share.
std::int64_t channels_of(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  check::floating(op, "x", x);
  if (x.rank() < 2) check::fail(op, "x has shape ", x.shape(), ": it must be [N, C, ...]");
  const std::int64_t c = x.shape()[1];
  if (weight.defined()) check::floating(op, "weight", weight), check::shape(op, "weight", weight, {c});
  if (bias.defined()) check::floating(op, "bias", bias), check::shape(op, "bias", bias, {c});
  check::not_negative(op, "eps", eps);
  return c;
}

// Reshapes v [C] to broadcast along axis 1 of x.
Tensor along_channels(const Tensor& v, const Tensor& x) {
  Shape shape{v.numel()};
  for (int a = 2; a < x.rank(); ++a) shape = shape.inserted(a - 1, 1);
  return reshape(v, shape);
}

Tensor scaled(Tensor y, const Tensor& weight, const Tensor& bias) {
  if (weight.defined()) y = y * along_channels(weight, y);
  if (bias.defined()) y = y + along_channels(bias, y);
  return y;
}

}  // namespace

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
  const std::int64_t channels = channels_of("group_norm", x, weight, bias, eps);
  if (groups < 1 || channels % groups != 0)
    check::fail("group_norm", "groups is ", groups, ": it must divide the ", channels, " channels of x ", x.shape());
  return with_precision(Precision::float32, {x, weight, bias},
                        [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
                          if (x.numel() == 0) return scaled(x.clone(), weight, bias);
                          const std::int64_t rows = x.shape()[0] * groups;
                          const Tensor y = layer_norm(reshape(x, Shape{rows, x.numel() / rows}), {}, {}, eps);
                          return scaled(reshape(y, x.shape()), weight, bias);
                        });
}

Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& var, const Tensor& weight, const Tensor& bias,
                  double eps) {
  const std::int64_t channels = channels_of("batch_norm", x, weight, bias, eps);
  if (mean.defined() != var.defined())
    check::fail("batch_norm", mean.defined() ? "var" : "mean", " is undefined: give it, or neither for the batch's");
  return with_precision(
      Precision::float32, {x, mean, var, weight, bias},
      [&](const Tensor& x, const Tensor& mean, const Tensor& var, const Tensor& weight, const Tensor& bias) {
        if (mean.defined()) {
          check::floating("batch_norm", "mean", mean);
          check::floating("batch_norm", "var", var);
          check::shape("batch_norm", "mean", mean, {channels});
          check::shape("batch_norm", "var", var, {channels});
          return scaled((x - along_channels(mean, x)) * rsqrt(along_channels(var, x) + eps), weight, bias);
        }
        std::vector<int> axes{0};
        for (int a = 2; a < x.rank(); ++a) axes.push_back(a);
        const auto average = [&](const Tensor& t) { return fit::mean(t, axes, keepdims); };
        Tensor centred = x - average(x), variance = average(centred * centred) + eps;
        if (const Tensor s = slice_scale(x, variance.shape(), sqrt(variance.detach())); s.defined()) {
          const Tensor near_one = x * s;
          centred = near_one - average(near_one);
          variance = average(centred * centred) + square(s * std::sqrt(eps));
        }
        return scaled(centred * rsqrt(variance), weight, bias);
      });
}

}  // namespace fit
