#include "fit/nn/norm.hpp"

#include <algorithm>
#include <vector>

#include "base/joined.hpp"
#include "fit/activation_checkpoint.hpp"
#include "fit/ops.hpp"
#include "layers/sizes.hpp"

namespace fit::nn {
namespace {

Parameter ones_of(const char* layer, const char* size_name, std::int64_t size, double eps) {
  positive(layer, size_name, size);
  if (!(eps >= 0)) check::fail(layer, "eps is ", eps, ": it must not be negative");
  return Parameter(ones({size}));
}

void check_channels(const char* layer, const Tensor& x, const Tensor& weight) {
  check::defined(layer, "x", x);
  if (x.rank() < 2 || x.size(1) != weight.numel())
    check::fail(layer, "x has shape ", x.shape(), ", weight ", weight.shape(),
                ": x must be [N, C, ...] with C = channels = ", weight.numel());
}

}  // namespace

FIT_FIELDS_OF(LayerNorm, weight, bias)

LayerNorm::LayerNorm(std::int64_t size, double eps) : LayerNorm(size, LayerNormOptions().eps(eps)) {}

LayerNorm::LayerNorm(std::int64_t size, const LayerNormOptions& o)
    : weight(ones_of("LayerNorm", "size", size, o.eps())), eps_(o.eps()) {
  if (o.bias()) bias = Parameter(zeros({size}));
}

Tensor LayerNorm::forward(const Tensor& x) const {
  const Tensor w = weight.value();
  check_last("LayerNorm", x, "size", w.numel(), "weight", w);
  return layer_norm(x, w, bias.value(), eps_);
}

std::string LayerNorm::describe() const {
  return joined(weight.original().numel(), ", eps=", eps_, ", bias=", bias.original().defined());
}

FIT_FIELDS_OF(RMSNorm, weight)

RMSNorm::RMSNorm(std::int64_t size, double eps) : weight(ones_of("RMSNorm", "size", size, eps)), eps_(eps) {}

Tensor RMSNorm::forward(const Tensor& x) const {
  const Tensor w = weight.value();
  check_last("RMSNorm", x, "size", w.numel(), "weight", w);
  return rms_norm(x, w, eps_);
}

std::string RMSNorm::describe() const { return joined(weight.original().numel(), ", eps=", eps_); }

FIT_FIELDS_OF(GroupNorm, weight, bias)

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, double eps) : groups_(groups), eps_(eps) {
  positive("GroupNorm", "groups", groups);
  if (positive("GroupNorm", "channels", channels) % groups != 0)
    check::fail("GroupNorm", "groups is ", groups, ": it must divide channels = ", channels);
  weight = ones_of("GroupNorm", "channels", channels, eps);
  bias = Parameter(zeros({channels}));
}

Tensor GroupNorm::forward(const Tensor& x) const {
  const Tensor w = weight.value();
  check_channels("GroupNorm", x, w);
  return group_norm(x, groups_, w, bias.value(), eps_);
}

std::string GroupNorm::describe() const {
  return joined("groups=", groups_, ", channels=", weight.original().numel(), ", eps=", eps_);
}

FIT_FIELDS_OF(BatchNorm, weight, bias, running_mean, running_var)

BatchNorm::BatchNorm(std::int64_t channels, double eps, double momentum) : eps_(eps), momentum_(momentum) {
  weight = ones_of("BatchNorm", "channels", channels, eps);
  if (!(momentum >= 0 && momentum <= 1)) check::fail("BatchNorm", "momentum is ", momentum, ": it must be in 0 … 1");
  bias = Parameter(zeros({channels}));
  running_mean = Buffer(zeros({channels}));
  running_var = Buffer(ones({channels}));
}

Tensor BatchNorm::forward(const Tensor& x) const {
  const Tensor w = weight.value();
  check_channels("BatchNorm", x, w);
  if (!training()) return batch_norm(x, running_mean, running_var, w, bias.value(), eps_);
  Tensor y = batch_norm(x, {}, {}, w, bias.value(), eps_);
  const std::int64_t n = x.numel() / std::max<std::int64_t>(x.size(1), 1);
  if (n < 2)
    check::fail("BatchNorm", "x has shape ", x.shape(), ": a batch needs more than one number for each channel");
  if (fit::detail::computing_again()) return y;
  const NoGrad no_grad;
  std::vector<int> axes{0};
  for (int a = 2; a < x.rank(); ++a) axes.push_back(a);
  Tensor running = running_mean, variance = running_var;  // handles to the buffers
  running.mul_(1 - momentum_).add_(mean(x, axes) * momentum_);
  variance.mul_(1 - momentum_).add_(var(x, axes) * momentum_);
  return y;
}

std::string BatchNorm::describe() const {
  return joined("channels=", weight.original().numel(), ", eps=", eps_, ", momentum=", momentum_);
}

}  // namespace fit::nn
