#include "common/lent.hpp"
#include "common/load.hpp"
#include "fit/graph/graph.hpp"
#include "fit/nn/optim/optim.hpp"
#include "optim/fused_step.hpp"
#include "optim/named.hpp"
#include "tensor/check.hpp"

namespace fit::optim {
namespace {

constexpr const char* average_op = "ExponentialMovingAverage";

// The type of an average. bfloat16 has too few digits for a step of 1 - decay.
DType average_dtype(const Tensor& parameter) { return parameter.dtype() == bfloat16 ? float32 : parameter.dtype(); }

}  // namespace

ExponentialMovingAverage::ExponentialMovingAverage(const Parameters& parameters, double decay) : decay_(decay) {
  if (!(decay >= 0 && decay <= 1)) check::fail(average_op, "decay is ", decay, ": it must be in 0 … 1");
  for (const auto& [given, p] : parameters.named()) {
    const std::string name = name_or_number(given, parameters_.size());
    if (!p.defined()) check::fail(average_op, "the parameter ", name, " is undefined");
    check::floating(average_op, name.c_str(), p);
    parameters_.emplace_back(name, p);
    averages_.emplace_back(name, p.detach().to(average_dtype(p)).clone());
  }
  held_.add(parameters_);
}

void ExponentialMovingAverage::update() {
  if (applied_) check::fail(average_op, "update() while the averages are applied: end the scope of apply() first");
  held_.expect(average_op, "average");
  const NoGrad no_grad;
  std::vector<Tensor> weights;
  for (const auto& [name, p] : parameters_) {
    const Tensor& average = averages_[weights.size()].second;
    weights.push_back(p.dtype() == bfloat16 ? p.to(average_dtype(p)) : p);
    check::same_dtype(average_op, "the average", average, name.c_str(), weights.back());
  }
  FusedStep<kernels::AverageStep> step;
  for (std::size_t i = 0; i < weights.size(); ++i) step.add(averages_[i].second, weights[i], nullptr, {decay_});
  step.run();
}

ExponentialMovingAverage::Applied::Applied(ExponentialMovingAverage& average) : average_(average) {
  if (average.applied_) check::fail(average_op, "apply() while the averages are applied: they are there already");
  average.held_.expect(average_op, "average");
  const NoGrad no_grad;
  for (const auto& [name, p] : average.parameters_) weights_.push_back(p.detach().clone());
  nn::lend(average.parameters_);
  for (std::size_t i = 0; i < weights_.size(); ++i)
    average.parameters_[i].second.copy_(average.averages_[i].second);  // converts, and can't fail: the shapes are equal
  average.applied_ = true;
}

ExponentialMovingAverage::Applied::~Applied() {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < weights_.size(); ++i) average_.parameters_[i].second.copy_(weights_[i]);
  nn::give_back(average_.parameters_);
  average_.applied_ = false;
}

StateDict ExponentialMovingAverage::state_dict() const { return averages_; }

void ExponentialMovingAverage::load_state_dict(const StateDict& state) {
  if (applied_)
    check::fail(average_op, "load_state_dict() while the averages are applied: end the scope of apply() first");
  nn::load_values("load_state_dict", average_op, averages_, state);
}

}  // namespace fit::optim
