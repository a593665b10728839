#include "fit/nn/layer/parametrize.hpp"

#include <cmath>

#include "base/joined.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/graph/graph.hpp"
#include "fit/nn/layer/init.hpp"
#include "fit/ops/ops.hpp"
#include "layer/parametrized.hpp"
#include "layer/sizes.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

const Tensor& Parameter::original() const {
  if (!parametrized_) return *this;
  return parametrized_->quantized() ? static_cast<const Tensor&>(parametrized_->numbers()) : parametrized_->original;
}

std::int64_t Parameter::computed_size(int axis) const {
  const std::int64_t stored = original().size(axis);
  const bool halves = parametrized_->int4.defined() && (axis == 1 || axis == -1);
  return halves ? 2 * stored : stored;
}

Tensor Parameter::computed() const {
  const detail::Parametrized& p = *parametrized_;
  return within(p, [&] {
    const Tensor from = p.quantized() ? dequantize(p.matrix()) : Tensor(p.original);
    return p.parametrization ? (*p.parametrization)(from) : from;
  });
}

Weight Parameter::operand() const {
  if (const auto int8 = detail::int8_of(*this)) return *int8;
  return value();
}

void Parameter::freeze() {
  if (parametrized_)
    parametrized_->freeze();
  else if (defined())
    requires_grad_(false);
}

void Parameter::unfreeze() {
  if (const auto int8 = detail::int8_of(*this))
    check::fail("unfreeze", "the parameter of shape ", int8->shape(), " is int", int8->bits(),
                ", which can't be trained: add_lora() trains beside it, remove_parametrization() turns it back");
  if (parametrized_)
    parametrized_->unfreeze();
  else if (defined())
    requires_grad_();
}

void Fields::add_parameter(const std::string& name, Parameter& p) {
  if (p.parametrized_) {
    add(name, p.parametrized_);
  } else {
    Field field{name};
    field.parameter = &p;
    list_.push_back(std::move(field));
  }
}

void parametrize(Parameter& p, std::shared_ptr<UnaryLayer> by) {
  constexpr const char* op = "parametrize";
  if (!by) check::fail(op, "the layer is a null pointer");
  if (!detail::adaptable(p)) check::fail(op, "the parameter is parametrised already: give a Sequential that does both");
  {
    const NoGrad no_grad;
    const Tensor before = p.value();
    check::defined(op, "the parameter", before);
    const Tensor value = (*by)(before);
    check::defined(op, "what the layer gives", value);
    if (value.shape() != before.shape() || value.dtype() != before.dtype())
      check::fail(op, by->name(), " gives ", value.dtype(), ' ', value.shape(), ", the parameter is ", before.dtype(),
                  ' ', before.shape(), ": they must be alike");
  }
  const auto int8 = detail::int8_of(p);
  detail::ParametrizedOf::set(p, int8 ? std::make_shared<detail::Parametrized>(*int8, std::move(by))
                                      : std::make_shared<detail::Parametrized>(p, std::move(by)));
}

void remove_parametrization(Parameter& p) {
  if (!p.parametrized()) check::fail("remove_parametrization", "the parameter is not parametrised");
  const NoGrad no_grad;
  const Autocast off(float32);
  Parameter baked(p.value().clone());
  if (p.frozen()) baked.freeze();
  p = baked;
}

FIT_FIELDS_OF(LowRank, A, B)

LowRank::LowRank(std::int64_t out_features, std::int64_t in_features, std::int64_t rank, double alpha) : alpha_(alpha) {
  positive("LowRank", "out_features", out_features);
  positive("LowRank", "in_features", in_features);
  positive("LowRank", "rank", rank);
  if (!std::isfinite(alpha)) check::fail("LowRank", "alpha is ", alpha, ": it must be finite");
  A = Parameter(init::normal_(Tensor::empty({rank, in_features}), 0, 1 / std::sqrt(static_cast<double>(in_features))));
  B = Parameter(zeros({out_features, rank}));
}

Tensor LowRank::forward(const Tensor& x) const {
  const Tensor a = A.value(), b = B.value();
  return (x + matmul(b, a) * (alpha_ / static_cast<double>(a.size(0)))).to(x.dtype());
}

std::string LowRank::describe() const { return joined("rank=", A.original().size(0), ", alpha=", alpha_); }

std::vector<std::pair<std::string, std::string>> LowRank::saved_options() const { return {{"alpha", joined(alpha_)}}; }

void low_rank(Parameter& weight, std::int64_t rank, double alpha) {
  const auto int8 = detail::int8_of(weight);
  const Tensor& w = weight.original();
  const Tensor& floats = int8 ? int8->scale() : w;
  check::floating("low_rank", "weight", floats);
  const DType dtype = floats.dtype();
  if (w.rank() != 2) check::fail("low_rank", "weight has shape ", w.shape(), ": it must be [out, in]");
  auto by = std::make_shared<LowRank>(weight.value_size(0), weight.value_size(1), rank, alpha);
  if (dtype == float64) by->to(float64);  // otherwise they stay float32, so that an optimiser can train them
  Tensor original = w;
  parametrize(weight, std::shared_ptr<UnaryLayer>(std::move(by)));
  if (!int8) original.requires_grad_(false);
}

}  // namespace fit::nn
