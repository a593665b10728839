#include "fit/nn/layers/convolution.hpp"

#include <algorithm>
#include <cmath>

#include "base/joined.hpp"
#include "fit/nn/layer/init.hpp"
#include "layer/sizes.hpp"

namespace fit::nn {
namespace {

// Creates a weight [O, C / groups, K, …] with one K for each of `axes`, and a bias [O].
void start(const char* layer, Parameter& weight, Parameter& bias, std::int64_t in, std::int64_t out,
           const PerAxis& size, int axes, const ConvOptions& o) {
  positive(layer, "in_channels", in);
  positive(layer, "out_channels", out);
  positive(layer, "kernel_size", std::min(size[0], size[1]));
  positive(layer, "groups", o.groups());
  if (in % o.groups() != 0 || out % o.groups() != 0)
    check::fail(layer, "groups is ", o.groups(), ": it must divide in_channels ", in, " and out_channels ", out);
  const Shape shape = axes == 1 ? Shape{out, in / o.groups(), size[0]} : Shape{out, in / o.groups(), size[0], size[1]};
  const double bound = 1 / std::sqrt(static_cast<double>(shape.numel()) / static_cast<double>(out));
  weight = Parameter(init::uniform_(Tensor::empty(shape), -bound, bound));
  if (o.bias()) bias = Parameter(init::uniform_(Tensor::empty({out}), -bound, bound));
}

std::string described(const Tensor& weight, const ConvOptions& o) {
  return joined("in_channels=", weight.size(1) * o.groups(), ", out_channels=", weight.size(0),
                ", kernel_size=", PerAxis(weight.size(2), weight.size(-1)).str(), ", stride=", o.stride().str(),
                ", padding=", o.padding().str(), ", dilation=", o.dilation().str(), ", groups=", o.groups(),
                o.bias() ? "" : ", bias=false");
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

}  // namespace fit::nn
