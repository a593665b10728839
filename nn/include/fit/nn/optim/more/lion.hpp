#pragma once
#include "fit/nn/optim/formula.hpp"

namespace fit::optim {

/// The options of Lion: see its formula.
struct LionOptions {
  FIT_OPTION(double, lr) = 1e-4;         ///< The learning rate.
  FIT_OPTION(double, beta1) = 0.9;       ///< The share of the average m in the direction of a step.
  FIT_OPTION(double, beta2) = 0.99;      ///< The decay of the average of gradients m.
  FIT_OPTION(double, weight_decay) = 0;  ///< The decay of the parameters, beside the gradients.
  FIT_OPTION(bool, maximize) = false;    ///< Goes up instead of down.
};

/// Chen et al. 2023: p -= lr (sign(beta1 m + (1 - beta1) g) + weight_decay p);  m = beta2 m + (1 - beta2) g.
/// Use a learning rate 3 to 10 times smaller than AdamW's, and a weight decay larger by the same factor.
using Lion = GroupedOptimizer<LionOptions>;

template <>
struct detail::Formula<LionOptions> : detail::ElementwiseFormula<LionOptions, 1> {
  static constexpr const char *name = "Lion", *state_names[] = {"exp_avg"};

  template <class List>
  void options(List& list) {
    list.not_negative("lr", lr_).below_1("beta1", beta1_).below_1("beta2", beta2_);
    list.not_negative("weight_decay", weight_decay_).any("maximize", maximize_);
  }

  template <unsigned, class V>
  void update(V& p, V g, V* s) const {
    V& m = s[0];
    decay_parameter(p, lr_, weight_decay_);
    p = p - constant<V>(lr_) * sign(lerp(m, g, 1 - beta1_));
    m = lerp(m, g, 1 - beta2_);
  }
};

}  // namespace fit::optim
