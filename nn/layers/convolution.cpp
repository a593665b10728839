#include "fit/nn/convolution.hpp"

#include <cmath>

#include "fit/nn/init.hpp"
#include "layers/describe.hpp"
#include "layers/sizes.hpp"

namespace fit::nn {
namespace {

// Weight [O, C / groups, K, …] of so many axes and bias [O].
void start(const char* layer, Parameter& weight, Parameter& bias, std::int64_t in, std::int64_t out, std::int64_t size,
           int axes, const ConvOptions& o) {
  positive(layer, "in_channels", in);
  positive(layer, "out_channels", out);
  positive(layer, "kernel_size", size);
  positive(layer, "groups", o.groups);
  if (in % o.groups != 0 || out % o.groups != 0)
    check::fail(layer, "groups is ", o.groups, ": it must divide in_channels ", in, " and out_channels ", out);
  const Shape shape = axes == 1 ? Shape{out, in / o.groups, size} : Shape{out, in / o.groups, size, size};
  const double bound = 1 / std::sqrt(static_cast<double>(shape.numel()) / static_cast<double>(out));
  weight = Parameter(init::uniform_(Tensor::empty(shape), -bound, bound));
  bias = Parameter(init::uniform_(Tensor::empty({out}), -bound, bound));
}

std::string described(const Tensor& weight, const ConvOptions& o) {
  return describe_all("in_channels=", weight.size(1) * o.groups, ", out_channels=", weight.size(0),
                      ", kernel_size=", weight.size(2), ", stride=", o.stride, ", padding=", o.padding,
                      ", dilation=", o.dilation, ", groups=", o.groups);
}

}  // namespace

Conv1d::Conv1d(std::int64_t in, std::int64_t out, std::int64_t size, const ConvOptions& options) : options_(options) {
  start("Conv1d", weight, bias, in, out, size, 1, options);
}
std::string Conv1d::describe() const { return described(weight.original(), options_); }

Conv2d::Conv2d(std::int64_t in, std::int64_t out, std::int64_t size, const ConvOptions& options) : options_(options) {
  start("Conv2d", weight, bias, in, out, size, 2, options);
}
std::string Conv2d::describe() const { return described(weight.original(), options_); }

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, double eps) : groups_(groups), eps_(eps) {
  positive("GroupNorm", "groups", groups);
  if (positive("GroupNorm", "channels", channels) % groups != 0)
    check::fail("GroupNorm", "groups is ", groups, ": it must divide channels = ", channels);
  weight = Parameter(ones({channels}));
  bias = Parameter(zeros({channels}));
}

Tensor GroupNorm::forward(const Tensor& x) const { return group_norm(x, groups_, weight.value(), bias.value(), eps_); }

std::string GroupNorm::describe() const {
  return describe_all("groups=", groups_, ", channels=", weight.original().numel(), ", eps=", eps_);
}

BatchNorm::BatchNorm(std::int64_t channels, double eps, double momentum) : eps_(eps), momentum_(momentum) {
  positive("BatchNorm", "channels", channels);
  if (!(momentum >= 0 && momentum <= 1)) check::fail("BatchNorm", "momentum is ", momentum, ": it must be in 0 … 1");
  weight = Parameter(ones({channels}));
  bias = Parameter(zeros({channels}));
  running_mean = Buffer(zeros({channels}));
  running_var = Buffer(ones({channels}));
}

Tensor BatchNorm::forward(const Tensor& x) const {
  if (!training()) return batch_norm(x, running_mean, running_var, weight.value(), bias.value(), eps_);
  Tensor y = batch_norm(x, {}, {}, weight.value(), bias.value(), eps_);
  const std::int64_t n = x.numel() / std::max<std::int64_t>(x.size(1), 1);
  if (n < 2)
    check::fail("BatchNorm", "x has shape ", x.shape(), ": a batch needs more than one number for each channel");
  const NoGrad no_grad;
  std::vector<int> axes{0};
  for (int a = 2; a < x.rank(); ++a) axes.push_back(a);
  Tensor running = running_mean, variance = running_var;  // handles to the buffers
  running.mul_(1 - momentum_).add_(mean(x, axes) * momentum_);
  variance.mul_(1 - momentum_).add_(var(x, axes) * momentum_);
  return y;
}

std::string BatchNorm::describe() const {
  return describe_all("channels=", weight.original().numel(), ", eps=", eps_, ", momentum=", momentum_);
}

}  // namespace fit::nn
