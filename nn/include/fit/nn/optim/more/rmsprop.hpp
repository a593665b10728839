#pragma once
#include "fit/nn/optim/formula.hpp"

namespace fit::optim {

/// The options of RMSprop: see its formula.
struct RMSpropOptions {
  FIT_OPTION(double, lr) = 1e-2;         ///< The learning rate.
  FIT_OPTION(double, alpha) = 0.99;      ///< The decay of the average of squared gradients.
  FIT_OPTION(double, eps) = 1e-8;        ///< Added to the root in the denominator.
  FIT_OPTION(double, weight_decay) = 0;  ///< The decay of the parameters, added to the gradients.
  FIT_OPTION(double, momentum) = 0;      ///< The decay of the average of gradients m; 0: no average.
  FIT_OPTION(bool, centered) = false;    ///< Subtracts the squared average of gradients from that of squares.
  FIT_OPTION(bool, maximize) = false;    ///< Goes up instead of down.
};

/// Hinton 2012; centred: Graves 2013. With g += weight_decay p first: v = alpha v + (1 - alpha) g^2;
/// a = centered ? alpha a + (1 - alpha) g : 0;  d = g / (sqrt(v - a^2) + eps);  b = momentum b + d;  p -= lr b
using RMSprop = GroupedOptimizer<RMSpropOptions>;

template <>
struct detail::Formula<RMSpropOptions> : detail::ElementwiseFormula<RMSpropOptions, 1, 3, 5, 7> {
  static constexpr const char *name = "RMSprop", *state_names[] = {"square_avg", "grad_avg", "momentum_buffer"};

  template <class List>
  void options(List& list) {
    list.not_negative("lr", lr_).below_1("alpha", alpha_).not_negative("eps", eps_);
    list.not_negative("weight_decay", weight_decay_).not_negative("momentum", momentum_);
    list.any("centered", centered_).any("maximize", maximize_);
  }
  unsigned states() const { return 1u | (centered_ ? 2u : 0u) | (momentum_ != 0 ? 4u : 0u); }

  template <unsigned states, class V>
  void update(V& p, V g, V* s) const {
    V &v = s[0], &a = s[1], &b = s[2];
    decay_gradient(g, p, weight_decay_);
    v = constant<V>(alpha_) * v + constant<V>(1 - alpha_) * (g * g);
    V variance = v;
    if constexpr ((states & 2) != 0) {
      a = lerp(a, g, 1 - alpha_);
      variance = max(v - a * a, constant<V>(0));  // rounding may make it negative
    }
    V d = g / (sqrt(variance) + constant<V>(eps_));
    if constexpr ((states & 4) != 0) d = b = constant<V>(momentum_) * b + d;
    p = p - constant<V>(lr_) * d;
  }
};

}  // namespace fit::optim
