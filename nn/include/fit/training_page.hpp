#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fit/attention_recording.hpp"
#include "fit/option.hpp"
#include "fit/plot.hpp"

/// A page that redraws itself while a training runs. The Trainer writes one; in a loop of one's own:
///
///     plot::TrainingPage page("out/names/training.html");
///     for (int step = 1; step <= 1000; ++step) {
///       …
///       page.add({{"step", step}, {"loss", loss.item()}, {"lr", optimizer.lr()}});
///     }
///
/// The file opens from the disk in any browser and asks for nothing but the files beside it.
namespace fit::plot {

/// How a training stands.
enum class TrainingState { running, done, stopped };

/// Numbers by name. "step" says where they belong. Known names are "loss", "validation", "lr", "grad_norm" and "tokens"
/// (of the steps since the row before, for the rate); others get a chart of their own.
using TrainingRow = std::map<std::string, double>;

/// What a TrainingPage says, and how often.
struct TrainingPageOptions {
  FIT_OPTION(std::string, title) = "Training";  ///< The title of the page.
  FIT_OPTION(std::int64_t, steps) = 0;          ///< The steps of the whole training; 0: not known.
  /// The least seconds from one write to the next; writing takes at most 1 % of the time. 0: each row is written.
  FIT_OPTION(double, seconds_between) = 1;
  FIT_OPTION(std::vector<TrainingRow>, before);  ///< The rows of a resumed training so far.
};

/// The page of one training.
class TrainingPage {
 public:
  /// Writes the page, PATH.html, and what it reads again every second, PATH.js; nothing if the path is empty. Throws
  /// FileError if they can't be written, and Error for a path that does not end with .html or options that are
  /// negative.
  explicit TrainingPage(const std::string& path, const TrainingPageOptions& options = {});
  /// If finish() was not called, the training is shown as stopped.
  ~TrainingPage();
  TrainingPage(const TrainingPage&) = delete;
  TrainingPage& operator=(const TrainingPage&) = delete;

  /// Adds numbers, and writes them if it is time to. Long trainings are thinned out: of each number at most 2000 points
  /// are kept, each the mean of what came in its time, with the smallest and the largest. What is not finite is left
  /// out. A disk that is full ends no training: it is told on stderr, once. Throws Error for a row without a step.
  void add(const TrainingRow& row);
  /// The heads so far, shown below the charts: PATH_heads.html, written as add() writes, and by finish().
  void heads(AttentionRecording recording);
  /// Writes everything. The page now holds its numbers, and needs PATH.js no more.
  void finish(TrainingState state = TrainingState::done);

  /// The loss, and the validation if there is one, as a picture.
  Figure loss(const LineOptions& options) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fit::plot
