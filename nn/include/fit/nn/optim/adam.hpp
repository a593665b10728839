#pragma once
#include "fit/nn/optim/formula.hpp"

namespace fit::optim {

/// The options that Adam and its variants share. Each has its setters, and may change the defaults.
struct AdamFamily {
 protected:
  double lr_ = 1e-3;         ///< The learning rate.
  double beta1_ = 0.9;       ///< The decay of the average of gradients.
  double beta2_ = 0.999;     ///< The decay of the average of squared gradients.
  double eps_ = 1e-8;        ///< Added to the root in the denominator.
  double weight_decay_ = 0;  ///< The decay of the parameters, added to the gradients; for AdamW and LAMB beside them.
  bool maximize_ = false;    ///< Goes up instead of down.

  /// Lists the options with their limits.
  template <class List>
  void list_family(List& list) {
    list.not_negative("lr", lr_).below_1("beta1", beta1_).below_1("beta2", beta2_).not_negative("eps", eps_);
    list.not_negative("weight_decay", weight_decay_).any("maximize", maximize_);
  }
  /// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
  template <class V>
  void average(V& m, V& v, const V& g) const {
    m = detail::lerp(m, g, 1 - beta1_);
    v = detail::constant<V>(beta2_) * v + detail::constant<V>(1 - beta2_) * (g * g);
  }
};

/// The options of Adam: see its formula.
struct AdamOptions : AdamFamily {
  FIT_INHERITED_OPTIONS(AdamFamily, lr, beta1, beta2, eps, weight_decay, maximize)
  FIT_OPTION(bool, amsgrad) = false;  ///< Divides by the largest average of squares so far.
};

/// Kingma & Ba 2015; AMSGrad: Reddi et al. 2018. In step t, with g += weight_decay p first:
/// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  w = amsgrad ? max(w, v) : v
/// p -= lr / (1 - beta1^t) m / (sqrt(w / (1 - beta2^t)) + eps)
using Adam = GroupedOptimizer<AdamOptions>;

/// The options of AdamW: see its formula.
struct AdamWOptions : AdamFamily {
  AdamWOptions() { weight_decay_ = 1e-2; }
  FIT_INHERITED_OPTIONS(AdamFamily, lr, beta1, beta2, eps, weight_decay, maximize)
  FIT_OPTION(bool, amsgrad) = false;  ///< Divides by the largest average of squares so far.
};

/// Adam with decoupled weight decay (Loshchilov & Hutter 2019): p *= 1 - lr weight_decay instead of
/// g += weight_decay p.
using AdamW = GroupedOptimizer<AdamWOptions>;

namespace detail {
template <class Options, bool decoupled>
struct AdamFormula : ElementwiseFormula<Options, 3, 7> {
  static constexpr const char* state_names[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  double rate = 0, root = 0;  // lr / (1 - beta1^t), sqrt(1 - beta2^t)

  template <class List>
  void options(List& list) {
    this->list_family(list);
    list.any("amsgrad", this->amsgrad_);
  }
  unsigned states() const { return this->amsgrad_ ? 7 : 3; }
  void begin(const StepCount& count) {
    rate = this->lr_ / (1 - pow(this->beta1_, static_cast<double>(count.t)));
    root = sqrt(1 - pow(this->beta2_, static_cast<double>(count.t)));
  }

  template <unsigned states, class V>
  void update(V& p, V g, V* s) const {
    if constexpr (decoupled)
      decay_parameter(p, this->lr_, this->weight_decay_);
    else
      decay_gradient(g, p, this->weight_decay_);
    this->average(s[0], s[1], g);
    if constexpr (states == 7) s[2] = max(s[2], s[1]);
    p = p - constant<V>(rate) * s[0] / (sqrt(s[states == 7 ? 2 : 1]) / constant<V>(root) + constant<V>(this->eps_));
  }
};
}  // namespace detail

template <>
struct detail::Formula<AdamOptions> : detail::AdamFormula<AdamOptions, false> {
  static constexpr const char* name = "Adam";
};

template <>
struct detail::Formula<AdamWOptions> : detail::AdamFormula<AdamWOptions, true> {
  static constexpr const char* name = "AdamW";
};

}  // namespace fit::optim
