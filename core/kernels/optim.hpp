#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/simd/isa.hpp"

// The formulas of the optimisers: how one step changes a parameter p with gradient g and states s[0], s[1] …. V is a
// number in run_plain(), which uses simple loops. V is a vector in the kernels (optim.simd.cpp), which read and write
// each array once. Constants are computed in double and used in the elements' type. Rounded by operation.
//
// To add an optimiser, add a struct here and its name to FIT_OPTIMIZER_STEPS. Its options are in fit/optim.hpp, their
// checks in nn/optim/optimizers.cpp.
namespace fit::kernels {

template <class V, class = void>
struct ElementOf {
  using Type = V;
};
template <class V>
struct ElementOf<V, std::void_t<typename V::value_type>> {
  using Type = typename V::value_type;
};

/// A constant in all lanes.
template <class V>
inline V constant(double x) {
  return V(static_cast<typename ElementOf<V>::Type>(x));
}

template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
inline T sign(T x) {
  return static_cast<T>((x > 0) - (x < 0));
}

/// The progress of an optimiser on one parameter.
struct StepCount {
  std::int64_t t = 1;        // the number of this step, from 1
  bool is_new = true;        // whether the states start with this step
  double* scalar = nullptr;  // a number that one step passes to the next, besides the states
};

// The states s[k] that a step uses: bit k. Each variant of a step is compiled.
template <unsigned... masks>
using Masks = std::integer_sequence<unsigned, masks...>;

// Weight decay, decoupled (Loshchilov & Hutter 2019) or as part of the gradient.
template <class V>
inline void decay(V& p, V& g, double lr, double weight_decay, bool decoupled) {
  if (decoupled)
    p = constant<V>(1 - lr * weight_decay) * p;
  else if (weight_decay != 0)
    g = g + constant<V>(weight_decay) * p;
}

// Moves m towards g by a fraction `weight`, which is the same for all elements. The second form keeps a small g beside
// a large m, as PyTorch's lerp does: m + weight (g - m) would lose it.
template <class V>
inline V lerp(const V& m, const V& g, double weight) {
  return weight <= 0.5 ? m + constant<V>(weight) * (g - m) : g - (g - m) * constant<V>(1 - weight);
}

// Moving averages of the gradient and of its square.
template <class V>
inline void moments(V& m, V& v, const V& g, double beta1, double beta2) {
  m = lerp(m, g, 1 - beta1);
  v = constant<V>(beta2) * v + constant<V>(1 - beta2) * (g * g);
}

struct SgdStep {
  double lr, momentum, dampening, weight_decay;
  bool nesterov, is_new;

  template <class Options>
  SgdStep(const Options& o, const StepCount& count)
      : lr(o.lr()),
        momentum(o.momentum()),
        dampening(o.dampening()),
        weight_decay(o.weight_decay()),
        nesterov(o.nesterov()),
        is_new(count.is_new) {}

  using Forms = Masks<0, 1>;
  unsigned states() const { return momentum != 0; }  // m

  template <unsigned states, class V>
  void update(V& p, V g, V* s) const {
    decay(p, g, lr, weight_decay, false);
    if constexpr (states != 0) {
      V& m = s[0];
      m = is_new ? g : constant<V>(momentum) * m + constant<V>(1 - dampening) * g;
      g = nesterov ? g + constant<V>(momentum) * m : m;
    }
    p = p - constant<V>(lr) * g;
  }
};

// The options that Adam and its variants share.
struct AdamNumbers {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled;

  template <class Options>
  AdamNumbers(const Options& o, bool decoupled_decay)
      : lr(o.lr()),
        beta1(o.beta1()),
        beta2(o.beta2()),
        eps(o.eps()),
        weight_decay(o.weight_decay()),
        decoupled(decoupled_decay) {}
};

// Kingma & Ba 2015; amsgrad: Reddi et al. 2018.
struct AdamStep : AdamNumbers {
  bool amsgrad;
  double rate, root;  // lr / (1 - beta1^t), sqrt(1 - beta2^t)

  template <class Options>
  AdamStep(const Options& o, bool decoupled_decay, const StepCount& count)
      : AdamNumbers(o, decoupled_decay),
        amsgrad(o.amsgrad()),
        rate(lr / (1 - std::pow(beta1, static_cast<double>(count.t)))),
        root(std::sqrt(1 - std::pow(beta2, static_cast<double>(count.t)))) {}

  using Forms = Masks<3, 7>;
  unsigned states() const { return amsgrad ? 7 : 3; }  // m, v, max v

  template <unsigned states, class V>
  void update(V& p, V g, V* s) const {
    using std::max, std::sqrt;
    decay(p, g, lr, weight_decay, decoupled);
    moments(s[0], s[1], g, beta1, beta2);
    if constexpr (states == 7) s[2] = max(s[2], s[1]);
    p = p - constant<V>(rate) * s[0] / (sqrt(s[states == 7 ? 2 : 1]) / constant<V>(root) + constant<V>(eps));
  }
};

// Dozat 2016: Adam with Nesterov's momentum, mu(t) = beta1 (1 - 0.96^(t momentum_decay) / 2).
struct NAdamStep : AdamNumbers {
  double rate, ahead, root;  // factors of m and g; sqrt(1 - beta2^t)

