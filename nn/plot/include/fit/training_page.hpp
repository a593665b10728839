#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/attention/attention_recording.hpp"
#include "fit/nn/training/training_listener.hpp"
#include "fit/plot.hpp"
#include "fit/tensor/state_dict.hpp"

/// A live page of a training. A Trainer with a folder writes it by `trainer.listen(plot::training_page())`. In a custom
/// loop:
///
///     plot::TrainingPage page("out/names/training.html");
///     for (int step = 1; step <= 1000; ++step) {
///       …
///       page.add({{"step", step}, {"loss", loss.item()}, {"lr", optimizer.lr()}});
///     }
///
/// The file opens from the disk in any browser. It reads only the files beside it.
namespace fit::plot {

/// The state of a training.
enum class TrainingState { running, done, stopped };

/// The options of TrainingPage.
struct TrainingPageOptions {
  FIT_OPTION(std::string, title) = "Training";  ///< The title of the page.
  FIT_OPTION(std::int64_t, steps) = 0;          ///< The total number of steps of the training; 0: not known.
  /// The min seconds between two writes. Writing takes at most 1 % of the time. 0: every row is written at once.
  FIT_OPTION(double, seconds_between) = 1;
  FIT_OPTION(std::vector<TrainingRow>, before);  ///< The earlier rows of a resumed training.
  /// Called within add() before Ctrl-C or SIGTERM ends the program: the place to save the weights. Not where the loop
  /// has an InterruptGuard of its own, because add() then ends nothing.
  FIT_OPTION(std::function<void()>, on_stop);
};

/// The page of one training.
class TrainingPage {
 public:
  /// Writes the page PATH.html, and PATH.js, which the page reads every second. An empty path writes nothing. Throws
  /// FileError if they can't be written, and Error for a path that does not end with .html or negative options.
  explicit TrainingPage(const std::string& path, const TrainingPageOptions& options = {});
  /// Shows the training as stopped if finish() was not called.
  ~TrainingPage();
  TrainingPage(const TrainingPage&) = delete;
  TrainingPage& operator=(const TrainingPage&) = delete;

  /// Adds numbers, and writes them after seconds_between. Known names are "loss", "validation", "lr", "grad_norm" and
  /// "tokens" (since the previous row, for the rate). Each other name gets its own chart. Each name keeps at most 2000
  /// points: a point holds the mean, min and max of its steps. Values that are not finite are left out. If the disk is
  /// full, prints one message on stderr; the training goes on. Throws Error for a row without a step.
  void add(const TrainingRow& row);
  /// Shows the heads below the charts. Writes PATH_heads.html when add() or finish() writes.
  void heads(AttentionRecording recording);
  /// Adds the distributions of all parameters and of their gradients at a step: how many values have which magnitude,
  /// by half decades from 1e-10 to 1e4. Call it between backward() and the optimizer's step. Counts all values, and
  /// keeps at most 60 columns: a column sums its steps. Gradients that are not there are left out.
  void histograms(std::int64_t step, const StateDict& parameters);
  /// Writes everything. The page then contains its numbers and no longer reads PATH.js.
  void finish(TrainingState state = TrainingState::done);

  /// The loss, and the validation if there is one, as a figure.
  Figure loss(const LineOptions& options) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The listener of a Trainer that writes the page training.html while it trains, and loss.svg when it ends, both in
/// TrainerOptions::out. Without a folder it writes nothing.
std::shared_ptr<TrainingListener> training_page();

}  // namespace fit::plot
