#include <cmath>
#include <limits>

#include "optim/line.hpp"

// Adam and those that differ from it in the numbers they give to its kernel.
namespace fit::optim {
namespace {

template <class Options>
Kept checked(const char* op, const Options& o, bool amsgrad = false, const char* number = nullptr) {
  check_not_negative(op, "lr", o.lr);
  check_not_negative(op, "eps", o.eps);
  check_not_negative(op, "weight_decay", o.weight_decay);
  check_share(op, "beta1", o.beta1);
  check_share(op, "beta2", o.beta2);
  return {op, {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}, amsgrad ? 7u : 3u, number};
}

template <class Options>
kernels::AdamStep adam_step(const Options& o, std::int64_t t, bool decoupled) {
  const double steps = static_cast<double>(t);
  return {o.lr / (1 - std::pow(o.beta1, steps)),
          std::sqrt(1 - std::pow(o.beta2, steps)),
          o.beta2,
          1 - o.beta1,
          1 - o.beta2,
          o.eps,
          decoupled ? 0 : o.weight_decay,
          decoupled ? 1 - o.lr * o.weight_decay : 1};
}

}  // namespace

Kept kept_of(const AdamOptions& o) { return checked("Adam", o, o.amsgrad); }
Kept kept_of(const AdamWOptions& o) { return checked("AdamW", o, o.amsgrad); }
Kept kept_of(const RAdamOptions& o) { return checked("RAdam", o); }
Kept kept_of(const NAdamOptions& o) {
  check_not_negative("NAdam", "momentum_decay", o.momentum_decay);
  return checked("NAdam", o, false, "mu_product");
}

void Adam::step() {
  run([](const Slot& slot, const AdamOptions& o) { return adam_step(o, slot.steps, false); });
}

void AdamW::step() {
  run([](const Slot& slot, const AdamWOptions& o) { return adam_step(o, slot.steps, true); });
}

void NAdam::step() {
  run([](Slot& slot, const NAdamOptions& o) {
    const auto mu = [&](std::int64_t t) {
      return o.beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * o.momentum_decay));
    };
    const double now = mu(slot.steps), next = mu(slot.steps + 1);
    slot.number *= now;
    kernels::AdamStep step = adam_step(o, slot.steps, o.decoupled_weight_decay);
    step.rate = o.lr * next / (1 - slot.number * next);
    step.ahead = o.lr * (1 - now) / (1 - slot.number);
    return step;
  });
}

void RAdam::step() {
  run([](const Slot& slot, const RAdamOptions& o) {
    kernels::AdamStep step = adam_step(o, slot.steps, o.decoupled_weight_decay);
    const double t = static_cast<double>(slot.steps), power = std::pow(o.beta2, t);
    const double most = 2 / (1 - o.beta2) - 1, length = most - 2 * t * power / (1 - power);
    if (length > 5) {
      step.rate *= std::sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length));
      step.eps /= step.root;  // it is added before the division by root
    } else {
      step.root = std::numeric_limits<double>::infinity();  // sqrt(v) / root + eps = 1
      step.eps = 1;
    }
    return step;
  });
}

}  // namespace fit::optim
