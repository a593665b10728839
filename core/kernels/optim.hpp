#pragma once
#include <cstdint>

#include "kernels/isa.hpp"

// One step of an optimiser over contiguous memory, in one pass: parameter, gradient and state are read once and
// written once. Numbers are given in double and used in the type of the elements.
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
// p -= rate m / (sqrt(w) / root + eps)
struct AdamStep {
  double rate;                      // lr / (1 - beta1^t)
  double root;                      // sqrt(1 - beta2^t)
  double beta2, keep1, keep2, eps;  // keep: 1 - beta
  double decay, shrink;             // Adam's weight decay; AdamW's 1 - lr decay
                                    // state: m, v, w (null without AMSGrad)
};

template <class T>
struct Optim {
  void (*sgd)(const SgdStep& step, const StepArrays<T>& on, std::int64_t n);
  void (*adam)(const AdamStep& step, const StepArrays<T>& on, std::int64_t n);
  // Sum of squares, in double, in an order that depends on n alone.
  double (*squares)(const T* x, std::int64_t n);
};

template <class IsaTag, class T>
const Optim<T>& optim_table();

template <class T>
const Optim<T>& optim() {
  return FIT_KERNELS(optim_table, T);
}

}  // namespace fit::kernels
