#pragma once
#include <cstdint>

#include "kernels/isa.hpp"

// One step of an optimiser over contiguous memory, in one pass: parameter, gradient and state are read once and
// written once. Numbers are given in double and used in the type of the elements. Rounded by operation.
namespace fit::kernels {

// What a step works on. A state that an optimiser goes without is null.
template <class T>
struct StepArrays {
  static constexpr int max_states = 3;
  T* parameter;
  const T* gradient;
  T* state[max_states];
};

// g += decay p;  m = first ? g : momentum m + keep g;  g = nesterov ? g + momentum m : m;  p -= lr g
struct SgdStep {
  double lr, momentum, keep, decay;  // keep: 1 - dampening
  bool nesterov, first;              // state: m, null without momentum
};

// p *= shrink;  g += decay p;  m += keep1 (g - m);  v = beta2 v + keep2 g^2;  w = max(w, v) or v
// p -= (rate m + ahead g) / (sqrt(w) / root + eps)
struct AdamStep {
  double rate;                      // Adam: lr / (1 - beta1^t)
  double root;                      // Adam: sqrt(1 - beta2^t)
  double beta2, keep1, keep2, eps;  // keep: 1 - beta
  double decay, shrink;             // weight decay through the gradient, or 1 - lr decay
  double ahead = 0;                 // NAdam's share of the gradient itself; state: m, v, w (null without AMSGrad)
};

// g += decay p;  m += keep1 (g - m);  u = max(beta2 u, |g| + eps);  p -= rate m / u
struct AdamaxStep {
  double rate, beta2, keep1, eps, decay;  // state: m, u
};

// g += decay p;  v = alpha v + keep g^2;  a += keep (g - a);  d = g / (sqrt(v - a^2) + eps)
// b = momentum b + d;  p -= lr b, or lr d
struct RmspropStep {
  double lr, alpha, keep, eps, momentum, decay;  // keep: 1 - alpha; state: v, a (null: 0), b (null: none)
};

// g += decay p;  s = (first ? start : s) + g^2;  p -= rate g / (sqrt(s) + eps)
struct AdagradStep {
  double rate, start, eps, decay;
  bool first;  // state: s
};

// p = shrink p - lr sign(m + keep1 (g - m));  m += keep2 (g - m)
struct LionStep {
  double lr, keep1, keep2, shrink;  // keep: 1 - beta; state: m
};

// p += keep (g - p): the average of weights, where p is the average and g the weight.
struct AverageStep {
  double keep;
};

template <class T, class Step>
struct StepKernel {
  void (*run)(const Step& step, const StepArrays<T>& on, std::int64_t n);
};

template <class T>
struct Optim : StepKernel<T, SgdStep>,
               StepKernel<T, AdamStep>,
               StepKernel<T, AdamaxStep>,
               StepKernel<T, RmspropStep>,
               StepKernel<T, AdagradStep>,
               StepKernel<T, LionStep>,
               StepKernel<T, AverageStep> {
  // Sum of squares, in double, in an order that depends on n alone: 16 chains of additions.
  double (*squares)(const T* x, std::int64_t n);
};

template <class IsaTag, class T>
const Optim<T>& optim_table();

template <class T>
const Optim<T>& optim() {
  return FIT_KERNELS(optim_table, T);
}

}  // namespace fit::kernels
