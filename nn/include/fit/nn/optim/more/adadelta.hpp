#pragma once
#include "fit/nn/optim/formula.hpp"

namespace fit::optim {

/// The options of Adadelta: see its formula.
struct AdadeltaOptions {
  FIT_OPTION(double, lr) = 1;            ///< The learning rate.
  FIT_OPTION(double, rho) = 0.9;         ///< The decay of both averages.
  FIT_OPTION(double, eps) = 1e-6;        ///< Added to the root in the denominator.
  FIT_OPTION(double, weight_decay) = 0;  ///< The decay of the parameters, added to the gradients.
  FIT_OPTION(bool, maximize) = false;    ///< Goes up instead of down.
};

/// Zeiler 2012. With g += weight_decay p first: v = rho v + (1 - rho) g^2;  d = sqrt(u + eps) / sqrt(v + eps) g;
/// u = rho u + (1 - rho) d^2;  p -= lr d
using Adadelta = GroupedOptimizer<AdadeltaOptions>;

template <>
struct detail::Formula<AdadeltaOptions> : detail::ElementwiseFormula<AdadeltaOptions, 3> {
  static constexpr const char *name = "Adadelta", *state_names[] = {"square_avg", "acc_delta"};

  template <class List>
  void options(List& list) {
    list.not_negative("lr", lr_).below_1("rho", rho_).not_negative("eps", eps_);
    list.not_negative("weight_decay", weight_decay_).any("maximize", maximize_);
  }

  template <unsigned, class V>
  void update(V& p, V g, V* s) const {
    V &v = s[0], &u = s[1];
    decay_gradient(g, p, weight_decay_);
    v = constant<V>(rho_) * v + constant<V>(1 - rho_) * (g * g);
    const V d = sqrt(u + constant<V>(eps_)) / sqrt(v + constant<V>(eps_)) * g;
    u = constant<V>(rho_) * u + constant<V>(1 - rho_) * (d * d);
    p = p - constant<V>(lr_) * d;
  }
};

}  // namespace fit::optim
