#pragma once
#include <cstdint>
#include <string>

#include "fit/nn/layer.hpp"
#include "fit/ops.hpp"

/// Layers of images and of sequences with channels: [N, C, H, W] and [N, C, L].
namespace fit::nn {

/// conv1d(x, weight, bias, options): x [N, C, L]. Both start uniform in ±1/sqrt(C / groups K), as in PyTorch.
class Conv1d final : public UnaryLayer {
 public:
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
         const ConvOptions& options = {});
  Tensor forward(const Tensor& x) const override { return conv1d(x, weight.value(), bias.value(), options_); }
  FIT_FIELDS(weight, bias)
  std::string describe() const override;

  Parameter weight, bias;  // [O, C / groups, K], [O]

 private:
  ConvOptions options_;
};

/// conv2d(x, weight, bias, options): x [N, C, H, W], with windows kernel_size high and wide.
class Conv2d final : public UnaryLayer {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
         const ConvOptions& options = {});
  Tensor forward(const Tensor& x) const override { return conv2d(x, weight.value(), bias.value(), options_); }
  FIT_FIELDS(weight, bias)
  std::string describe() const override;

  Parameter weight, bias;  // [O, C / groups, K, K], [O]

 private:
  ConvOptions options_;
};

/// group_norm(x, groups, weight, bias, eps): x [N, C, ...]. Starts with weight 1 and bias 0.
class GroupNorm final : public UnaryLayer {
 public:
  GroupNorm(std::int64_t groups, std::int64_t channels, double eps = 1e-5);
  Tensor forward(const Tensor& x) const override;
  FIT_FIELDS(weight, bias)
  std::string describe() const override;

  Parameter weight, bias;  // [C]

 private:
  std::int64_t groups_;
  double eps_;
};

/// batch_norm() of x [N, C, ...]: in training by the statistics of the batch, which are also taken into running ones
/// (new = (1 - momentum) old + momentum batch's; the variance with its correction); in evaluation by the running ones.
/// For PyTorch's BatchNorm1d and BatchNorm2d alike.
class BatchNorm final : public UnaryLayer {
 public:
  explicit BatchNorm(std::int64_t channels, double eps = 1e-5, double momentum = 0.1);
  Tensor forward(const Tensor& x) const override;
  FIT_FIELDS(weight, bias, running_mean, running_var)
  std::string describe() const override;

  Parameter weight, bias;            // [C]
  Buffer running_mean, running_var;  // [C]: 0 and 1 at first

 private:
  double eps_, momentum_;
};

}  // namespace fit::nn
