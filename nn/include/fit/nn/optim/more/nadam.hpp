#pragma once
#include "fit/nn/optim/adam.hpp"

namespace fit::optim {

/// The options of NAdam: see its formula.
struct NAdamOptions : AdamFamily {
  NAdamOptions() { lr_ = 2e-3; }
  FIT_INHERITED_OPTIONS(AdamFamily, lr, beta1, beta2, eps, weight_decay, maximize)
  FIT_OPTION(double, momentum_decay) = 4e-3;         ///< How fast the momentum of the formula rises to beta1.
  FIT_OPTION(bool, decoupled_weight_decay) = false;  ///< Applies weight_decay as AdamW does.
};

/// Adam with Nesterov's momentum (Dozat 2016). m and v as Adam's, mu(t) = beta1 (1 - 0.96^(t momentum_decay) / 2):
/// p -= lr ((1 - mu(t)) / (1 - mu(1) … mu(t)) g + mu(t + 1) / (1 - mu(1) … mu(t + 1)) m)
///      / (sqrt(v / (1 - beta2^t)) + eps)
using NAdam = GroupedOptimizer<NAdamOptions>;

template <>
struct detail::Formula<NAdamOptions> : detail::ElementwiseFormula<NAdamOptions, 3> {
  static constexpr const char *name = "NAdam", *state_names[] = {"exp_avg", "exp_avg_sq"}, *scalar = "mu_product";
  double rate = 0, ahead = 0, root = 0;  // the factors of m and g; sqrt(1 - beta2^t)

  template <class List>
  void options(List& list) {
    list_family(list);
    list.not_negative("momentum_decay", momentum_decay_).any("decoupled_weight_decay", decoupled_weight_decay_);
  }
  double mu(double t) const { return beta1_ * (1 - 0.5 * pow(0.96, t * momentum_decay_)); }
  void begin(const StepCount& count) {
    const double t = static_cast<double>(count.t);
    double& product = *count.scalar;  // mu(1) … mu(t)
    product *= mu(t);
    rate = lr_ * mu(t + 1) / (1 - product * mu(t + 1));
    ahead = lr_ * (1 - mu(t)) / (1 - product);
    root = sqrt(1 - pow(beta2_, t));
  }

  template <unsigned, class V>
  void update(V& p, V g, V* s) const {
    if (decoupled_weight_decay_)
      decay_parameter(p, lr_, weight_decay_);
    else
      decay_gradient(g, p, weight_decay_);
    average(s[0], s[1], g);
    p = p - (constant<V>(rate) * s[0] + constant<V>(ahead) * g) / (sqrt(s[1]) / constant<V>(root) + constant<V>(eps_));
  }
};

}  // namespace fit::optim
