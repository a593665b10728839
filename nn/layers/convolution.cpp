#include "fit/nn/layers/convolution.hpp"

#include <algorithm>
#include <cmath>

#include "base/joined.hpp"
#include "fit/nn/layer/init.hpp"
#include "layer/sizes.hpp"

namespace fit::nn {
namespace {

// Creates a weight [first, second / groups, K, …] with one K for each of `axes`, and a bias [out]. The first and the
// second are out and in, or in and out if the convolution is transposed.
void start(const char* layer, Parameter& weight, Parameter& bias, std::int64_t in, std::int64_t out,
           const PerAxis& size, int axes, const ConvOptions& o, bool transposed = false) {
  positive(layer, "in_channels", in);
  positive(layer, "out_channels", out);
  positive(layer, "kernel_size", std::min(size[0], size[1]));
  positive(layer, "groups", o.groups());
  if (in % o.groups() != 0 || out % o.groups() != 0)
    check::fail(layer, "groups is ", o.groups(), ": it must divide in_channels ", in, " and out_channels ", out);
  const std::int64_t first = transposed ? in : out, second = (transposed ? out : in) / o.groups();
  const Shape shape = axes == 1 ? Shape{first, second, size[0]} : Shape{first, second, size[0], size[1]};
  const double bound = 1 / std::sqrt(static_cast<double>(shape.numel()) / static_cast<double>(first));
  weight = Parameter(init::uniform_(Tensor::empty(shape), -bound, bound));
  if (o.bias()) bias = Parameter(init::uniform_(Tensor::empty({out}), -bound, bound));
}

std::string described(const Tensor& weight, const ConvOptions& o, bool transposed = false) {
  const std::int64_t first = weight.size(0), second = weight.size(1) * o.groups();
  return joined("in_channels=", transposed ? first : second, ", out_channels=", transposed ? second : first,
                ", kernel_size=", PerAxis(weight.size(2), weight.size(-1)).str(), ", stride=", o.stride().str(),
                ", padding=", o.padding().str(), transposed ? ", output_padding=" + o.output_padding().str() : "",
                ", dilation=", o.dilation().str(), ", groups=", o.groups(), o.bias() ? "" : ", bias=false");
}

}  // namespace

std::string detail::described_pool(const PerAxis& size, const PoolOptions& o) {
  return joined("size=", size.str(), ", stride=", o.stride() == 0 ? size.str() : o.stride().str(),
                ", padding=", o.padding().str(), ", dilation=", o.dilation().str());
}

FIT_FIELDS_OF(Conv1d, weight, bias)

Conv1d::Conv1d(std::int64_t in, std::int64_t out, std::int64_t size, const ConvOptions& options) : options_(options) {
  start("Conv1d", weight, bias, in, out, size, 1, options);
}
std::string Conv1d::describe() const { return described(weight.original(), options_); }

FIT_FIELDS_OF(Conv2d, weight, bias)

Conv2d::Conv2d(std::int64_t in, std::int64_t out, PerAxis size, const ConvOptions& options) : options_(options) {
  start("Conv2d", weight, bias, in, out, size, 2, options);
}
std::string Conv2d::describe() const { return described(weight.original(), options_); }

FIT_FIELDS_OF(ConvTranspose1d, weight, bias)

ConvTranspose1d::ConvTranspose1d(std::int64_t in, std::int64_t out, std::int64_t size, const ConvOptions& options)
    : options_(options) {
  start("ConvTranspose1d", weight, bias, in, out, size, 1, options, true);
}
std::string ConvTranspose1d::describe() const { return described(weight.original(), options_, true); }

FIT_FIELDS_OF(ConvTranspose2d, weight, bias)

ConvTranspose2d::ConvTranspose2d(std::int64_t in, std::int64_t out, PerAxis size, const ConvOptions& options)
    : options_(options) {
  start("ConvTranspose2d", weight, bias, in, out, size, 2, options, true);
}
std::string ConvTranspose2d::describe() const { return described(weight.original(), options_, true); }

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
