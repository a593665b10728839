#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/attention/attention_recording.hpp"
#include "fit/nn/data/data.hpp"
#include "fit/nn/dist/dist.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/nn/training/checkpoint.hpp"
#include "fit/nn/training/data_parallel.hpp"
#include "fit/nn/training/early_stopping.hpp"
#include "fit/nn/training/interrupt.hpp"
#include "fit/nn/training/metrics_log.hpp"
#include "fit/nn/training/progress_bar.hpp"
#include "fit/nn/training/training_listener.hpp"
#include "fit/tensor/state_dict.hpp"

namespace fit::detail {
class TrainingFiles;
}
namespace fit::optim {
class Schedule;
}

/// A training loop. A custom loop can use its components, too: ProgressBar, MetricsLog, EarlyStopping, Checkpoint.
///
///     const auto loss = [&](const data::Batch& b) { return nn::cross_entropy(model(b[0]), b[1]); };
///     Trainer trainer(model, optimizer, loader, loss, TrainerOptions().steps(2000).out("out/names"));
///     trainer.schedule(schedule).validation([&] { return validation_loss(model); }, 200);
///     trainer.listen(plot::training_page());  // fit/training_page.hpp
///     trainer.run();
namespace fit {

/// The options of a Trainer.
struct TrainerOptions {
  FIT_OPTION(std::int64_t, steps) = 1000;  ///< The total number of steps of the training.
  /// The folder for last.safetensors, previous.safetensors (the last.safetensors before), best.safetensors and
  /// metrics.jsonl. Empty: no files, and resume and save_every are errors. At the first save, the checkpoints of
  /// another training become earlier.safetensors and earlier_best.safetensors. If that training has more steps than
  /// this one, an Error is thrown. So is one if another training that runs, in any process, writes to the folder.
  FIT_OPTION(std::string, out);
  FIT_OPTION(std::string, title) = "Training";  ///< The title that listeners show.
  FIT_OPTION(bool, resume) = false;             ///< Resumes from out/last.safetensors, if it exists.
  /// The batches per step. A step minimises the loss of all their items together, as if they were one batch: see
  /// Trainer.
  FIT_OPTION(std::int64_t, accumulate) = 1;
  FIT_OPTION(std::int64_t, log_every) = 1;         ///< The steps between two lines of metrics.
  FIT_OPTION(std::int64_t, save_every) = 0;        ///< Steps between two last.safetensors; 0: after each validation.
  FIT_OPTION(double, save_minutes) = 5;            ///< Also saves this many minutes after the last save; 0: never.
  FIT_OPTION(std::int64_t, histograms_every) = 0;  ///< Steps between two calls of on_gradients(); 0: none.
  FIT_OPTION(double, clip_norm) = 0;               ///< The max joint norm of the gradients; 0: no clipping.
  /// bfloat16: losses and validations are computed under Autocast (fit/graph/autocast.hpp).
  FIT_OPTION(DType, autocast) = float32;
  /// Ends the training after so many validations without progress; 0: never. Other values need a validation.
  FIT_OPTION(int, patience) = 0;
  FIT_OPTION(double, min_delta) = 0;                  ///< The min decrease that counts as progress.
  FIT_OPTION(Display, display) = Display::automatic;  ///< How progress is shown.
  /// How several ranks exchange gradients.
  FIT_OPTION(dist::DataParallelOptions, parallel);
  /// Whether several ranks shard the optimiser's averages (Optimizer::shard()).
  FIT_OPTION(bool, shard_optimizer) = false;
};

/// How a training ended.
struct TrainerResult {
  enum class End { done, stopped_early, interrupted };
  End end = End::done;
  std::int64_t step = 0;
  /// The loss of the last step. If a previous run took it, it comes from metrics.jsonl, or is NaN if not known.
  double loss = std::numeric_limits<double>::quiet_NaN();
  double best_validation = std::numeric_limits<double>::infinity();  ///< infinity if there was none
  /// The trained parameters without a gradient in the first step. The loss does not depend on them. They are also
  /// printed once.
  std::vector<std::string> without_gradient = {};
};

/// Runs for each batch: loss and backward(), clipping, optimizer.step(), schedule.step(). All arguments must outlive
/// the Trainer.
///
/// One set of parameters is trained: those of the optimiser that are not frozen. They are checked, summed over the
/// ranks, measured, clipped and logged. Other parameters of the model have no effect on a step, whatever their
/// gradients are. Each step begins without any gradient, also without theirs.
///
/// A step may have several parts: the batches of accumulate(), and the ranks. Its loss is that of all items together,
/// sum of w L / sum of w, where a part's loss L is a mean over w items. The functions of fit/nn/loss/loss.hpp say w of
/// their results; weight() or nn::mean_over() says it of a loss of your own, which otherwise counts by rows. Losses
/// that are sums are added. A step in which nothing counts has loss 0. dist::DataParallel::backward() has the details.
///
/// With several ranks (dist::world() at construction), each rank runs the same program with the same seed. Each rank
/// computes its rows of the loader's batches. The steps are those of one process. Only rank 0 writes files and shows
/// progress. Ctrl-C on any rank ends all ranks after the same step.
class Trainer {
 public:
  /// `loss` returns a batch's loss, one number. If a loss or gradient is not finite, throws Error before the
  /// parameters or the optimiser change; buffers are set back. The Error names the step, and the parameter, or the
  /// field and row of the batch with NaN. A model is never saved with a parameter that is not finite, or with NaN in a
  /// buffer. Throws Error for options out of range. The gradients of a StepInBackward are not checked.
  Trainer(nn::Layer& model, optim::Optimizer& optimizer, data::DataLoader& loader,
          std::function<Tensor(const data::Batch&)> loss, TrainerOptions options = {});

