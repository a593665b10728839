#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fit/attention_recording.hpp"
#include "fit/checkpoint.hpp"
#include "fit/data.hpp"
#include "fit/data_parallel.hpp"
#include "fit/dist.hpp"
#include "fit/optim.hpp"
#include "fit/option.hpp"
#include "fit/state_dict.hpp"
#include "fit/training_page.hpp"

/// A training loop, and the pieces it is made of, which serve a loop of one's own as well.
///
///     const auto loss = [&](const data::Batch& b) { return nn::cross_entropy(model(b[0]), b[1]); };
///     Trainer trainer(model, optimizer, loader, loss, TrainerOptions().steps(2000).out("out/names"));
///     trainer.schedule(schedule).validation([&] { return validation_loss(model); }, 200);
///     trainer.run();
namespace fit {

// ---- pieces -------------------------------------------------------------------------------------------------------

/// How a ProgressBar shows itself. automatic: a bar if the stream is std::cerr or std::cout on a terminal, else lines.
enum class Display { automatic, bar, lines, none };

/// "120/2000 [#...................]   6 %  loss 1.2345  38512 tokens/s  0:42 left": one line that is drawn again, at
/// most ten times a second, or where that can't be, a line every few seconds.
class ProgressBar {
 public:
  /// `done` of the steps have been taken before (a training that is resumed).
  explicit ProgressBar(std::int64_t steps, std::int64_t done = 0, Display display = Display::automatic);
  ProgressBar(std::int64_t steps, std::int64_t done, Display display, std::ostream& out, double seconds_between = 5);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// After `step` steps, of which the last had `tokens` tokens (0: there are none, and steps a second are shown).
  void update(std::int64_t step, double loss, std::int64_t tokens = 0);
  /// Writes a line above the bar.
  void print(const std::string& line);
  /// Shows the last state and ends the line.
  void finish();
  /// Tokens a second since the beginning, or steps.
  double rate() const;

 private:
  using Clock = std::chrono::steady_clock;
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  std::string line() const;
  void draw();

  std::int64_t steps_, first_, step_;
  Display display_;
  std::ostream& out_;
  double between_, drawn_;  // seconds
  Clock::time_point start_ = Clock::now();
  double loss_ = std::numeric_limits<double>::quiet_NaN();
  std::int64_t tokens_ = 0;
  bool open_ = false, stale_ = false;  // the line is not ended; what was drawn is not the last state
};

/// Numbers by name, a JSON object a line. A number that is not finite is written as null.
class MetricsLog {
 public:
  using Row = std::map<std::string, double>;
  /// Begins a new file. With keep_to >= 0, goes on with an old one whose lines up to that "step" are kept. Throws
  /// FileError if it can't be written. An empty path keeps the rows in memory only.
  explicit MetricsLog(const std::string& path = "", std::int64_t keep_to = -1);
  /// Adds a line. A disk that is full ends no training: it is told on stderr, once.
  void add(const Row& row);
  /// All lines.
  const std::vector<Row>& rows() const { return rows_; }

 private:
  std::shared_ptr<std::ostream> file_;  // null: in memory only
  std::string path_;
  std::vector<Row> rows_;
};

/// Watches a number that should fall.
class EarlyStopping {
 public:
  /// stop() after `patience` updates without one that is lower than the best by more than min_delta; 0: never.
  explicit EarlyStopping(int patience = 0, double min_delta = 0) : patience_(patience), min_delta_(min_delta) {}
  /// Whether it is the best so far. A NaN never is.
  bool update(double value);
  /// Whether `patience` updates have brought no progress.
  bool stop() const { return patience_ > 0 && since_best_ >= patience_; }
  /// The best number; infinity if there was none.
  double best() const { return best_; }

  /// The best number, and how long ago it was.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 private:
  int patience_;
  double min_delta_, best_ = std::numeric_limits<double>::infinity();
  std::int64_t since_best_ = 0;
};

/// While one lives, the first Ctrl-C (or SIGTERM) is only noted, and the loop can save and end; a second one ends the
/// program. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  static bool interrupted();

 private:
  struct Handlers;
  std::unique_ptr<Handlers> handlers_;  // those before it
};

// ---- the loop -----------------------------------------------------------------------------------------------------

