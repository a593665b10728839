#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "fit/nn/data/data.hpp"
#include "fit/nn/dist/dist.hpp"
#include "fit/nn/training/checkpoint.hpp"
#include "fit/nn/training/trainer.hpp"
#include "layer/buffers.hpp"

namespace fit::detail {

/// The files of a training, and the state after its last complete step, which is saved if a step fails.
class TrainingFiles {
 public:
  TrainingFiles(nn::Layer& model, Checkpoint& checkpoint, const TrainerOptions& options, dist::World& world);

  /// Whether this rank writes files.
  bool writes() const { return world_.rank() == 0 && !options_.out().empty(); }
  std::string path(const char* name) const { return options_.out() + '/' + name; }

  /// Makes the folder, restores, and checks that no longer training would be lost. Holds the folder as long as the
  /// result lives: a second training would replace the files of this one.
  std::shared_ptr<void> begin();
  /// Loads last.safetensors, if the training resumes. Later calls do nothing.
  void restore();
  /// Throw Error for a parameter that is not finite, and for a buffer with NaN.
  void save_best();
  void save_last();
  /// Whether this rank asks for a save: save_minutes have passed since the last one.
  bool due() const;

  /// A step changes the model, the optimiser, the loader and the generators between the two calls.
  void begin_change() { last_.whole = false; }
  void end_change();
  /// Resets the buffers to the last complete step.
  void reset_buffers() noexcept;
  /// Call reset_buffers() before. Resets the loaders and the generators to the last complete step, too. So the resumed
  /// training, or run() again, repeats the failed step with the same batches and random numbers.
  void save_after_error(ProgressBar& bar) noexcept;

 private:
  std::shared_ptr<void> hold_folder() const;
  void check_folder() const;
  void check_finite(const char* name) const;
  void save(const char* name);

  nn::Layer& model_;
  Checkpoint& checkpoint_;
  const TrainerOptions& options_;
  dist::World& world_;
  bool restored_ = false;
  bool last_is_ours_ = false, best_is_ours_ = false;  // the files are of this training
  std::int64_t saved_step_ = -1;
  double saved_ = 0;  // seconds of the clock
  struct {
    std::vector<StateDict> places;  // of the checkpoint
    bool whole = false;             // no step has begun to change the model since
  } last_;
  std::unique_ptr<nn::SavedBuffers> buffers_;
};

}  // namespace fit::detail
