#pragma once
#include <functional>
#include <string>
#include <utility>

#include "fit/nn/training/trainer.hpp"
#include "nn/models/small_model.hpp"

namespace fit::test {

/// Options of a training that shows nothing.
inline TrainerOptions quiet(std::int64_t steps, const std::string& out = "") {
  return TrainerOptions().steps(steps).out(out).display(Display::none);
}

/// A Trainer of a SmallTraining; `at` is called with the number of each step.
struct Trained : SmallTraining {
  explicit Trained(
      const TrainerOptions& options, std::function<void(int)> at = [](int) {})
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
