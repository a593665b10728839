#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "fit/optim.hpp"
#include "fit/parallel.hpp"
#include "fit/tensor.hpp"
#include "kernels/optim.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit::optim {

inline void check_not_negative(const char* op, const char* name, double value) {
  if (!(value >= 0)) check::fail(op, name, " is ", value, ": it must not be negative");
  if (std::isinf(value)) check::fail(op, name, " is ", value, ": it must be finite");
}

inline void check_share(const char* op, const char* name, double value) {
  if (!(value >= 0 && value < 1)) check::fail(op, name, " is ", value, ": it must be at least 0 and less than 1");
}

/// One step of many parameters. It treats them as one concatenated array, so that threads share the work evenly for any
/// sizes.
template <class Step>
class FusedStep {
 public:
  /// Reserves memory, so that add() cannot fail for this number of parameters.
  void reserve(std::size_t parameters) { segments_.reserve(parameters); }

  void add(Tensor& parameter, const Tensor& gradient, const Tensor* state, const Step& step) {
    add(parameter, gradient, state, step, 0, parameter.numel(), 1);
  }
  /// Adds `size` elements of a parameter, from `begin`. The state has `size` elements. The gradient is multiplied by
  /// sign, 1 or -1.
  void add(Tensor& parameter, const Tensor& gradient, const Tensor* state, const Step& step, std::int64_t begin,
           std::int64_t size, int sign) {
    parameter.before_write("step");
    const std::int64_t bytes = begin * static_cast<std::int64_t>(size_of(parameter.dtype()));
    Segment p{end_,
              size,
              parameter.dtype(),
              step,
              static_cast<char*>(parameter.fresh<void>()) + bytes,
              static_cast<const char*>(gradient.raw()) + bytes,
              {},
              sign};
    for (int k = 0; k < StateSpec::max_states; ++k)
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
          dispatch_compute_floating(p->dtype, [&](auto zero) { p->template run<decltype(zero)>(from, to); });
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
    void* state[StateSpec::max_states];
    int sign;

    template <class T>
    void run(std::int64_t from, std::int64_t to) const {
      kernels::StepArrays<T> on{
          static_cast<T*>(parameter) + from, static_cast<const T*>(gradient) + from, {}, static_cast<T>(sign)};
      for (int k = 0; k < StateSpec::max_states; ++k)
        if (state[k]) on.state[k] = static_cast<T*>(state[k]) + from;
      kernels::step_kernel<T, Step>()(step, on, to - from);
    }
  };

  std::vector<Segment> segments_;
  std::int64_t end_ = 0;
};

}  // namespace fit::optim