  template <class Options>
  NAdamStep(const Options& o, const StepCount& count) : AdamNumbers(o, o.decoupled_weight_decay()) {
    const double t = static_cast<double>(count.t);
    const auto mu = [&](double at) { return beta1 * (1 - 0.5 * std::pow(0.96, at * o.momentum_decay())); };
    double& product = *count.scalar;  // mu(1) … mu(t)
    product *= mu(t);
    rate = lr * mu(t + 1) / (1 - product * mu(t + 1));
    ahead = lr * (1 - mu(t)) / (1 - product);
    root = std::sqrt(1 - std::pow(beta2, t));
  }

  using Forms = Masks<3>;
  unsigned states() const { return 3; }  // m, v

  template <unsigned, class V>
  void update(V& p, V g, V* s) const {
    using std::sqrt;
    decay(p, g, lr, weight_decay, decoupled);
    moments(s[0], s[1], g, beta1, beta2);
    p = p - (constant<V>(rate) * s[0] + constant<V>(ahead) * g) / (sqrt(s[1]) / constant<V>(root) + constant<V>(eps));
  }
};

// Liu et al. 2020: Adam; SGD with Adam's momentum while the variance of v is too large.
struct RAdamStep : AdamNumbers {
  bool rectified;
  double rate;

  template <class Options>
  RAdamStep(const Options& o, const StepCount& count) : AdamNumbers(o, o.decoupled_weight_decay()) {
    const double t = static_cast<double>(count.t), power = std::pow(beta2, t);
    const double rho_inf = 2 / (1 - beta2) - 1, rho = rho_inf - 2 * t * power / (1 - power);
    rectified = rho > 5;
    rate = lr / (1 - std::pow(beta1, t));
    if (rectified)
      rate *= std::sqrt((1 - power) * (rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho));
  }

  using Forms = Masks<3>;
  unsigned states() const { return 3; }  // m, v

  template <unsigned, class V>
  void update(V& p, V g, V* s) const {
    using std::sqrt;
    decay(p, g, lr, weight_decay, decoupled);
    moments(s[0], s[1], g, beta1, beta2);
    p = p - constant<V>(rate) * (rectified ? s[0] / (sqrt(s[1]) + constant<V>(eps)) : s[0]);
  }
};

// Kingma & Ba 2015: Adam with the infinity norm.
struct AdamaxStep {
  double beta1, beta2, eps, weight_decay;
  double rate;  // lr / (1 - beta1^t)

  template <class Options>
  AdamaxStep(const Options& o, const StepCount& count)
      : beta1(o.beta1()),
        beta2(o.beta2()),
        eps(o.eps()),
        weight_decay(o.weight_decay()),
        rate(o.lr() / (1 - std::pow(beta1, static_cast<double>(count.t)))) {}

  using Forms = Masks<3>;
  unsigned states() const { return 3; }  // m, u

  template <unsigned, class V>
  void update(V& p, V g, V* s) const {
    using std::abs, std::max;
    V &m = s[0], &u = s[1];
    decay(p, g, 0, weight_decay, false);
    m = lerp(m, g, 1 - beta1);
    u = max(constant<V>(beta2) * u, abs(g) + constant<V>(eps));
    p = p - constant<V>(rate) * m / u;
  }
};

// Hinton 2012; centered: Graves 2013.
struct RmspropStep {
  double lr, alpha, eps, weight_decay, momentum;
  bool centered;

  template <class Options>
  RmspropStep(const Options& o, const StepCount&)
      : lr(o.lr()),
        alpha(o.alpha()),
        eps(o.eps()),
        weight_decay(o.weight_decay()),
        momentum(o.momentum()),
        centered(o.centered()) {}

  using Forms = Masks<1, 3, 5, 7>;
  unsigned states() const { return 1u | (centered ? 2u : 0u) | (momentum != 0 ? 4u : 0u); }  // v, a, b

  template <unsigned states, class V>
  void update(V& p, V g, V* s) const {
    using std::max, std::sqrt;
    V &v = s[0], &a = s[1], &b = s[2];
    decay(p, g, lr, weight_decay, false);
    v = constant<V>(alpha) * v + constant<V>(1 - alpha) * (g * g);
    V variance = v;
    if constexpr ((states & 2) != 0) {
      a = lerp(a, g, 1 - alpha);
      variance = max(v - a * a, constant<V>(0));  // rounding may make it negative
    }
    V d = g / (sqrt(variance) + constant<V>(eps));
    if constexpr ((states & 4) != 0) d = b = constant<V>(momentum) * b + d;
    p = p - constant<V>(lr) * d;
  }
};

// Duchi et al. 2011.
struct AdagradStep {
  double initial, eps, weight_decay;
  bool is_new;
  double rate;  // lr / (1 + (t - 1) lr_decay)

  template <class Options>
  AdagradStep(const Options& o, const StepCount& count)
      : initial(o.initial_accumulator_value()),
        eps(o.eps()),
        weight_decay(o.weight_decay()),
        is_new(count.is_new),
        rate(o.lr() / (1 + static_cast<double>(count.t - 1) * o.lr_decay())) {}

