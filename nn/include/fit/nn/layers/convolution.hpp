#pragma once
#include <cstdint>
#include <string>

#include "fit/nn/layer/layer.hpp"
#include "fit/ops/ops.hpp"

/// Layers for images [N, C, H, W] and for sequences with channels [N, C, L].
namespace fit::nn {

/// conv1d(x, weight, bias, options): x [N, C, L]. Parameters start uniform in ±1/sqrt(C / groups K), as in PyTorch.
class Conv1d final : public UnaryLayer {
 public:
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
         const ConvOptions& options = {});
  Tensor forward(const Tensor& x) const override { return conv1d(x, weight.value(), bias.value(), options_); }
  FIT_FIELDS_DECLARED
  std::string describe() const override;

  Parameter weight, bias;  // [O, C / groups, K], [O]

 private:
  ConvOptions options_;
};

/// conv2d(x, weight, bias, options): x [N, C, H, W], with square kernels of kernel_size.
class Conv2d final : public UnaryLayer {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
         const ConvOptions& options = {});
  Tensor forward(const Tensor& x) const override { return conv2d(x, weight.value(), bias.value(), options_); }
  FIT_FIELDS_DECLARED
  std::string describe() const override;

  Parameter weight, bias;  // [O, C / groups, K, K], [O]

 private:
  ConvOptions options_;
};

}  // namespace fit::nn
