#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fit/tensor/state_dict.hpp"

/// What happens in a training, told to objects that show it: a page, a terminal, a log of another program.
///
///     struct Print : TrainingListener {
///       void on_step(const TrainingRow& row) override { std::cout << row.at("step") << ' ' << row.at("loss") << '\n';
///       }
///     };
///     trainer.listen(std::make_shared<Print>());
namespace fit {

class AttentionRecording;
struct TrainerResult;

/// Numbers by name, with the "step".
using TrainingRow = std::map<std::string, double>;

/// A training that begins, or goes on.
struct TrainingStart {
  std::string out;                  ///< The folder of the training's files; empty for none.
  std::string title;                ///< TrainerOptions::title.
  std::int64_t steps = 0;           ///< The total number of steps.
  std::vector<TrainingRow> before;  ///< The earlier rows of a resumed training.
};

/// Listens to a Trainer. Each function does nothing unless it is overridden. With several ranks, only rank 0 calls
/// them. An exception in one of them ends the training as one in the loss does.
class TrainingListener {
 public:
  TrainingListener() = default;
  virtual ~TrainingListener();
  TrainingListener(const TrainingListener&) = delete;
  TrainingListener& operator=(const TrainingListener&) = delete;

  /// Trainer::run() begins. The model and its checkpoint are restored.
  virtual void on_begin(const TrainingStart& /*start*/) {}
  /// After backward(), before the optimiser's step: each TrainerOptions::histograms_every steps. Parameters have their
  /// gradients.
  virtual void on_gradients(std::int64_t /*step*/, const StateDict& /*parameters*/) {}
  /// A step that is logged (TrainerOptions::log_every): the numbers of metrics.jsonl, and "tokens" since the previous
  /// row.
  virtual void on_step(const TrainingRow& /*row*/) {}
  /// A validation. on_step() with the same step follows, and has the value, too.
  virtual void on_evaluation(std::int64_t /*step*/, double /*value*/) {}
  /// Attention was recorded by Trainer::heads(). The recording holds all steps so far.
  virtual void on_recording(std::int64_t /*step*/, const AttentionRecording& /*recording*/) {}
  /// Trainer::run() ends. An exception ends it without this call.
  virtual void on_end(const TrainerResult& /*result*/) {}
};

}  // namespace fit
