#pragma once
#include "fit/nn/optim/adam.hpp"

namespace fit::optim {

/// The options of Adamax: see its formula.
struct AdamaxOptions : AdamFamily {
  AdamaxOptions() { lr_ = 2e-3; }
  FIT_INHERITED_OPTIONS(AdamFamily, lr, beta1, beta2, eps, weight_decay, maximize)
};

/// Adam with the infinity norm (Kingma & Ba 2015). m as Adam's; u = max(beta2 u, |g| + eps);
/// p -= lr / (1 - beta1^t) m / u
using Adamax = GroupedOptimizer<AdamaxOptions>;

template <>
struct detail::Formula<AdamaxOptions> : detail::ElementwiseFormula<AdamaxOptions, 3> {
  static constexpr const char *name = "Adamax", *state_names[] = {"exp_avg", "exp_inf"};
  double rate = 0;  // lr / (1 - beta1^t)

  template <class List>
  void options(List& list) {
    list_family(list);
  }
  void begin(const StepCount& count) { rate = lr_ / (1 - pow(beta1_, static_cast<double>(count.t))); }

  template <unsigned, class V>
  void update(V& p, V g, V* s) const {
    V &m = s[0], &u = s[1];
    decay_gradient(g, p, weight_decay_);
    m = lerp(m, g, 1 - beta1_);
    u = max(constant<V>(beta2_) * u, abs(g) + constant<V>(eps_));
    p = p - constant<V>(rate) * m / u;
  }
};

}  // namespace fit::optim