/// The options of a Trainer.
struct TrainerOptions {
  FIT_OPTION(std::int64_t, steps) = 1000;  ///< The steps of the whole training.
  /// A folder for last.safetensors, previous.safetensors (what last.safetensors was before), best.safetensors,
  /// metrics.jsonl, loss.svg, and training.html, a page that redraws itself while the training runs
  /// (fit/training_page.hpp). Empty: nothing is written. What the folder holds of another training is kept as
  /// earlier.safetensors when this one first saves; one of more steps than this one's is an Error.
  FIT_OPTION(std::string, out);
  FIT_OPTION(std::string, title) = "Training";  ///< The title of that page.
  FIT_OPTION(bool, resume) = false;             ///< Goes on from out/last.safetensors, if it is there.
  FIT_OPTION(std::int64_t, accumulate) = 1;     ///< The batches of a step, which lowers the mean of their losses.
  FIT_OPTION(std::int64_t, log_every) = 1;      ///< The steps from one line of metrics to the next.
  FIT_OPTION(std::int64_t, save_every) = 0;     ///< Steps between two last.safetensors; 0: after each validation.
  FIT_OPTION(double, save_minutes) = 5;         ///< It is also saved after so long without; 0: not by time.
  FIT_OPTION(double, clip_norm) = 0;            ///< The largest norm of all gradients together; 0: no clipping.
  /// bfloat16: losses and validations are computed under Autocast (fit/autocast.hpp).
  FIT_OPTION(DType, autocast) = float32;
  /// The training ends after so many validations without progress; 0: never. Else it needs a validation.
  FIT_OPTION(int, patience) = 0;
  FIT_OPTION(double, min_delta) = 0;                  ///< The least change that counts as progress.
  FIT_OPTION(Display, display) = Display::automatic;  ///< Where progress is shown.
  /// How gradients travel among several ranks.
  FIT_OPTION(dist::DataParallelOptions, parallel);
  /// Whether each of several ranks keeps its part of the optimiser's averages only (Optimizer::shard()).
  FIT_OPTION(bool, shard_optimizer) = false;
};

/// How a training ended.
struct TrainerResult {
  enum class End { done, stopped_early, interrupted };
  End end = End::done;
  std::int64_t step = 0;
  /// Of the last step, also where it was taken before this run (from metrics.jsonl); NaN if that is not known.
  double loss = std::numeric_limits<double>::quiet_NaN();
  double best_validation = std::numeric_limits<double>::infinity();  ///< infinity if there was none
  /// The trainable parameters that had no gradient in the first step. They are shown once, too: the loss does not
  /// depend on them.
  std::vector<std::string> without_gradient = {};
};

/// For each batch: loss and backward(); then clipping, optimizer.step(), schedule.step(). All that it is given must
/// outlive it.
///
/// Of several ranks (dist::world(), as it is when the Trainer is made) each runs the same program, seeded alike. Each
/// computes its rows of the loader's batches, and all take the steps that one process would take; rank 0 alone writes
/// files and shows progress. Ctrl-C on any of them ends all after the same step.
class Trainer {
 public:
  /// `loss` makes a batch's loss, one number. A loss or a gradient that is not finite throws Error, which names the
  /// step (and the parameter, or the field and row of the batch that hold NaN), before it can spoil the model or the
  /// optimiser; and a model that holds such a number is not saved over one that doesn't. Throws Error for options out
  /// of range.
  Trainer(nn::Layer& model, optim::Optimizer& optimizer, data::DataLoader& loader,
          std::function<Tensor(const data::Batch&)> loss, TrainerOptions options = {});

  /// Stepped after each step of the optimiser, and saved.
  template <class Schedule>
  Trainer& schedule(Schedule& schedule) {
    checkpoint_.add("schedule", schedule);
    step_schedule_ = [&schedule] { schedule.step(); };
    return *this;
  }
  /// `validate` gives a number that should fall. It is called every `every` steps and after the last one, without
  /// recording and with the model in evaluation. The best one's state is kept in best.safetensors.
  /// (Every rank calls it, and what rank 0 gets counts for all.)
  Trainer& validation(std::function<double()> validate, std::int64_t every);
  /// The same with the mean loss over a loader's batches, each counted by weight(); ranks divide them.
  Trainer& validation(data::DataLoader& loader, std::int64_t every);
  /// Called after each step, before its validation: for what else goes along, such as an average of the weights.
  Trainer& after_step(std::function<void()> f);
  /// How many tokens a batch has, for the rate; if not given, the elements of its first field, if they are int64.
  Trainer& tokens(std::function<std::int64_t(const data::Batch&)> count);
  /// What `look(step)` records is shown on the page of the training, as a film of the heads. It is called before the
  /// first step, every `every` steps and after the last one, without recording of gradients and with the model in
  /// evaluation. When 64 MB are full, every other step is forgotten and `every` doubled.
  ///
  ///     trainer.heads([&](std::int64_t step) {
  ///       nn::AttentionRecorder recorder(model);
  ///       recorder.step(step);
  ///       model(text);
  ///       return recorder.recording();
  ///     }, 100);
  Trainer& heads(std::function<AttentionRecording(std::int64_t step)> look, std::int64_t every);
  /// The number that a batch's loss is the mean of: of targets that aren't padding, say. By it the ranks' parts of a
  /// batch are counted, and the batches of a validation. If not given, the rows count.
  Trainer& weight(std::function<double(const data::Batch&)> count);
  /// To add parts and strings that are to be saved as well.
  Checkpoint& checkpoint() { return checkpoint_; }
  /// Adds a number to the metrics of the step that runs: from within the loss, the validation or after_step().
  void log(const std::string& name, double value) { row_[name] = value; }
  /// The numbers of all steps that were logged.
  const MetricsLog& metrics() const { return metrics_; }

