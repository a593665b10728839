#pragma once
#include <cstdint>
#include <string>

#include "fit/nn/optim/adam.hpp"

namespace fit::optim {

/// The options of Muon: see its formula. A group with adamw takes the step of AdamW instead.
struct MuonOptions {
  FIT_OPTION(double, lr) = 1e-3;           ///< The learning rate.
  FIT_OPTION(double, momentum) = 0.95;     ///< The decay of the average of gradients m.
  FIT_OPTION(double, weight_decay) = 0.1;  ///< The decay of the parameters, beside the gradients.
  FIT_OPTION(bool, nesterov) = true;       ///< Nesterov's momentum.
  FIT_OPTION(std::int64_t, ns_steps) = 5;  ///< The steps of the Newton-Schulz iteration, 0 … 99.
  /// The iteration's a, b, c are those of Polar Express (Amsel et al. 2025): in each step the best for the singular
  /// values that the step before leaves, if they were 0.01 … 1. Then ns_steps(3) brings them to 0.73 … 1.27, as near to
  /// 1 as five steps without it.
  FIT_OPTION(bool, polar_express) = false;
  /// How many matrices of equal size each parameter holds, one below the other, as a GPT's queries, keys and values:
  /// each is orthogonalised for itself. Give it to some parameters by with_options().
  FIT_OPTION(std::int64_t, matrices) = 1;
  /// NorMuon (Li et al. 2025): the decay of v, the average of the mean square of each row of X. X / sqrt(v), at the
  /// norm of X, takes the place of X: all neurons then learn at one speed. 0: none; 0.95 is the authors'.
  FIT_OPTION(double, row_beta2) = 0;
  FIT_OPTION(double, eps) = 1e-7;  ///< The min norm by which the iteration divides.
  /// The rate's factor for a matrix [m, n] is 0.2 sqrt(max(m, n)) instead of sqrt(max(1, m / n)). The update then has
  /// the size of AdamW's, so AdamW's rate and decay can be used (Liu et al. 2025).
  FIT_OPTION(bool, match_rms_adamw) = false;
  FIT_OPTION(bool, bfloat16) = false;  ///< Iterates in bfloat16, as PyTorch does, instead of the parameter's type.
  FIT_OPTION(bool, maximize) = false;  ///< Goes up instead of down.
  FIT_OPTION(bool, adamw) = false;     ///< The group takes the step of AdamW, with lr, weight_decay and the following.
  FIT_OPTION(double, beta1) = 0.9;     ///< For adamw: the decay of the average of gradients.
  FIT_OPTION(double, beta2) = 0.95;    ///< For adamw: the decay of the average of squared gradients.
  FIT_OPTION(double, adamw_eps) = 1e-8;  ///< For adamw: added to the root in the denominator.
};

/// Momentum, orthogonalised by a Newton-Schulz iteration (Jordan et al. 2024), for the matrices of hidden layers:
/// m = momentum m + (1 - momentum) g;  u = nesterov ? momentum m + (1 - momentum) g : m;  X = u / max(|u|, eps);
/// ns_steps times X = (a + b X X^T + c (X X^T)^2) X with a, b, c = 3.4445, -4.7750, 2.0315;
/// with row_beta2: v = row_beta2 v + (1 - row_beta2) mean(X^2, 1);  Y = X / sqrt(v);  X = Y |X| / |Y|;
/// p *= 1 - lr weight_decay;  p -= lr sqrt(max(1, m / n)) X for p [m, n].
/// Embeddings, the head, norms and biases belong to groups with adamw, as its authors advise:
///
///     optim::Muon optimizer(optim::muon_groups(gpt, optim::MuonOptions().lr(0.02), optim::AdamWOptions().lr(3e-3)));
///
/// Throws Error for a parameter that is no matrix, or not `matrices` of them, in a group without adamw. Names, defaults
/// and values are PyTorch's, except that the iteration is not in bfloat16.
using Muon = GroupedOptimizer<MuonOptions>;

namespace detail {
/// The Newton-Schulz iteration: a matrix with the singular vectors of u, and singular values near 1. Of `matrices` one
/// by one.
Tensor orthogonalized(const Tensor& u, const MuonOptions& o);
/// The rows of x, divided by the root of the average v [m, 1] of their mean squares, at the norm of x. Updates v.
Tensor at_one_speed(const Tensor& x, Tensor& v, const MuonOptions& o);
}  // namespace detail

template <>
struct detail::Formula<MuonOptions> : detail::TensorFormula<MuonOptions, 1> {
  static constexpr const char *name = "Muon", *state_names[] = {"momentum_buffer", "exp_avg", "exp_avg_sq"};
  using Kernel = Formula<AdamWOptions>;  // the step of the groups with adamw
  static constexpr int first_kernel_state = 1;

  template <class List>
  void options(List& list) {
    list.not_negative("lr", lr_).below_1("momentum", momentum_).not_negative("weight_decay", weight_decay_);
    list.any("nesterov", nesterov_).not_negative("ns_steps", ns_steps_).not_negative("eps", eps_);
    list.any("match_rms_adamw", match_rms_adamw_).any("bfloat16", bfloat16_).any("maximize", maximize_);
    list.any("polar_express", polar_express_).not_negative("matrices", matrices_).below_1("row_beta2", row_beta2_);
    list.any("adamw", adamw_).below_1("beta1", beta1_).below_1("beta2", beta2_).not_negative("adamw_eps", adamw_eps_);
  }
  void check() const {
    if (ns_steps_ > 99) refuse(name, {{"ns_steps", static_cast<double>(ns_steps_)}}, "it must be in 0 … 99");
    if (matrices_ < 1) refuse(name, {{"matrices", static_cast<double>(matrices_)}}, "it must be at least 1");
  }
  void check_parameter(const std::string& parameter, const Tensor& p) const;
  unsigned states() const { return adamw_ ? 6 : row_beta2_ > 0 ? 5 : 1; }
  std::optional<Shape> state_shape(const Shape& parameter, int k) const {
    return adamw_ || k != 2 ? parameter : Shape{parameter[0], 1};  // v takes the place of the elements' averages
  }
  bool has_kernel() const { return adamw_; }
  Kernel kernel() const;

  template <unsigned, class V>
  void update(V& p, const V& g, V* s) const {
    const V share = g * (1 - momentum_);
    s[0] = s[0] * momentum_ + share;
    V u = orthogonalized(nesterov_ ? s[0] * momentum_ + share : s[0], *this);
    if (row_beta2_ > 0) u = at_one_speed(u, s[2], *this);
    const double m = static_cast<double>(p.size(0) / matrices_), n = static_cast<double>(p.size(1));
    const double factor = match_rms_adamw_ ? 0.2 * sqrt(max(m, n)) : sqrt(max(1., m / n));
    p = p * (1 - lr_ * weight_decay_) - u * (lr_ * factor);
  }
};

}  // namespace fit::optim
