#include "fit/nn/layers/convolution.hpp"

#include <algorithm>
#include <cmath>

#include "base/joined.hpp"
#include "fit/nn/layer/init.hpp"
#include "layer/sizes.hpp"

namespace fit::nn {

// The weight is [first, second / groups, K, …] with one K for each of `axes`. The first and the second are out and in,
// or in and out if the convolution is transposed.
detail::Convolution::Convolution(const char* layer, Form form, int axes, std::int64_t in, std::int64_t out,
                                 const PerAxis& size, const ConvOptions& o)
    : options_(o), form_(form) {
  positive(layer, "in_channels", in);
  positive(layer, "out_channels", out);
  positive(layer, "kernel_size", std::min(size[0], size[1]));
  positive(layer, "groups", o.groups());
  if (in % o.groups() != 0 || out % o.groups() != 0)
    check::fail(layer, "groups is ", o.groups(), ": it must divide in_channels ", in, " and out_channels ", out);
  const bool transposed = form == Form::transposed;
  const std::int64_t first = transposed ? in : out, second = (transposed ? out : in) / o.groups();
  const Shape shape = axes == 1 ? Shape{first, second, size[0]} : Shape{first, second, size[0], size[1]};
  const double bound = 1 / std::sqrt(static_cast<double>(shape.numel()) / static_cast<double>(first));
  weight = Parameter(init::uniform_(Tensor::empty(shape), -bound, bound));
  if (o.bias()) bias = Parameter(init::uniform_(Tensor::empty({out}), -bound, bound));
}

std::string detail::Convolution::describe() const {
  const bool transposed = form_ == Form::transposed;
  const Tensor& w = weight.original();
  const std::int64_t first = w.size(0), second = w.size(1) * options_.groups();
  return joined(
      "in_channels=", transposed ? first : second, ", out_channels=", transposed ? second : first,
      ", kernel_size=", PerAxis(w.size(2), w.size(-1)).str(), ", stride=", options_.stride().str(),
      ", padding=", options_.padding().str(), transposed ? ", output_padding=" + options_.output_padding().str() : "",
      ", dilation=", options_.dilation().str(), ", groups=", options_.groups(), options_.bias() ? "" : ", bias=false");
}

Conv1d::Conv1d(std::int64_t in, std::int64_t out, std::int64_t size, const ConvOptions& options)
    : Convolution("Conv1d", Form::plain, 1, in, out, size, options) {}
Conv2d::Conv2d(std::int64_t in, std::int64_t out, PerAxis size, const ConvOptions& options)
    : Convolution("Conv2d", Form::plain, 2, in, out, size, options) {}
ConvTranspose1d::ConvTranspose1d(std::int64_t in, std::int64_t out, std::int64_t size, const ConvOptions& options)
    : Convolution("ConvTranspose1d", Form::transposed, 1, in, out, size, options) {}
ConvTranspose2d::ConvTranspose2d(std::int64_t in, std::int64_t out, PerAxis size, const ConvOptions& options)
    : Convolution("ConvTranspose2d", Form::transposed, 2, in, out, size, options) {}

FIT_FIELDS_OF(Conv1d, weight, bias)
FIT_FIELDS_OF(Conv2d, weight, bias)
FIT_FIELDS_OF(ConvTranspose1d, weight, bias)
FIT_FIELDS_OF(ConvTranspose2d, weight, bias)

std::string detail::described_pool(const PerAxis& size, const PoolOptions& o) {
  return joined("size=", size.str(), ", stride=", o.stride() == 0 ? size.str() : o.stride().str(),
                ", padding=", o.padding().str(), ", dilation=", o.dilation().str());
}

void Upsample::fields(Fields& f) { f.self(*this); }
std::string Upsample::describe() const {
  const InterpolateOptions& o = options_;
  return joined(o.size() != 0 ? joined("size=", o.size().str()) : joined("scale_factor=", o.scale_factor()),
                ", mode=", o.mode() == Interpolation::linear ? "linear" : "nearest",
                o.align_corners() ? ", align_corners" : "");
}

std::string PixelShuffle::describe() const { return joined("upscale_factor=", option_); }
std::string PixelUnshuffle::describe() const { return joined("downscale_factor=", option_); }

}  // namespace fit::nn
