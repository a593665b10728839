#include "fit/nn/training/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "dist/agree.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/graph/graph.hpp"
#include "fit/nn/loss/loss.hpp"
#include "graph/node.hpp"
#include "optim/grad_norm.hpp"
#include "optim/named.hpp"
#include "tensor/check.hpp"
#include "training/evaluation.hpp"
#include "training/likely_cause.hpp"
#include "training/loss_parts.hpp"
#include "training/training_files.hpp"

namespace fit {

using data::Batch;
using End = TrainerResult::End;

namespace {

// The options, if they are in range; EarlyStopping checks its own.
TrainerOptions checked(TrainerOptions o) {
  check::not_negative("Trainer", "steps", o.steps());
  if (o.accumulate() < 1) check::fail("Trainer", "accumulate is ", o.accumulate(), ": it must be at least 1");
  if (o.log_every() < 1) check::fail("Trainer", "log_every is ", o.log_every(), ": it must be at least 1");
  check::not_negative("Trainer", "save_every", o.save_every());
  check::not_negative("Trainer", "save_minutes", o.save_minutes());
  check::not_negative("Trainer", "clip_norm", o.clip_norm());
  if (o.autocast() != float32 && o.autocast() != bfloat16)
    check::fail("Trainer", "autocast is ", o.autocast(), ": it must be bfloat16, or float32 for none");
  if (o.resume() && o.out().empty())
    check::fail("Trainer", "resume is set, but out is empty: name the folder of the training to resume");
  if (o.save_every() > 0 && o.out().empty())
    check::fail("Trainer", "save_every is ", o.save_every(), ", but out is empty: name the folder to save to");
  return o;
}

}  // namespace

Trainer::Trainer(nn::Layer& model, optim::Optimizer& optimizer, data::DataLoader& loader,
                 std::function<Tensor(const Batch&)> loss, TrainerOptions options)
    : model_(model),
      optimizer_(optimizer),
      loader_(loader),
      loss_(std::move(loss)),
      options_(checked(std::move(options))),
      tokens_([](const Batch& b) { return !b.empty() && b[0].dtype() == int64 ? b[0].numel() : 0; }),
      world_(dist::world()),
      early_(options_.patience(), options_.min_delta()) {
  if (!loss_) check::fail("Trainer", "loss is empty: it must make a batch's loss");
  if (loader_.size() == 0) check::fail("Trainer", "the loader has no batches: there is nothing to train on");
  checkpoint_.add("model", model_).add("optimizer", optimizer_).add("loader", loader_).add("early_stopping", early_);
  files_ = std::make_shared<detail::TrainingFiles>(model_, checkpoint_, options_, world_);
  add_validation_loader();
}

Trainer& Trainer::after_step(std::function<void()> f) {
  after_step_ = std::move(f);
  return *this;
}

Trainer& Trainer::tokens(std::function<std::int64_t(const Batch&)> count) {
  if (!count) check::fail("Trainer", "tokens is empty: it must count a batch's tokens");
  tokens_ = std::move(count);
  return *this;
}

Trainer& Trainer::weight(std::function<double(const Batch&)> count) {
  if (!count) check::fail("Trainer", "weight is empty: it must give the number that a batch's loss is the mean of");
  weight_ = std::move(count);
  return *this;
}

Trainer& Trainer::heads(std::function<AttentionRecording(std::int64_t)> look, std::int64_t every) {
  if (every < 1) check::fail("Trainer", "heads are every ", every, " steps: it must be at least 1");
  if (!look) check::fail("Trainer", "heads is empty: it must record what the model attends to");
  heads_.look = std::move(look);
  heads_.every = every;
  return *this;
}

Trainer& Trainer::listen(std::shared_ptr<TrainingListener> listener) {
  if (!listener) check::fail("Trainer", "the listener is null: it must be an object");
  listeners_.push_back(std::move(listener));
  return *this;
}

std::int64_t Trainer::restore() {
  files_->restore();
  return checkpoint_.step;
}

// What one run() counts.
struct Trainer::Run {
  ProgressBar bar;
  TrainerResult result;
  std::int64_t batches = 0, tokens = 0;  // of the current step
  std::int64_t tokens_since = 0;         // since the last row of the metrics
};

TrainerResult Trainer::run() {
  const InterruptGuard interrupt;
  const std::shared_ptr<void> folder = begin();
  Run run{ProgressBar(options_.steps(), checkpoint_.step, world_.rank() == 0 ? options_.display() : Display::none), {}};
  run.result.loss = loss_before();
  try {
    train(run);
  } catch (const dist::AgreedError&) {
    save_after_error(run.bar);
    throw;
  } catch (...) {
    files_->reset_buffers();
    if (world_.size() == 1) save_after_error(run.bar);  // saving needs all ranks
    throw;
  }
  files_->save_last();
  run.result.end = interrupted() ? End::interrupted : early_.stop() ? End::stopped_early : End::done;
  run.result.step = checkpoint_.step;
  run.result.best_validation = early_.best();
  finish(run);
  return run.result;
}

void Trainer::train(Run& run) {
  const std::int64_t first = checkpoint_.step + 1;
  constexpr int max_empty = 100;
  int empty = 0;               // the last epochs, without batches
  parallel_->discard_parts();  // of a run that an exception has ended
  if (lacks_validation()) make_up_validation(run.bar);
  while (run.batches > 0 || !over()) {  // a started step is completed, also across epochs
    if (empty == max_empty)
      dist::fail_alike("Trainer", "the loader gave no batch in ", max_empty, " epochs, in step ", checkpoint_.step + 1,
                       ": its sampler must give examples");
    ++empty;
    for (const Batch& batch : loader_) {
      empty = 0;
      if (run.batches == 0) zero_grad(), row_.clear();
      const double loss = backward(batch, ++run.batches);
      run.tokens += tokens_(batch);
      if (run.batches < options_.accumulate()) continue;
      agree(run.tokens);
      step(loss);
      if (checkpoint_.step == first) warn_without_gradient(run);
      report(run, loss);
      if (over()) break;
      if (save_due_ || due(options_.save_every() > 0 ? options_.save_every() : validation_.every)) files_->save_last();
    }
  }
}

// Tells of the step that has ended, after its validation.
void Trainer::report(Run& run, double loss) {
  run.bar.update(checkpoint_.step, loss, run.tokens);
  row_["rate"] = run.bar.rate();
  run.result.loss = loss;
  run.tokens_since += std::exchange(run.tokens, 0);
  run.batches = 0;
  if (validation_is_due()) validate(run.bar);
  if (heads_.look && due(heads_.every)) look();
  if (!row_is_due()) return;
  metrics_.add(row_);
  TrainingRow row = std::exchange(row_, {});
  row["tokens"] = static_cast<double>(std::exchange(run.tokens_since, 0));
  tell([&](TrainingListener& listener) { listener.on_step(row); });
}

bool Trainer::row_is_due() const {
  return row_.count("step") > 0 && (due(options_.log_every()) || validation_is_due());
}

// The last complete step may lack its row, if the error came in its validation.
void Trainer::save_after_error(ProgressBar& bar) noexcept try {
  files_->reset_buffers();
  files_->save_after_error(bar);
  if (row_is_due()) metrics_.add(std::exchange(row_, {}));
} catch (...) {  // run() rethrows the first error
}

void Trainer::warn_without_gradient(Run& run) const {
  constexpr std::size_t max_names = 5;
  std::string list;
  std::size_t count = 0;
  for (const auto& [name, p] : trained()) {
    if (p.has_grad() || optim::steps_in_backward(p)) continue;
    run.result.without_gradient.push_back(name);
    if (++count <= max_names) list += (count == 1 ? "" : ", ") + name;
  }
  if (count > max_names) list += " and " + std::to_string(count - max_names) + " more";
  if (count > 0) run.bar.print("Without a gradient in the first step, as the loss does not depend on them: " + list);
}

void Trainer::log(const std::string& name, double value) {
  for (const char* own : {"step", "loss", "lr", "grad_norm", "rate", "tokens", "validation"})
    if (name == own)
      check::fail("Trainer", "log() is given '", name, "', which the Trainer logs itself: choose another name");
  row_[name] = value;
}

// The trained parameters, with the model's names for those that it has.
StateDict Trainer::trained() const {
  std::unordered_map<const void*, std::string> names;
  for (const auto& [name, p] : model_.named_parameters()) names.emplace(p.impl(), name);
  StateDict all;
  for (const auto& [name, p] : optimizer_.named_parameters()) {
    if (!p.requires_grad()) continue;
    const auto found = names.find(p.impl());
    all.emplace_back(found == names.end() ? name : found->second, p);
  }
  return all;
}

// Clears also gradients of parameters that the optimiser does not have: they would grow for ever.
void Trainer::zero_grad() {
  model_.zero_grad();
  optimizer_.zero_grad();
}

// Whether a StepInBackward updates a parameter. Throws Error for options that need all gradients before a step.
bool Trainer::check_steps_in_backward() const {
  for (const auto& [name, p] : trained()) {
    if (!optim::steps_in_backward(p)) continue;
    const auto refuse = [name = name](const auto& what, const auto& value, const char* why, const char* cure) {
      check::fail("Trainer", what, " is ", value, ", but a StepInBackward updates the parameter ", name,
                  " in each backward(), ", why, ": set ", cure, ", or remove it");
    };
    constexpr const char* unsummed = "before the gradients are summed";
    if (options_.accumulate() > 1) refuse("accumulate", options_.accumulate(), unsummed, "accumulate to 1 on one rank");
    if (world_.size() > 1) refuse("the number of ranks", world_.size(), unsummed, "accumulate to 1 on one rank");
    if (options_.clip_norm() > 0)
      refuse("clip_norm", options_.clip_norm(), "before all gradients have a norm", "clip_norm to 0");
    return true;
  }
  return false;
}

// Starts a new training, or resumes the saved one. Returns the lock of its folder.
std::shared_ptr<void> Trainer::begin() {
  if (options_.patience() > 0 && !validation_.loss)
    check::fail("Trainer", "patience is ", options_.patience(),
                ", but there is no validation that could improve: give one by validation(), or set patience to 0");
  steps_in_backward_ = check_steps_in_backward();
  if (parallel_) loader_.load_state_dict(loader_.state_dict());  // run() again: not the next epoch, but the place
  interrupted_ = false;
  begin_ranks();
  std::shared_ptr<void> folder = files_->begin();
  if (files_->writes())
    metrics_ = MetricsLog(files_->path("metrics.jsonl"), checkpoint_.step > 0 ? checkpoint_.step : -1);
  TrainingStart start{options_.out(), options_.title(), options_.steps(), checkpoint_.step, metrics_.rows()};
  if (lacks_validation() && world_.rank() == 0) start.before.pop_back();  // on_step() follows
  tell([&](TrainingListener& listener) { listener.on_begin(start); });
  if (heads_.look) look();
  model_.train();
  return folder;
}

// The loss of the last step before this run; NaN if the metrics don't have it.
double Trainer::loss_before() const {
  double loss = std::numeric_limits<double>::quiet_NaN();
  for (const MetricsLog::Row& row : metrics_.rows()) {
    const auto step = row.find("step"), value = row.find("loss");
    if (step != row.end() && value != row.end() && step->second == static_cast<double>(checkpoint_.step))
      loss = value->second;
  }
  dist::broadcast(loss, world_);  // only rank 0 has the metrics
  return loss;
}

Tensor Trainer::loss_of(const Batch& batch, const data::DataLoader& loader) const {
  const Autocast precision(options_.autocast());
  const Tensor loss = nn::within(model_, [&] { return loss_(batch); });
  if (!loss.defined() || loss.numel() != 1)
    check::fail("Trainer", "the loss is ", loss.defined() ? "of shape " + loss.shape().str() : "undefined", " in step ",
                checkpoint_.step + 1, ": it must be one number");
  if (const auto* const node = loss.impl()->node; node && node->released)
    check::fail("Trainer", "the loss of step ", checkpoint_.step + 1,
                " has been through backward() already: the Trainer calls it. Return the loss alone");
  return weight_ && loader.rows().count > 0 ? nn::mean_over(loss, weight_(batch)) : loss;
}

// Adds the gradients of batch `number` of the step, from 1 on. Returns the loss of the step so far.
double Trainer::backward(const Batch& batch, std::int64_t number) {
  parallel_->rows(loader_.rows().of);
  const Tensor loss = loss_of(batch, loader_);
  const double value = loss.item();
  if (!std::isfinite(value) && LossParts().add("Trainer", loss, 1) != 0)
    check::fail("Trainer", "the loss is ", value, " in step ", checkpoint_.step + 1, ": ",
                likely_cause(batch, loader_, model_), "; the model is as the step before has left it");
  if (steps_in_backward_) {  // the step begins here
    if (schedule_.check) schedule_.check();
    files_->begin_change();
  }
  std::optional<dist::DataParallel::NoSync> quiet;
  if (number < options_.accumulate()) quiet.emplace(*parallel_);
  return parallel_->backward(loss);
}

void Trainer::step(double loss) {
  if (const std::string name = optimizer_.nonfinite_gradient(); !name.empty())
    dist::fail_alike("Trainer", "the gradient of ", name, " is not finite in step ", checkpoint_.step + 1,
                     ", whose loss is ", loss, ": the model is as the step before has left it");
  row_["loss"] = loss;
  row_["lr"] = optimizer_.lr();
  // Without clipping, the norm is computed only for logged steps. It is unknown if a StepInBackward has freed
  // gradients.
  const std::int64_t next = checkpoint_.step + 1;
  const std::vector<Tensor> parameters = optimizer_.trained();
  const bool known = std::none_of(parameters.begin(), parameters.end(), optim::steps_in_backward);
  if (options_.clip_norm() > 0)
    row_["grad_norm"] = optim::clip_grad_norm_(parameters, options_.clip_norm());
  else if (known && (next % options_.log_every() == 0 || next == options_.steps()))
    row_["grad_norm"] = optim::grad_norm(parameters);
  if (options_.histograms_every() > 0 && next % options_.histograms_every() == 0)
    tell([&](TrainingListener& listener) { listener.on_gradients(next, trained()); });
  if (schedule_.check) schedule_.check();
  files_->begin_change();
  optimizer_.step();
  if (schedule_.step) schedule_.step();
  row_["step"] = static_cast<double>(++checkpoint_.step);
  if (after_step_) after_step_();
  files_->end_change();
}

void Trainer::look() {
  if (listeners_.empty() || world_.rank() > 0) return;
  constexpr std::size_t max_bytes = std::size_t{64} << 20;
  const NoGrad no_grad;
  {
    const Evaluation evaluation(model_);
    heads_.all.append(heads_.look(checkpoint_.step));
  }
  while (heads_.all.bytes() > max_bytes && heads_.every <= options_.steps()) heads_.all.keep_every(heads_.every *= 2);
  heads_.all.title = options_.title();
  tell([&](TrainingListener& listener) { listener.on_recording(checkpoint_.step, heads_.all); });
}

bool Trainer::over() const { return checkpoint_.step >= options_.steps() || early_.stop() || interrupted(); }

void Trainer::finish(Run& run) {
  run.bar.finish();
  if (run.result.end == End::interrupted)
    run.bar.print("Stopped in step " + std::to_string(checkpoint_.step) +
                  (options_.out().empty() ? "; nothing is saved, as no folder was given"
                                          : "; saved in " + files_->path("last.safetensors") +
                                                ": to go on, run it again with resume set and the same folder"));
  tell([&](TrainingListener& listener) { listener.on_end(run.result); });
}

}  // namespace fit
