#include "common/load.hpp"
#include "optim/fused_step.hpp"

namespace fit::optim {
namespace {

constexpr const char* op = "ExponentialMovingAverage";

}  // namespace

ExponentialMovingAverage::ExponentialMovingAverage(const Parameters& parameters, double decay) : decay_(decay) {
  if (!(decay >= 0 && decay <= 1)) check::fail(op, "decay is ", decay, ": it must be in 0 … 1");
  for (const auto& [given, p] : parameters.named()) {
    const std::string name = given.empty() ? std::to_string(parameters_.size()) : given;
    if (!p.defined()) check::fail(op, "the parameter ", name, " is undefined");
    check::floating(op, name.c_str(), p);
    parameters_.emplace_back(name, p);
    averages_.emplace_back(name, p.detach().clone());
  }
}

void ExponentialMovingAverage::update() {
  if (applied_) check::fail(op, "update() while the averages are applied: end the scope of apply() first");
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    check::same_dtype(op, "the average", averages_[i].second, parameters_[i].first.c_str(), parameters_[i].second);
  const NoGrad no_grad;
  FusedStep<kernels::AverageStep> step;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    step.add(averages_[i].second, parameters_[i].second, nullptr, {decay_});
  step.run();
}

ExponentialMovingAverage::Applied::Applied(ExponentialMovingAverage& average) : average_(average) {
  if (average.applied_) check::fail(op, "apply() while the averages are applied: they are there already");
  const NoGrad no_grad;
  for (const auto& [name, p] : average.parameters_) weights_.push_back(p.detach().clone());
  for (std::size_t i = 0; i < weights_.size(); ++i)
    average.parameters_[i].second.copy_(average.averages_[i].second);  // of equal shape, and converted: it can't fail
  average.applied_ = true;
}

ExponentialMovingAverage::Applied::~Applied() {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < weights_.size(); ++i) average_.parameters_[i].second.copy_(weights_[i]);
  average_.applied_ = false;
}

void ExponentialMovingAverage::load_state_dict(const StateDict& state) {
  nn::load_values("load_state_dict", op, averages_, state);
}

}  // namespace fit::optim
