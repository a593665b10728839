#pragma once
#include "fit/nn/optim/adam.hpp"

namespace fit::optim {

/// The options of LAMB: see its formula.
struct LAMBOptions : AdamFamily {
  LAMBOptions() { eps_ = 1e-6, weight_decay_ = 1e-2; }
  FIT_INHERITED_OPTIONS(AdamFamily, lr, beta1, beta2, eps, weight_decay, maximize)
};

/// Adam for large batches: each tensor moves in proportion to its norm (You et al. 2020). m and v as Adam's;
/// u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay p;  p -= lr |p| / |u| u, with 2-norms of the
/// whole tensor. The ratio is 1 if either norm is 0. It does not support shard().
using LAMB = GroupedOptimizer<LAMBOptions>;

template <>
struct detail::Formula<LAMBOptions> : TensorFormula<LAMBOptions, 3> {
  static constexpr const char *name = "LAMB", *state_names[] = {"exp_avg", "exp_avg_sq"};
  double bias1 = 1, bias2 = 1;  // 1 - beta1^t, 1 - beta2^t

  template <class List>
  void options(List& list) {
    list_family(list);
  }
  void begin(const StepCount& count) {
    bias1 = 1 - pow(beta1_, static_cast<double>(count.t)), bias2 = 1 - pow(beta2_, static_cast<double>(count.t));
  }

  template <unsigned, class V>
  void update(V& p, const V& g, V* s) const {
    average(s[0], s[1], g);
    const V u = s[0] / bias1 / (sqrt(s[1] / bias2) + eps_) + p * weight_decay_;
    const double size = l2_norm(p), length = l2_norm(u), trust = size > 0 && length > 0 ? size / length : 1;
    p = p - u * (lr_ * trust);
  }
};

}  // namespace fit::optim
