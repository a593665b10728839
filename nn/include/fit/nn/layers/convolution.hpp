#pragma once
#include <cstdint>
#include <string>

#include "fit/nn/layer/layer.hpp"
#include "fit/nn/layers/activation.hpp"
#include "fit/ops/windows.hpp"

/// Layers for images [N, C, H, W] and for sequences with channels [N, C, L].
namespace fit::nn {

namespace detail {

/// What the layers of convolutions have in common: their parameters, how these start, and the text of the options.
class Convolution : public UnaryLayer {
 public:
  std::string describe() const override;

  Parameter weight, bias;

 protected:
  enum class Form { plain, transposed };
  /// The windows of `size` slide along 1 or 2 axes. `layer` is the name in Errors.
  Convolution(const char* layer, Form form, int axes, std::int64_t in, std::int64_t out, const PerAxis& size,
              const ConvOptions& options);

  ConvOptions options_;

 private:
  Form form_;
};

std::string described_pool(const PerAxis& size, const PoolOptions& options);

/// A layer that calls a pool.
template <class Self, Tensor (*pool)(const Tensor&, PerAxis, const PoolOptions&)>
class Pool : public UnaryLayer {
 public:
  explicit Pool(PerAxis size, const PoolOptions& options = {}) : size_(size), options_(options) {}
  Tensor forward(const Tensor& x) const override { return pool(x, size_, options_); }
  void fields(Fields& list) override { list.self(static_cast<Self&>(*this)); }
  std::string describe() const override { return described_pool(size_, options_); }

 private:
  PerAxis size_;
  PoolOptions options_;
};
}  // namespace detail

/// conv1d(x, weight, bias, options): x [N, C, L]. weight [O, C / groups, K] and bias [O] start uniform in ±1/sqrt(C /
/// groups K), as in PyTorch. There is no bias with ConvOptions().bias(false).
class Conv1d final : public detail::Convolution {
 public:
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
         const ConvOptions& options = {});
  Tensor forward(const Tensor& x) const override { return conv1d(x, weight.value(), bias.value(), options_); }
  void fields(Fields& f) override;
};

/// conv2d(x, weight, bias, options): x [N, C, H, W], weight [O, C / groups, K, L]. kernel_size is one number, or {down,
/// right}.
class Conv2d final : public detail::Convolution {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, PerAxis kernel_size, const ConvOptions& options = {});
  Tensor forward(const Tensor& x) const override { return conv2d(x, weight.value(), bias.value(), options_); }
  void fields(Fields& f) override;
};

/// conv_transpose1d(x, weight, bias, options): x [N, C, L]. weight [C, O / groups, K] and bias [O] start uniform in
/// ±1/sqrt(O / groups K), as in PyTorch. There is no bias with ConvOptions().bias(false).
class ConvTranspose1d final : public detail::Convolution {
 public:
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
                  const ConvOptions& options = {});
  Tensor forward(const Tensor& x) const override { return conv_transpose1d(x, weight.value(), bias.value(), options_); }
  void fields(Fields& f) override;
};

/// conv_transpose2d(x, weight, bias, options): x [N, C, H, W], weight [C, O / groups, K, L]. kernel_size is one number,
/// or {down, right}.
class ConvTranspose2d final : public detail::Convolution {
 public:
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, PerAxis kernel_size,
                  const ConvOptions& options = {});
  Tensor forward(const Tensor& x) const override { return conv_transpose2d(x, weight.value(), bias.value(), options_); }
  void fields(Fields& f) override;
};

/// max_pool1d(x, size, options) and the other pools: MaxPool2d(2), AvgPool2d({2, 1}, PoolOptions().stride(1)).
class MaxPool1d final : public detail::Pool<MaxPool1d, fit::max_pool1d> {
 public:
  using Pool::Pool;
};
class MaxPool2d final : public detail::Pool<MaxPool2d, fit::max_pool2d> {
 public:
  using Pool::Pool;
};
class AvgPool1d final : public detail::Pool<AvgPool1d, fit::avg_pool1d> {
 public:
  using Pool::Pool;
};
class AvgPool2d final : public detail::Pool<AvgPool2d, fit::avg_pool2d> {
 public:
  using Pool::Pool;
};

/// interpolate(x, options): Upsample(InterpolateOptions().scale_factor(2)).
class Upsample final : public UnaryLayer {
 public:
  explicit Upsample(const InterpolateOptions& options) : options_(options) {}
  Tensor forward(const Tensor& x) const override { return interpolate(x, options_); }
  void fields(Fields& f) override;
  std::string describe() const override;

 private:
  InterpolateOptions options_;
};

/// pixel_shuffle(x, upscale_factor).
class PixelShuffle final : public detail::WithOption<PixelShuffle, std::int64_t, fit::pixel_shuffle> {
 public:
  /// Throws Error in forward() for channels that its square does not divide.
  explicit PixelShuffle(std::int64_t upscale_factor) : WithOption(upscale_factor) {}
  std::string describe() const override;
};
/// pixel_unshuffle(x, downscale_factor).
class PixelUnshuffle final : public detail::WithOption<PixelUnshuffle, std::int64_t, fit::pixel_unshuffle> {
 public:
  /// Throws Error in forward() for an image whose sides the factor does not divide.
  explicit PixelUnshuffle(std::int64_t downscale_factor) : WithOption(downscale_factor) {}
  std::string describe() const override;
};

}  // namespace fit::nn
