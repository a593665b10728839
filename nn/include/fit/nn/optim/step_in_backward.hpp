#pragma once
#include <vector>

#include "fit/graph/hooks.hpp"
#include "fit/nn/optim/optim.hpp"

namespace fit::optim {

/// While it lives, backward() updates each parameter of the optimiser as soon as the parameter's gradient is complete,
/// and frees the gradient. So gradients take the memory of a few parameters, not of all (Lv et al. 2023, LOMO;
/// PyTorch's "optimizer step in backward"). The parameters get the same bits as by optimizer.step() after each
/// backward(). A step() that is called nevertheless finds no gradient and does nothing.
///
///     optim::AdamW optimizer(gpt.named_parameters(), 3e-4);
///     const optim::StepInBackward fused(optimizer);
///     for (…) {
///       gpt.loss(ids, targets).backward();   // and the step
///       schedule.step();
///     }
///
/// clip_grad_norm_() and step(error_if_nonfinite) need all gradients together, so they throw Error for these
/// parameters. A Trainer checks only the loss, does not log grad_norm, and throws Error for accumulate above 1. In your
/// own loop, several calls of backward() are several steps: their gradients are not summed. An Error of a step leaves
/// backward() after some parameters have taken their steps.
class StepInBackward {
 public:
  /// The optimiser must outlive this object. Throws Error for sharded averages, in a world of several ranks, and if a
  /// parameter has such an object already. Parameters that are frozen now, or added later, take no step in backward().
  [[nodiscard]] explicit StepInBackward(Optimizer& optimizer);
  ~StepInBackward();
  StepInBackward(const StepInBackward&) = delete;
  StepInBackward& operator=(const StepInBackward&) = delete;

 private:
  std::vector<const void*> parameters_;
  std::vector<GradHook> hooks_;
};

}  // namespace fit::optim
