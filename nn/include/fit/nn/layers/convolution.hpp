#pragma once
#include <cstdint>
#include <string>

#include "fit/nn/layer/layer.hpp"
#include "fit/ops/ops.hpp"

/// Layers for images [N, C, H, W] and for sequences with channels [N, C, L].
namespace fit::nn {

/// conv1d(x, weight, bias, options): x [N, C, L]. Parameters start uniform in ±1/sqrt(C / groups K), as in PyTorch.
/// There is no bias with ConvOptions().bias(false).
class Conv1d final : public UnaryLayer {
 public:
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
         const ConvOptions& options = {});
  Tensor forward(const Tensor& x) const override { return conv1d(x, weight.value(), bias.value(), options_); }
  FIT_FIELDS_DECLARED
  std::string describe() const override;

  Parameter weight, bias;  // [O, C / groups, K], [O] or undefined

 private:
  ConvOptions options_;
};

/// conv2d(x, weight, bias, options): x [N, C, H, W]. kernel_size is one number, or {down, right}.
class Conv2d final : public UnaryLayer {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, PerAxis kernel_size, const ConvOptions& options = {});
  Tensor forward(const Tensor& x) const override { return conv2d(x, weight.value(), bias.value(), options_); }
  FIT_FIELDS_DECLARED
  std::string describe() const override;

  Parameter weight, bias;  // [O, C / groups, K, L], [O] or undefined

 private:
  ConvOptions options_;
};

}  // namespace fit::nn
