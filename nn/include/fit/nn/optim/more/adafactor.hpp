#pragma once
#include "fit/nn/optim/formula.hpp"

namespace fit::optim {

/// The options of Adafactor: see its formula.
struct AdafactorOptions {
  FIT_OPTION(double, lr) = 1e-2;           ///< The learning rate.
  FIT_OPTION(double, beta2_decay) = -0.8;  ///< The exponent of the averages' decay.
  /// The min mean square of a gradient; 0: the eps of the parameter's type (PyTorch: None).
  FIT_OPTION(double, eps1) = 0;
  FIT_OPTION(double, eps2) = 1e-3;       ///< The min root mean square of a parameter, as the rate's factor.
  FIT_OPTION(double, d) = 1;             ///< The root mean square above which an update is clipped.
  FIT_OPTION(double, weight_decay) = 0;  ///< The decay of the parameters, beside the gradients.
  FIT_OPTION(bool, maximize) = false;    ///< Goes up instead of down.
};

/// Shazeer & Stern 2018: for a matrix [m, n] it keeps only the row and column means of squared gradients, m + n numbers
/// instead of m n. In step t, with b = t^beta2_decay: r += b (mean(g^2, -1) - r);  c += b (mean(g^2, -2) - c);
/// v = r c / max(mean(r, -2), eps1). For a parameter with less than two axes, v += b (g^2 - v).
/// p *= 1 - lr weight_decay;  u = g / sqrt(max(v, eps1^2));
/// p -= min(lr, 1 / sqrt(t)) max(eps2, rms(p)) u / max(1, rms(u) / d), where rms(p) is of p before the decay.
/// It does not support shard(): its state is small.
using Adafactor = GroupedOptimizer<AdafactorOptions>;

template <>
struct detail::Formula<AdafactorOptions> : detail::TensorFormula<AdafactorOptions, 7> {
  static constexpr const char *name = "Adafactor", *state_names[] = {"row_var", "col_var", "variance"};
  double t = 1;

  template <class List>
  void options(List& list) {
    list.not_negative("lr", lr_).any("beta2_decay", beta2_decay_).not_negative("eps1", eps1_);
    list.not_negative("eps2", eps2_).not_negative("d", d_).not_negative("weight_decay", weight_decay_);
    list.any("maximize", maximize_);
  }
  void check() const {
    if (beta2_decay_ > 0) refuse(name, {{"beta2_decay", beta2_decay_}}, "it must not be positive");
    if (d_ < 1) refuse(name, {{"d", d_}}, "it must be at least 1");
  }
  // Row and column means for parameters with two axes or more, else one value for each element.
  static std::optional<Shape> state_shape(const Shape& shape, int k) {
    if ((k == 2) != (shape.rank() < 2)) return std::nullopt;
    return k == 2 ? shape : shape.with(shape.rank() - 1 - k, 1);
  }
  void begin(const StepCount& count) { t = static_cast<double>(count.t); }

  template <unsigned, class V>
  void update(V& p, const V& g, V* s) const {
    const double share = pow(t, beta2_decay_), eps1 = eps1_ > 0 ? eps1_ : rounding_of(p);
    const auto average = [share](V& a, const V& x) { return a = a + (x - a) * share; };
    const auto along = [](const V& x, int axis) { return unsqueeze(mean(x, axis), axis); };
    const V squares = square(g);
    V v;
    if (p.rank() < 2) {
      v = average(s[2], squares);
    } else {
      const V rows = average(s[0], along(squares, -1)), columns = average(s[1], along(squares, -2));
      v = matmul(rows, columns) / clamp_min(along(rows, -2), eps1);
    }
    const V u = g / sqrt(clamp_min(v, eps1 * eps1));
    const double rate = (lr_ < 1 / sqrt(t) ? lr_ : 1 / sqrt(t)) * max(eps2_, root_mean_square(p));
    p = p * (1 - lr_ * weight_decay_) - u * (rate / max(1., root_mean_square(u) / d_));
  }
};

}  // namespace fit::optim
