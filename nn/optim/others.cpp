#include <cmath>

#include "optim/line.hpp"

// Adamax, RMSprop, Adagrad and Lion.
namespace fit::optim {
namespace {

template <class Options>
void check_common(const char* op, const Options& o) {
  check_not_negative(op, "lr", o.lr);
  check_not_negative(op, "weight_decay", o.weight_decay);
}

template <class Options>
void check_betas(const char* op, const Options& o) {
  check_share(op, "beta1", o.beta1);
  check_share(op, "beta2", o.beta2);
}

}  // namespace

Kept kept_of(const AdamaxOptions& o) {
  constexpr const char* op = "Adamax";
  check_common(op, o);
  check_betas(op, o);
  check_not_negative(op, "eps", o.eps);
  return {op, {"exp_avg", "exp_inf"}, 3};
}

void Adamax::step() {
  run([](const Slot& slot, const AdamaxOptions& o) {
    const double rate = o.lr / (1 - std::pow(o.beta1, static_cast<double>(slot.steps)));
    return kernels::AdamaxStep{rate, o.beta2, 1 - o.beta1, o.eps, o.weight_decay};
  });
}

Kept kept_of(const RMSpropOptions& o) {
  constexpr const char* op = "RMSprop";
  check_common(op, o);
  check_share(op, "alpha", o.alpha);
  check_not_negative(op, "eps", o.eps);
  check_not_negative(op, "momentum", o.momentum);
  return {op,
          {"square_avg", "grad_avg", "momentum_buffer"},
          1u | static_cast<unsigned>(o.centered) << 1 | static_cast<unsigned>(o.momentum != 0) << 2};
}

void RMSprop::step() {
  run([](const Slot&, const RMSpropOptions& o) {
    return kernels::RmspropStep{o.lr, o.alpha, 1 - o.alpha, o.eps, o.momentum, o.weight_decay};
  });
}

Kept kept_of(const AdagradOptions& o) {
  constexpr const char* op = "Adagrad";
  check_common(op, o);
  check_not_negative(op, "lr_decay", o.lr_decay);
  check_not_negative(op, "initial_accumulator_value", o.initial_accumulator_value);
  check_not_negative(op, "eps", o.eps);
  return {op, {"sum"}, 1};
}

void Adagrad::step() {
  run([](const Slot& slot, const AdagradOptions& o) {
    const double rate = o.lr / (1 + static_cast<double>(slot.steps - 1) * o.lr_decay);
    return kernels::AdagradStep{rate, o.initial_accumulator_value, o.eps, o.weight_decay, slot.fresh};
  });
}

Kept kept_of(const LionOptions& o) {
  constexpr const char* op = "Lion";
  check_common(op, o);
  check_betas(op, o);
  return {op, {"exp_avg"}, 1};
}

void Lion::step() {
  run([](const Slot&, const LionOptions& o) {
    return kernels::LionStep{o.lr, 1 - o.beta1, 1 - o.beta2, 1 - o.lr * o.weight_decay};
  });
}

}  // namespace fit::optim
