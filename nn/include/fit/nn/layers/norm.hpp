#pragma once
#include <cstdint>
#include <string>

#include "fit/base/option.hpp"
#include "fit/nn/layer/layer.hpp"

namespace fit::nn {

/// The options of LayerNorm.
struct LayerNormOptions {
  FIT_OPTION(double, eps) = 1e-5;   ///< Added to the variance.
  FIT_OPTION(bool, bias) = true;    ///< Whether there is a bias, beside a weight.
  FIT_OPTION(bool, weight) = true;  ///< Whether there is a weight; without it, there is no bias (elementwise_affine).
};

/// (x - mean) / sqrt(var + eps) * weight + bias over the last axis, of size C: x [..., C] -> [..., C]. Starts with
/// weight 1 and bias 0.
class LayerNorm final : public UnaryLayer {
 public:
  explicit LayerNorm(std::int64_t size, double eps = 1e-5);
  LayerNorm(std::int64_t size, const LayerNormOptions& options);
  explicit LayerNorm(...) = delete;  // give (size, eps = 1e-5), or (size, LayerNormOptions()…)
  Tensor forward(const Tensor& x) const override;
  FIT_FIELDS_DECLARED
  std::string describe() const override;

  Parameter weight, bias;  // [C] or undefined

 private:
  std::int64_t size_;
  double eps_;
};

/// x / sqrt(mean(x^2) + eps) * weight over the last axis, of size C. Starts with weight 1.
class RMSNorm final : public UnaryLayer {
 public:
  explicit RMSNorm(std::int64_t size, double eps = 1e-6);
  explicit RMSNorm(...) = delete;  // give (size, eps = 1e-6)
  Tensor forward(const Tensor& x) const override;
  FIT_FIELDS_DECLARED
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
  FIT_FIELDS_DECLARED
  std::string describe() const override;

  Parameter weight, bias;  // [C]

 private:
  std::int64_t groups_;
  double eps_;
};

/// batch_norm() of x [N, C, ...], like PyTorch's BatchNorm1d and BatchNorm2d. Training uses the batch statistics, and
/// updates the running ones: new = (1 - momentum) old + momentum batch, with the unbiased variance. Evaluation uses the
/// running statistics.
///
/// While a dist::DataParallel of several ranks lives on this thread, the batch is that of all ranks, in training, and
/// the running statistics are equal on all ranks (PyTorch: SyncBatchNorm). All ranks must then call it alike, forward
/// and backward. Throws Error if the batch has only one number for each channel.
class BatchNorm final : public UnaryLayer {
 public:
  explicit BatchNorm(std::int64_t channels, double eps = 1e-5, double momentum = 0.1);
  Tensor forward(const Tensor& x) const override;
  FIT_FIELDS_DECLARED
  std::string describe() const override;

  Parameter weight, bias;            // [C]
  Buffer running_mean, running_var;  // [C], initially 0 and 1

 private:
  double eps_, momentum_;
};

}  // namespace fit::nn