  /// Where options.resume is set and out/last.safetensors is there: puts everything back as it was saved, the
  /// optimiser's options, too. What should differ, such as a smaller rate, is to be set between this and run(), which
  /// does it otherwise. Comes behind schedule() and what is added to the checkpoint. Returns the step to go on from.
  std::int64_t restore();

  /// Trains up to options.steps. Ctrl-C saves, says how to go on, and returns. An exception that leaves the loop saves
  /// the state after the last whole step, too, and goes on its way (among several ranks, where all throw it). Throws
  /// Error for patience without a validation, and if the folder holds a longer training that isn't to be resumed.
  TrainerResult run();

 private:
  void begin();
  void train(ProgressBar& bar, TrainerResult& result);
  double backward(const data::Batch& batch, std::int64_t done);
  double loss_before() const;
  Tensor loss_of(const data::Batch& batch) const;
  void step(double loss);
  void begin_ranks();
  double backward_ranks(const Tensor& loss, const data::Batch& batch, std::int64_t done);
  void agree(std::int64_t& tokens);
  double weight_of(const data::Batch& batch, const data::DataLoader& loader) const;
  double validation_loss(data::DataLoader& loader);
  bool interrupted() const { return parallel_ ? interrupted_ : InterruptGuard::interrupted(); }
  bool writes() const { return world_.rank() == 0 && !options_.out().empty(); }
  void validate();
  void look();
  void save(const char* name);
  void save_last();
  void save_after_error(ProgressBar& bar) noexcept;
  void check_folder();
  void tell_without_gradient(ProgressBar& bar, TrainerResult& result) const;
  std::string cause_in(const data::Batch& batch) const;
  bool late() const;
  bool due(std::int64_t every) const {
    return every > 0 && (checkpoint_.step % every == 0 || checkpoint_.step == options_.steps());
  }
  bool over() const;
  void finish(ProgressBar& bar, TrainerResult::End end);
  std::string path(const char* name) const { return options_.out() + '/' + name; }

  nn::Layer& model_;
  optim::Optimizer& optimizer_;
  data::DataLoader& loader_;
  std::function<Tensor(const data::Batch&)> loss_;
  TrainerOptions options_;
  std::function<void()> step_schedule_;
  std::function<void()> after_step_;
  std::function<double()> validate_;
  std::function<std::int64_t(const data::Batch&)> tokens_;
  std::function<AttentionRecording(std::int64_t)> look_;
  std::function<double(const data::Batch&)> weight_;
  std::int64_t validate_every_ = 0, look_every_ = 0;
  data::DataLoader* validation_loader_ = nullptr;
  dist::World& world_;
  std::unique_ptr<dist::DataParallel> parallel_;  // null in a process that is alone
  bool interrupted_ = false;                      // any of the ranks
  bool restored_ = false;
  bool last_is_ours_ = false;  // out/last.safetensors is of this training
  bool late_ = false;          // it is time to save
  std::chrono::steady_clock::time_point saved_;
  /// What goes on between two steps, as the last whole step has left it.
  struct Place {
    StateDict loader;
    std::uint64_t seed = 0, calls = 0;  // of the default generator
    bool whole = false;                 // no step has begun to change the model since
  } place_;
  void note_place();
  std::int64_t saved_step_ = -1;
  Checkpoint checkpoint_;
  MetricsLog metrics_;
  MetricsLog::Row row_;  // of the step that runs
  EarlyStopping early_;
  std::optional<plot::TrainingPage> page_;  // while it runs
  AttentionRecording seen_;
};

}  // namespace fit
