#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "fit/nn/optim/formula.hpp"
#include "fit/threads/parallel.hpp"
#include "kernels/simd/isa.hpp"
#include "tensor/dispatch.hpp"

namespace fit::kernels {

// The exponential moving average of weights: p is the average, g the weight.
struct AverageStep {
  double decay;

  using Forms = std::integer_sequence<unsigned, 0>;
  unsigned states() const { return 0; }

  template <unsigned, class V>
  void update(V& p, V g, V*) const {
    p = optim::detail::lerp(p, g, 1 - decay);
  }
};

// The arrays of a step. An unused state may be null.
template <class T>
struct StepArrays {
  static constexpr int max_states = optim::detail::max_states;
  T* parameter;
  const T* gradient;
  T* state[max_states];
  T sign = 1;           // -1 negates the gradient (maximize)
  bool settle = false;  // makes 0 of states that are subnormal
};

// Calls f(std::integral_constant<unsigned, mask>) with the mask of the step's states.
template <class Step, class F, unsigned... masks>
inline void with_states(const Step& step, const F& f, std::integer_sequence<unsigned, masks...>) {
  (void)((step.states() == masks && (f(std::integral_constant<unsigned, masks>()), true)) || ...);
}

// Loads, updates and stores the arrays of a step: each is read and written once. The loop gives the type V of the
// values, and access to them: numbers in the reference, vectors in the kernels (fused_step.simd.cpp).
template <class Loop, class T, class Step>
void run_step(const Step& given, const StepArrays<T>& on, std::int64_t n) {
  using V = typename Loop::V;
  static constexpr int max_states = StepArrays<T>::max_states;
  const auto form = [&on, n, step = given](auto mask) {  // a local copy of the step: no store can alias it
    constexpr unsigned states = decltype(mask)::value;
    Loop::each(n, [&on, step, sign = V(on.sign), settle = on.settle](std::int64_t i, auto at) {
      V p = at.template load<V>(on.parameter + i, T(0)), s[max_states];
      for (int k = 0; k < max_states; ++k)
        if (states >> k & 1) s[k] = at.template load<V>(on.state[k] + i, T(0));
      step.template update<states>(p, sign * at.template load<V>(on.gradient + i, T(0)), s);
      at.store(p, on.parameter + i);
      if (__builtin_expect(settle, false))  // in a branch, as it seldom happens
        for (int k = 0; k < max_states; ++k)
          if (states >> k & 1) s[k] = Loop::settled(s[k]);
      for (int k = 0; k < max_states; ++k)
        if (states >> k & 1) at.store(s[k], on.state[k] + i);
    });
  };
  with_states(given, form, typename Step::Forms());
}

/// The loop of the reference, element by element.
template <class T>
struct PlainLoop {
  using V = T;
  template <class, class U>
  U load(const U* p, U) const {
    return *p;
  }
  void store(T v, T* p) const { *p = v; }
  static T settled(T x) { return optim::detail::abs(x) < std::numeric_limits<T>::min() ? T(0) : x; }
  template <class F>
  static void each(std::int64_t n, const F& f) {
    for (std::int64_t i = 0; i < n; ++i) f(i, PlainLoop());
  }
};

/// The vectorised kernel of a step. Each is asked for by itself: a program contains the optimisers that it uses.
template <class T, class Step>
using StepKernel = void (*)(const Step& step, const StepArrays<T>& on, std::int64_t n);
template <class IsaTag, class T, class Step>
StepKernel<T, Step> step_kernel_of();

template <class T, class Step>
StepKernel<T, Step> step_kernel() {
  return FIT_KERNELS(step_kernel_of, T, Step);
}

}  // namespace fit::kernels

namespace fit::optim {

/// One step of many parameters. The kernels know no Tensor, so it is a parameter here, Array. It treats them as one
/// concatenated array, so that threads share the work evenly for any sizes.
template <class Step>
class FusedStep {
 public:
  /// Reserves memory, so that add() cannot fail for this number of parameters.
  void reserve(std::size_t parameters) { segments_.reserve(parameters); }

  template <class Array>
  void add(Array& parameter, const Array& gradient, std::nullptr_t /*no state*/, const Step& step) {
    add<Array>(parameter, gradient, nullptr, step, 0, parameter.numel(), 1, false);
  }
  /// Adds `size` elements of a parameter, from `begin`. The state has `size` elements. The gradient is multiplied by
  /// sign, 1 or -1. settle: makes 0 of states that are subnormal.
  template <class Array>
  void add(Array& parameter, const Array& gradient, const Array* state, const Step& step, std::int64_t begin,
           std::int64_t size, int sign, bool settle) {
    parameter.before_write("step");
    const std::int64_t bytes = begin * static_cast<std::int64_t>(size_of(parameter.dtype()));
    Segment p{end_,
              size,
              parameter.dtype(),
              step,
              static_cast<char*>(parameter.template fresh<void>()) + bytes,
              static_cast<const char*>(gradient.raw()) + bytes,
              {},
              sign,
              settle};
    for (int k = 0; k < detail::max_states; ++k)
      if (step.states() >> k & 1) p.state[k] = const_cast<void*>(state[k].raw());
    segments_.push_back(p);
    end_ += p.size;
  }

  void run() const {
    constexpr std::int64_t grain = 1 << 15;
    parallel_for(end_, grain, [&](std::int64_t begin, std::int64_t end) {
      auto p = std::upper_bound(segments_.begin(), segments_.end(), begin,
                                [](std::int64_t at, const Segment& segment) { return at < segment.begin; });
      for (--p; p != segments_.end() && p->begin < end; ++p) {
        const std::int64_t from = std::max<std::int64_t>(begin - p->begin, 0), to = std::min(end - p->begin, p->size);
        if (from < to)
          dispatch_compute_floating(p->dtype, [&](auto zero) {
            using T = decltype(zero);
            kernels::step_kernel<T, Step>()(p->step, p->template arrays<T>(from), to - from);
          });
      }
    });
  }

 private:
  struct Segment {
    std::int64_t begin, size;
    DType dtype;
    Step step;
    void* parameter;
    const void* gradient;
    void* state[detail::max_states];
    int sign;
    bool settle;

    template <class T>
    kernels::StepArrays<T> arrays(std::int64_t from) const {
      kernels::StepArrays<T> on{
          static_cast<T*>(parameter) + from, static_cast<const T*>(gradient) + from, {}, static_cast<T>(sign), settle};
      for (int k = 0; k < detail::max_states; ++k)
        if (state[k]) on.state[k] = static_cast<T*>(state[k]) + from;
      return on;
    }
  };

  std::vector<Segment> segments_;
  std::int64_t end_ = 0;
};

}  // namespace fit::optim
