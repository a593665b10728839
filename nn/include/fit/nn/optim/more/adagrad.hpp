#pragma once
#include "fit/nn/optim/formula.hpp"

namespace fit::optim {

/// The options of Adagrad: see its formula.
struct AdagradOptions {
  FIT_OPTION(double, lr) = 1e-2;                      ///< The learning rate.
  FIT_OPTION(double, lr_decay) = 0;                   ///< How fast the rate falls with the steps.
  FIT_OPTION(double, weight_decay) = 0;               ///< The decay of the parameters, added to the gradients.
  FIT_OPTION(double, initial_accumulator_value) = 0;  ///< The initial sum of squares.
  FIT_OPTION(double, eps) = 1e-10;                    ///< Added to the root in the denominator.
  FIT_OPTION(bool, maximize) = false;                 ///< Goes up instead of down.
};

/// Duchi et al. 2011. With g += weight_decay p first: s += g^2, starting at initial_accumulator_value;
/// p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps)
using Adagrad = GroupedOptimizer<AdagradOptions>;

template <>
struct detail::Formula<AdagradOptions> : detail::ElementwiseFormula<AdagradOptions, 1> {
  static constexpr const char *name = "Adagrad", *state_names[] = {"sum"};
  bool is_new = false;
  double rate = 0;  // lr / (1 + (t - 1) lr_decay)

  template <class List>
  void options(List& list) {
    list.not_negative("lr", lr_).not_negative("lr_decay", lr_decay_).not_negative("weight_decay", weight_decay_);
    list.not_negative("initial_accumulator_value", initial_accumulator_value_);
    list.not_negative("eps", eps_).any("maximize", maximize_);
  }
  void begin(const StepCount& count) {
    is_new = count.is_new;
    rate = lr_ / (1 + static_cast<double>(count.t - 1) * lr_decay_);
  }

  template <unsigned, class V>
  void update(V& p, V g, V* s) const {
    decay_gradient(g, p, weight_decay_);
    s[0] = (is_new ? constant<V>(initial_accumulator_value_) : s[0]) + g * g;
    p = p - constant<V>(rate) * g / (sqrt(s[0]) + constant<V>(eps_));
  }
};

}  // namespace fit::optim