  /// Sets the schedule. It is stepped after each step of the optimiser, and saved. An optim::Schedule throws its Error
  /// before the optimiser's step: the model is then as the step before has left it.
  template <class Schedule>
  Trainer& schedule(Schedule& schedule) {
    checkpoint_.add("schedule", schedule);
    schedule_ = {[&schedule] { schedule.step(); }, nullptr};
    if constexpr (std::is_base_of_v<optim::Schedule, Schedule>)
      schedule_.check = [&schedule] { schedule.check_step(); };
    return *this;
  }
  /// `validate` returns a number that should fall. It is called every `every` steps and after the last step, under
  /// NoGrad and with the model in evaluation; each layer then gets its mode back. best.safetensors keeps the best
  /// state. Every rank calls it, and the number of rank 0 counts.
  Trainer& validation(std::function<double()> validate, std::int64_t every);
  /// The same with the loss over all items of a loader, joined from its batches as the parts of a step are. NaN if
  /// nothing counts. The ranks share the batches. The loader's epoch is saved: its order is that of a training without
  /// a stop.
  Trainer& validation(data::DataLoader& loader, std::int64_t every);
  /// Calls f after each step, before its validation, for example to update an average of the weights.
  Trainer& after_step(std::function<void()> f);
  /// Counts the tokens of a batch, for the rate. The default is the number of elements of an int64 first field, else 0.
  Trainer& tokens(std::function<std::int64_t(const data::Batch&)> count);
  /// Tells `listener` what happens, such as plot::training_page(), which shows it on a live page.
  Trainer& listen(std::shared_ptr<TrainingListener> listener);
  /// Gives the recordings of `look(step)` to the listeners: the training page animates the heads. It is called before
  /// the first step, every `every` steps and after the last step, under NoGrad and with the model in evaluation, if
  /// there is a listener. When the recordings exceed 64 MB, every other step is deleted and `every` is doubled.
  ///
  ///     trainer.heads([&](std::int64_t step) {
  ///       nn::AttentionRecorder recorder(model);
  ///       recorder.step(step);
  ///       model(text);
  ///       return recorder.recording();
  ///     }, 100);
  Trainer& heads(std::function<AttentionRecording(std::int64_t step)> look, std::int64_t every);
  /// Says that a batch's loss is a mean over count(batch) items, as nn::mean_over() does, for a loss of your own. It
  /// replaces what a function of fit/nn/loss/loss.hpp says of its result. A loss that says nothing is a mean over rows.
  Trainer& weight(std::function<double(const data::Batch&)> count);
  /// The checkpoint, to add parts and strings.
  Checkpoint& checkpoint() { return checkpoint_; }
  /// Adds a number to the metrics of the current step. Call it in the loss, the validation or after_step(). Throws
  /// Error for the names of what the Trainer logs: step, loss, lr, grad_norm, rate, tokens, validation.
  void log(const std::string& name, double value);
  /// The logged numbers of all steps.
  const MetricsLog& metrics() const { return metrics_; }

