#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "fit/graph.hpp"
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

/// All parameters of one step as one line of elements, which threads share whatever the parameters' sizes.
template <class Step>
class Line {
 public:
  /// Bit k of `which`: state[k] is worked on.
  void add(Tensor& parameter, const Tensor& gradient, const Tensor* state, unsigned which, const Step& step) {
    parameter.before_write("step");
    Piece p{end_, parameter.numel(), parameter.dtype(), step, parameter.fresh<void>(), gradient.raw(), {}};
    for (int k = 0; k < Kept::max_states; ++k)
      if (which >> k & 1) p.state[k] = const_cast<void*>(state[k].raw());
    pieces_.push_back(p);
    end_ += p.size;
  }

  void run() const {
    constexpr std::int64_t grain = 1 << 15;
    parallel_for(end_, grain, [&](std::int64_t begin, std::int64_t end) {
      auto p = std::upper_bound(pieces_.begin(), pieces_.end(), begin,
                                [](std::int64_t at, const Piece& piece) { return at < piece.begin; });
      for (--p; p != pieces_.end() && p->begin < end; ++p) {
        const std::int64_t from = std::max<std::int64_t>(begin - p->begin, 0), to = std::min(end - p->begin, p->size);
        if (from < to) dispatch_floating(p->dtype, [&](auto zero) { p->template run<decltype(zero)>(from, to); });
      }
    });
  }

 private:
  struct Piece {
    std::int64_t begin, size;
    DType dtype;
    Step step;
    void* parameter;
    const void* gradient;
    void* state[Kept::max_states];

    template <class T>
    void run(std::int64_t from, std::int64_t to) const {
      kernels::StepArrays<T> on{static_cast<T*>(parameter) + from, static_cast<const T*>(gradient) + from, {}};
      for (int k = 0; k < Kept::max_states; ++k)
        if (state[k]) on.state[k] = static_cast<T*>(state[k]) + from;
      static_cast<const kernels::StepKernel<T, Step>&>(kernels::optim<T>()).run(step, on, to - from);
    }
  };

  std::vector<Piece> pieces_;
  std::int64_t end_ = 0;
};

template <class Options>
template <class StepOf>
void GroupedOptimizer<Options>::run(const StepOf& step_of) {
  const NoGrad plain;
  Line<decltype(step_of(std::declval<Slot&>(), options()))> line;
  each_with_gradient([&](Slot& slot, std::size_t group, unsigned which) {
    line.add(slot.parameter, slot.parameter.grad(), slot.state, which, step_of(slot, options(group)));
  });
  line.run();
}

}  // namespace fit::optim
