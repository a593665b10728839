#pragma once
#include <string>
#include <utility>
#include <vector>

#include "fit/nn/training/trainer.hpp"
#include "nn/models/small_model.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"

namespace fit::test {

/// Options of a training that shows nothing.
inline TrainerOptions quiet(std::int64_t steps, const std::string& out = "") {
  return TrainerOptions().steps(steps).out(out).display(Display::none);
}

/// What Trainer::record_attention() may call: records one matrix, without a gradient, and notes the step.
inline Callable<AttentionRecording(std::int64_t)> recorded_at(std::vector<std::int64_t>& steps) {
  return [&steps](std::int64_t step) {
    steps.push_back(step);
    CHECK_FALSE(grad_enabled());
    AttentionRecording r;
    r.add("layer", full({1, 2, 2}, 0.5), AttentionRecordOptions().step(step));
    return r;
  };
}

/// A Trainer of a SmallTraining; `at` is called with the number of each step.
struct Trained : SmallTraining {
  explicit Trained(
      const TrainerOptions& options, Callable<void(int)> at = [](int) {})
      : trainer(
            *model, *optimizer, loader,
            [this, at](const data::Batch& b) {
              at(static_cast<int>(trainer.checkpoint().step) + 1);
              return loss(b);
            },
            options) {
    trainer.schedule(*schedule);
  }
  Trainer trainer;
};

}  // namespace fit::test
