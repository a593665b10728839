#pragma once
#include "fit/nn/optim/adam.hpp"

namespace fit::optim {

/// The options of RAdam: see its formula.
struct RAdamOptions : AdamFamily {
  FIT_INHERITED_OPTIONS(AdamFamily, lr, beta1, beta2, eps, weight_decay, maximize)
  FIT_OPTION(bool, decoupled_weight_decay) = false;  ///< Applies weight_decay as AdamW does.
};

/// Rectified Adam (Liu et al. 2020). m and v as Adam's; R = 2 / (1 - beta2) - 1, r = R - 2 t beta2^t / (1 - beta2^t).
/// If r > 5, the variance of v is small enough for
/// p -= lr m / (1 - beta1^t) sqrt(1 - beta2^t) / (sqrt(v) + eps) sqrt((r - 4) (r - 2) R / ((R - 4) (R - 2) r)).
/// Otherwise (in the first steps) p -= lr m / (1 - beta1^t).
using RAdam = GroupedOptimizer<RAdamOptions>;

template <>
struct detail::Formula<RAdamOptions> : detail::ElementwiseFormula<RAdamOptions, 3> {
  static constexpr const char *name = "RAdam", *state_names[] = {"exp_avg", "exp_avg_sq"};
  bool rectified = false;
  double rate = 0;

  template <class List>
  void options(List& list) {
    list_family(list);
    list.any("decoupled_weight_decay", decoupled_weight_decay_);
  }
  void begin(const StepCount& count) {
    const double t = static_cast<double>(count.t), power = pow(beta2_, t);
    const double rho_inf = 2 / (1 - beta2_) - 1, rho = rho_inf - 2 * t * power / (1 - power);
    rectified = rho > 5;
    rate = lr_ / (1 - pow(beta1_, t));
    if (rectified) rate *= sqrt((1 - power) * (rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho));
  }

  template <unsigned, class V>
  void update(V& p, V g, V* s) const {
    if (decoupled_weight_decay_)
      decay_parameter(p, lr_, weight_decay_);
    else
      decay_gradient(g, p, weight_decay_);
    average(s[0], s[1], g);
    p = p - constant<V>(rate) * (rectified ? s[0] / (sqrt(s[1]) + constant<V>(eps_)) : s[0]);
  }
};

}  // namespace fit::optim