  using Forms = Masks<1>;
  unsigned states() const { return 1; }  // the sum of squares

  template <unsigned, class V>
  void update(V& p, V g, V* s) const {
    using std::sqrt;
    decay(p, g, 0, weight_decay, false);
    s[0] = (is_new ? constant<V>(initial) : s[0]) + g * g;
    p = p - constant<V>(rate) * g / (sqrt(s[0]) + constant<V>(eps));
  }
};

// Chen et al. 2023.
struct LionStep {
  double lr, beta1, beta2, weight_decay;

  template <class Options>
  LionStep(const Options& o, const StepCount&)
      : lr(o.lr()), beta1(o.beta1()), beta2(o.beta2()), weight_decay(o.weight_decay()) {}

  using Forms = Masks<1>;
  unsigned states() const { return 1; }  // m

  template <unsigned, class V>
  void update(V& p, V g, V* s) const {
    V& m = s[0];
    decay(p, g, lr, weight_decay, true);
    p = p - constant<V>(lr) * sign(lerp(m, g, 1 - beta1));
    m = lerp(m, g, 1 - beta2);
  }
};

// Zeiler 2012.
struct AdadeltaStep {
  double lr, rho, eps, weight_decay;

  template <class Options>
  AdadeltaStep(const Options& o, const StepCount&)
      : lr(o.lr()), rho(o.rho()), eps(o.eps()), weight_decay(o.weight_decay()) {}

  using Forms = Masks<3>;
  unsigned states() const { return 3; }  // v, u

  template <unsigned, class V>
  void update(V& p, V g, V* s) const {
    using std::sqrt;
    V &v = s[0], &u = s[1];
    decay(p, g, lr, weight_decay, false);
    v = constant<V>(rho) * v + constant<V>(1 - rho) * (g * g);
    const V d = sqrt(u + constant<V>(eps)) / sqrt(v + constant<V>(eps)) * g;
    u = constant<V>(rho) * u + constant<V>(1 - rho) * (d * d);
    p = p - constant<V>(lr) * d;
  }
};

// The exponential moving average of weights: p is the average, g the weight.
struct AverageStep {
  double decay;

  using Forms = Masks<0>;
  unsigned states() const { return 0; }

  template <unsigned, class V>
  void update(V& p, V g, V*) const {
    p = lerp(p, g, 1 - decay);
  }
};

#define FIT_OPTIMIZER_STEPS(X) \
  X(SgdStep)                   \
  X(AdamStep)                  \
  X(NAdamStep)                 \
  X(RAdamStep)                 \
  X(AdamaxStep)                \
  X(RmspropStep)               \
  X(AdagradStep)               \
  X(LionStep)                  \
  X(AdadeltaStep)              \
  X(AverageStep)

// ---- running the steps --------------------------------------------------------------------------------------------

// The arrays of a step. An unused state may be null.
template <class T>
struct StepArrays {
  static constexpr int max_states = 3;
  T* parameter;
  const T* gradient;
  T* state[max_states];
  T sign = 1;  // -1 negates the gradient (maximize)
};

// Calls f(std::integral_constant<unsigned, mask>) with the mask of the step's states.
template <class Step, class F, unsigned... masks>
inline void with_states(const Step& step, const F& f, Masks<masks...>) {
  (void)((step.states() == masks && (f(std::integral_constant<unsigned, masks>()), true)) || ...);
}

/// Reference: element by element.
template <class T, class Step>
void run_plain(const Step& step, const StepArrays<T>& on, std::int64_t n) {
  constexpr int max_states = StepArrays<T>::max_states;
  const auto run = [&](auto mask) {
    constexpr unsigned states = decltype(mask)::value;
    for (std::int64_t i = 0; i < n; ++i) {
      T s[max_states] = {};
      for (int k = 0; k < max_states; ++k)
        if (states >> k & 1) s[k] = on.state[k][i];
      step.template update<states>(on.parameter[i], on.sign * on.gradient[i], s);
      for (int k = 0; k < max_states; ++k)
        if (states >> k & 1) on.state[k][i] = s[k];
    }
  };
  with_states(step, run, typename Step::Forms());
}

/// The vectorised kernel of a step. Each is asked for by itself: a program contains the optimisers that it uses.
template <class T, class Step>
using StepKernel = void (*)(const Step& step, const StepArrays<T>& on, std::int64_t n);
template <class IsaTag, class T, class Step>
StepKernel<T, Step> step_kernel_of();

template <class T, class Step>
StepKernel<T, Step> step_kernel() {
  return FIT_KERNELS(step_kernel_of, T, Step);
}

/// The sum of squares in double, with 16 chains of additions, in an order that depends on n only.
template <class T>
using SumOfSquares = double (*)(const T* x, std::int64_t n);
template <class IsaTag, class T>
SumOfSquares<T> sum_of_squares_of();

template <class T>
SumOfSquares<T> sum_of_squares() {
  return FIT_KERNELS(sum_of_squares_of, T);
}

}  // namespace fit::kernels
