#include "fit/nn/norm.hpp"

#include "fit/ops.hpp"
#include "layers/describe.hpp"
#include "layers/sizes.hpp"

namespace fit::nn {
namespace {

Parameter ones_of(const char* layer, std::int64_t size, double eps) {
  positive(layer, "size", size);
  if (!(eps >= 0)) check::fail(layer, "eps is ", eps, ": it must not be negative");
  return Parameter(ones({size}));
}

}  // namespace

LayerNorm::LayerNorm(std::int64_t size, double eps, bool with_bias)
    : weight(ones_of("LayerNorm", size, eps)), eps_(eps) {
  if (with_bias) bias = Parameter(zeros({size}));
}

Tensor LayerNorm::forward(const Tensor& x) const {
  check_last("LayerNorm", x, "size", weight.numel(), "weight", weight);
  return layer_norm(x, weight, bias, eps_);
}

std::string LayerNorm::describe() const {
  return describe_all(weight.numel(), ", eps=", eps_, ", bias=", bias.defined());
}

RMSNorm::RMSNorm(std::int64_t size, double eps) : weight(ones_of("RMSNorm", size, eps)), eps_(eps) {}

Tensor RMSNorm::forward(const Tensor& x) const {
  check_last("RMSNorm", x, "size", weight.numel(), "weight", weight);
  return rms_norm(x, weight, eps_);
}

std::string RMSNorm::describe() const { return describe_all(weight.numel(), ", eps=", eps_); }

}  // namespace fit::nn
