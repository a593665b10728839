#pragma once
#include "fit/nn/optim/formula.hpp"

namespace fit::optim {

/// The options of SGD: see its formula.
struct SGDOptions {
  FIT_OPTION(double, lr) = 1e-3;         ///< The learning rate.
  FIT_OPTION(double, momentum) = 0;      ///< The decay of the average of gradients m; 0: no average.
  FIT_OPTION(double, dampening) = 0;     ///< The fraction of each gradient that is not added to m.
  FIT_OPTION(double, weight_decay) = 0;  ///< The decay of the parameters, added to the gradients.
  FIT_OPTION(bool, nesterov) = false;    ///< Nesterov's momentum: needs momentum, and no dampening.
  FIT_OPTION(bool, maximize) = false;    ///< Goes up instead of down.
};

/// g += weight_decay p;  m = momentum m + (1 - dampening) g (first step: m = g);
/// p -= lr m, with nesterov p -= lr (g + momentum m).
using SGD = GroupedOptimizer<SGDOptions>;

template <>
struct detail::Formula<SGDOptions> : detail::ElementwiseFormula<SGDOptions, 0, 1> {
  static constexpr const char *name = "SGD", *state_names[] = {"momentum_buffer"};
  bool is_new = false;

  template <class List>
  void options(List& list) {
    list.not_negative("lr", lr_).not_negative("momentum", momentum_).any("dampening", dampening_);
    list.not_negative("weight_decay", weight_decay_).any("nesterov", nesterov_).any("maximize", maximize_);
  }
  void check() const {
    if (nesterov_ && (momentum_ == 0 || dampening_ != 0))
      refuse(name, {{"momentum", momentum_}, {"dampening", dampening_}}, "nesterov needs momentum and no dampening");
  }
  unsigned states() const { return momentum_ != 0; }
  void begin(const StepCount& count) { is_new = count.is_new; }

  template <unsigned states, class V>
  void update(V& p, V g, V* s) const {
    decay_gradient(g, p, weight_decay_);
    if constexpr (states != 0) {
      V& m = s[0];
      m = is_new ? g : constant<V>(momentum_) * m + constant<V>(1 - dampening_) * g;
      g = nesterov_ ? g + constant<V>(momentum_) * m : m;
    }
    p = p - constant<V>(lr_) * g;
  }
};

}  // namespace fit::optim
