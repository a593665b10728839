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

LayerNorm::LayerNorm(std::int64_t size, double eps) : weight(ones_of("LayerNorm", size, eps)), eps_(eps) {
  bias = Parameter(zeros({size}));
}

LayerNorm::LayerNorm(std::int64_t size, const LayerNormOptions& o)
    : weight(ones_of("LayerNorm", size, o.eps)), eps_(o.eps) {
  if (o.bias) bias = Parameter(zeros({size}));
}

Tensor LayerNorm::forward(const Tensor& x) const {
  const Tensor w = weight.value();
  check_last("LayerNorm", x, "size", w.numel(), "weight", w);
  return layer_norm(x, w, bias.value(), eps_);
}

std::string LayerNorm::describe() const {
  return describe_all(weight.original().numel(), ", eps=", eps_, ", bias=", bias.original().defined());
}

RMSNorm::RMSNorm(std::int64_t size, double eps) : weight(ones_of("RMSNorm", size, eps)), eps_(eps) {}

Tensor RMSNorm::forward(const Tensor& x) const {
  const Tensor w = weight.value();
  check_last("RMSNorm", x, "size", w.numel(), "weight", w);
  return rms_norm(x, w, eps_);
}

std::string RMSNorm::describe() const { return describe_all(weight.original().numel(), ", eps=", eps_); }

}  // namespace fit::nn
