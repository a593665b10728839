#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "fit/nn/layer.hpp"
#include "fit/option.hpp"

namespace fit::nn {

/// The options of LayerNorm.
struct LayerNormOptions {
  FIT_OPTION(double, eps) = 1e-5;  ///< Added to the variance.
  FIT_OPTION(bool, bias) = true;   ///< Whether there is a bias.
};

/// (x - mean) / sqrt(var + eps) * weight + bias over the last axis, which has `size` elements: x [..., C] -> [..., C].
/// Starts with weight 1 and bias 0.
class LayerNorm final : public UnaryLayer {
 public:
  explicit LayerNorm(std::int64_t size, double eps = 1e-5);
  LayerNorm(std::int64_t size, const LayerNormOptions& options);
  Tensor forward(const Tensor& x) const override;
  FIT_FIELDS(weight, bias)
  std::string describe() const override;

  Parameter weight, bias;  // [C], [C] or undefined

 private:
  double eps_;
};

/// x / sqrt(mean(x^2) + eps) * weight over the last axis, which has `size` elements. Starts with weight 1.
class RMSNorm final : public UnaryLayer {
 public:
  explicit RMSNorm(std::int64_t size, double eps = 1e-6);
  Tensor forward(const Tensor& x) const override;
  FIT_FIELDS(weight)
  std::string describe() const override;

  Parameter weight;  // [C]

 private:
  double eps_;
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
