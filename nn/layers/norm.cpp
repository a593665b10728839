#include "fit/nn/layers/norm.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/joined.hpp"
#include "dist/agree.hpp"
#include "dist/all_sum.hpp"
#include "dist/batch_ranks.hpp"
#include "fit/backward/activation_checkpoint.hpp"
#include "fit/graph/named_values.hpp"
#include "fit/ops/ops.hpp"
#include "layer/sizes.hpp"
#include "ops/common/precision.hpp"
#include "ops/network/channel_norm.hpp"

namespace fit::nn {
namespace {

Parameter ones_of(const char* layer, const char* size_name, std::int64_t size, double eps) {
  positive(layer, size_name, size);
  check::not_negative(layer, "eps", eps);
  return Parameter(ones({size}));
}

void check_channels(const char* layer, const Tensor& x, const Tensor& weight) {
  check::defined(layer, "x", x);
  if (x.rank() < 2 || x.size(1) != weight.numel())
    check::fail(layer, "x has shape ", x.shape(), ", weight ", weight.shape(),
                ": x must be [N, C, ...] with C = channels = ", weight.numel());
}

// The deviation by which a norm divides, [..., 1], offered to observers; undefined if it is not replaced.
Tensor replaced_scale(const Tensor& centred, double eps) {
  if (!value_wanted("scale")) return {};
  const Tensor scale = sqrt(mean(centred * centred, -1, keepdims) + eps), given = observed("scale", scale);
  return given.impl() == scale.impl() ? Tensor() : given;
}

}  // namespace

FIT_FIELDS_OF(LayerNorm, weight, bias)

LayerNorm::LayerNorm(std::int64_t size, double eps) : LayerNorm(size, LayerNormOptions().eps(eps)) {}

LayerNorm::LayerNorm(std::int64_t size, const LayerNormOptions& o)
    : weight(ones_of("LayerNorm", "size", size, o.eps())), size_(size), eps_(o.eps()) {
  if (o.bias() && o.weight()) bias = Parameter(zeros({size}));
  if (!o.weight()) weight = Parameter();
}

Tensor LayerNorm::forward(const Tensor& x) const {
  const Tensor w = weight.value();
  check_last("LayerNorm", x, "size", size_, "weight", w.defined() ? w : Tensor::empty({size_}, float32));
  if (value_wanted("scale")) {
    const Tensor centred = x - mean(x, -1, keepdims), scale = replaced_scale(centred, eps_);
    if (scale.defined()) {
      const Tensor y = centred / scale, scaled = w.defined() ? y * w : y;
      return bias.original().defined() ? scaled + bias.value() : scaled;
    }
  }
  return layer_norm(x, w, bias.value(), eps_);
}

std::string LayerNorm::describe() const {
  return joined(size_, ", eps=", eps_, ", bias=", bias.original().defined(),
                weight.original().defined() ? "" : ", weight=0");
}

FIT_FIELDS_OF(RMSNorm, weight)

RMSNorm::RMSNorm(std::int64_t size, double eps) : weight(ones_of("RMSNorm", "size", size, eps)), eps_(eps) {}

Tensor RMSNorm::forward(const Tensor& x) const {
  const Tensor w = weight.value();
  check_last("RMSNorm", x, "size", w.numel(), "weight", w);
  if (const Tensor scale = replaced_scale(x, eps_); scale.defined()) return x / scale * w;
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

namespace {

std::vector<int> all_but_channels(const Tensor& x) {
  std::vector<int> axes{0};
  for (int a = 2; a < x.rank(); ++a) axes.push_back(a);
  return axes;
}

// The mean and the population variance [C] of each channel over the numbers of all ranks, and how many those are.
struct Statistics {
  Tensor mean, var;
  double count;
};

Statistics over_ranks(const Tensor& given, const dist::BatchRanks& ranks) {
  const Tensor x = to_float32(given);
  const std::int64_t channels = x.size(1);
  const std::vector<int> axes = all_but_channels(x);
  std::vector<std::int64_t> along(static_cast<std::size_t>(x.rank()), 1);
  along[1] = channels;
  const double own = ranks.padding ? 0 : 1;
  const auto total = [&](const Tensor& numbers) { return dist::all_sum(sum(numbers, axes) * own, *ranks.world); };
  const double count =
      dist::all_sum(full({}, own * static_cast<double>(x.numel() / channels), float64), *ranks.world).item();
  if (count < 2)
    dist::fail_alike("BatchNorm", "the batch of all ranks has ", count,
                     " numbers for each channel: it needs more than one");
  const Tensor mean = total(x) / count, centred = x - reshape(mean, Shape(along));
  return {mean, total(centred * centred) / count, count};
}

}  // namespace

Tensor BatchNorm::forward(const Tensor& x) const {
  const Tensor w = weight.value();
  check_channels("BatchNorm", x, w);
  if (!training()) return batch_norm(x, running_mean, running_var, w, bias.value(), eps_);
  const auto update = [&](const Tensor& mean, const Tensor& var) {
    const NoGrad no_grad;
    Tensor running = running_mean, variance = running_var;  // handles to the buffers
    running.mul_(1 - momentum_).add_(mean * momentum_);
    variance.mul_(1 - momentum_).add_(var * momentum_);
  };
  if (dist::batch_ranks.world) {
    const Statistics all = over_ranks(x, dist::batch_ranks);
    if (!fit::detail::computing_again()) update(all.mean.detach(), all.var.detach() * (all.count / (all.count - 1)));
    return batch_norm(x, all.mean, all.var, w, bias.value(), eps_);
  }
  BatchNormalised batch = batch_norm_and_statistics(x, w, bias.value(), eps_);
  const std::int64_t n = x.numel() / std::max<std::int64_t>(x.size(1), 1);
  if (n < 2)
    check::fail(
        "BatchNorm", "x has shape ", x.shape(),
        ": in training, a batch needs more than one number for each channel. A DataLoader with drop_last leaves out a "
        "last batch of one row");
  if (!fit::detail::computing_again()) update(batch.mean, batch.var);
  return std::move(batch.y);
}

std::string BatchNorm::describe() const {
  return joined("channels=", weight.original().numel(), ", eps=", eps_, ", momentum=", momentum_);
}

}  // namespace fit::nn