  /// If options.resume is set and out/last.safetensors exists, loads the saved state, also the optimiser's options.
  /// Call it after schedule() and additions to the checkpoint. To change an option, such as the rate, set it between
  /// restore() and run(). Otherwise run() calls restore(). Returns the step to resume from.
  std::int64_t restore();

  /// Puts the model and all its sublayers in training, and trains up to options.steps. To keep a sublayer in
  /// evaluation, call its eval() in the loss. Ctrl-C saves, prints how to resume, and returns. An exception in the loop
  /// saves the state after the last complete step, and leaves run(); with several ranks, only if all throw it. After
  /// one in a validation, the resumed training begins with it. After one in after_step(), which may have changed a part
  /// of what it changes, the file of the last save stays. Calling run() again goes on in the same way. Throws Error for
  /// patience without a validation, if the folder holds a longer training and resume is not set, and if another
  /// training that runs writes to the folder: it names the process.
  TrainerResult run();

 private:
  struct Run;
  std::shared_ptr<void> begin();
  bool check_steps_in_backward() const;
  void train(Run& run);
  void report(Run& run, double loss);
  double backward(const data::Batch& batch, std::int64_t number);
  double loss_before() const;
  Tensor loss_of(const data::Batch& batch, const data::DataLoader& loader) const;
  StateDict trained() const;
  void zero_grad();
  void step(double loss);
  void begin_ranks();
  void agree(std::int64_t& tokens);
  double validation_loss(data::DataLoader& loader);
  void add_validation_loader();
  bool interrupted() const { return world_.size() > 1 ? interrupted_ : InterruptGuard::interrupted(); }
  bool row_is_due() const;
  void save_after_error(ProgressBar& bar) noexcept;
  bool lacks_validation() const;
  void make_up_validation(ProgressBar& bar);
  void validate(ProgressBar& bar);
  void measure();
  void tell_validation(ProgressBar& bar, double value) const;
  void look();
  template <class F>
  void tell(const F& f) const {
    if (world_.rank() == 0)
      for (const auto& listener : listeners_) f(*listener);
  }
  void warn_without_gradient(Run& run) const;
  bool due(std::int64_t every) const {
    return every > 0 && (checkpoint_.step % every == 0 || checkpoint_.step == options_.steps());
  }
  bool validation_is_due() const { return validation_.loss && due(validation_.every); }
  bool over() const;
  void finish(Run& run);

  nn::Layer& model_;
  optim::Optimizer& optimizer_;
  data::DataLoader& loader_;
  std::function<Tensor(const data::Batch&)> loss_;
  TrainerOptions options_;
  struct {
    std::function<void()> step, check;
  } schedule_;
  std::function<void()> after_step_;
  std::function<std::int64_t(const data::Batch&)> tokens_;
  std::function<double(const data::Batch&)> weight_;
  struct {
    std::function<double()> loss;  // empty: none
    std::int64_t every = 0;
    data::DataLoader* loader = nullptr;
  } validation_;
  StateDict validation_place_;  // that was loaded before there was a loader
  struct {
    std::function<AttentionRecording(std::int64_t)> look;  // empty: none
    std::int64_t every = 0;
    AttentionRecording all;
  } heads_;
  dist::World& world_;
  std::unique_ptr<dist::DataParallel> parallel_;  // null before run()
  bool interrupted_ = false;                      // any of the ranks
  bool steps_in_backward_ = false;                // a StepInBackward updates parameters
  bool save_due_ = false;                         // rank 0 asks for it
  Checkpoint checkpoint_;
  std::shared_ptr<detail::TrainingFiles> files_;
  MetricsLog metrics_;
  MetricsLog::Row row_;  // of the current step
  EarlyStopping early_;
  std::vector<std::shared_ptr<TrainingListener>> listeners_;
};

}  // namespace fit
