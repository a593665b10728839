#include <cmath>

#include "check.hpp"
#include "fit/graph.hpp"
#include "fit/optim.hpp"
#include "optim/line.hpp"

namespace fit::optim {
namespace {

template <class Options>
void check_adam(const char* op, const std::vector<Group<Options>>& groups) {
  for (const auto& [parameters, o] : groups) {
    check_not_negative(op, "lr", o.lr);
    check_not_negative(op, "eps", o.eps);
    check_not_negative(op, "weight_decay", o.weight_decay);
    if (!(o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 && o.beta2 < 1))
      check::fail(op, "beta1 is ", o.beta1, ", beta2 ", o.beta2, ": both must be at least 0 and less than 1");
  }
}

template <class Options>
kernels::AdamStep adam_step(const Options& o, std::int64_t t, double decay, double shrink) {
  const double steps = static_cast<double>(t);
  return {o.lr / (1 - std::pow(o.beta1, steps)),
          std::sqrt(1 - std::pow(o.beta2, steps)),
          o.beta2,
          1 - o.beta1,
          1 - o.beta2,
          o.eps,
          decay,
          shrink};
}

}  // namespace

Adam::Adam(const std::vector<Group<AdamOptions>>& groups)
    : GroupedOptimizer("Adam", {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}, groups) {
  check_adam("Adam", groups);
}

AdamW::AdamW(const std::vector<Group<AdamWOptions>>& groups)
    : GroupedOptimizer("AdamW", {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}, groups) {
  check_adam("AdamW", groups);
}

void Adam::step() {
  const NoGrad plain;
  Line<kernels::AdamStep> line;
  each_with_gradient([&](Slot& slot, std::size_t group) {
    const AdamOptions& o = options(group);
    line.add(slot.parameter, slot.state, states(group), adam_step(o, slot.steps, o.weight_decay, 1));
  });
  line.run();
}

void AdamW::step() {
  const NoGrad plain;
  Line<kernels::AdamStep> line;
  each_with_gradient([&](Slot& slot, std::size_t group) {
    const AdamWOptions& o = options(group);
    line.add(slot.parameter, slot.state, states(group), adam_step(o, slot.steps, 0, 1 - o.lr * o.weight_decay));
  });
  line.run();
}

}  // namespace fit::optim
