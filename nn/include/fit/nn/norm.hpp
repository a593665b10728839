#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "fit/nn/layer.hpp"

namespace fit::nn {

/// The options of LayerNorm.
struct LayerNormOptions {
  LayerNormOptions() {}
  double eps = 1e-5;
  bool bias = true;
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

}  // namespace fit::nn
