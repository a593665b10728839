#include "fit/nn/training/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <iostream>
#include <sstream>
#include <utility>

#include "nn/models/trained.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/text.hpp"

// The training loop.
namespace fit::test::trainer_test {
namespace {

using Catch::Matchers::Contains;
using End = TrainerResult::End;

std::vector<double> column(const MetricsLog& log, const std::string& name) {
  std::vector<double> values;
  for (const MetricsLog::Row& row : log.rows())
    if (row.count(name)) values.push_back(row.at(name));
  return values;
}

// What a listener is told.
struct Listening final : TrainingListener {
  void on_begin(const TrainingStart& s) override { starts.push_back(s); }
  void on_gradients(std::int64_t step, const StateDict& parameters) override {
    gradients.push_back(step);
    for (const auto& [name, p] : parameters) CHECK(p.has_grad());
  }
  void on_step(const TrainingRow& row) override { rows.push_back(row); }
  void on_evaluation(std::int64_t step, double value) override { evaluations.emplace_back(step, value); }
  void on_recording(std::int64_t step, const AttentionRecording& r) override {
    recordings.emplace_back(step, r.records().size());
    title = r.title;
  }
  void on_end(const TrainerResult& result) override { ends.push_back(result); }

  std::vector<TrainingStart> starts;
  std::vector<std::int64_t> gradients;
  std::vector<TrainingRow> rows;
  std::vector<std::pair<std::int64_t, double>> evaluations;
  std::vector<std::pair<std::int64_t, std::size_t>> recordings;
  std::string title;
  std::vector<TrainerResult> ends;
};

int lines_of(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

}  // namespace

TEST_CASE("trainer: it does what a loop by hand does, bit by bit", "[trainer]") {
  SmallTraining by_hand;
  const std::vector<double> losses = by_hand.run(17);
  Trained t(quiet(17));
  const TrainerResult result = t.trainer.run();
  CHECK(result.end == End::done);
  CHECK(result.step == 17);
  CHECK(result.loss == losses.back());
  CHECK(column(t.trainer.metrics(), "loss") == losses);
  CHECK(same_state(t.model->state_dict(), by_hand.model->state_dict()));
}

TEST_CASE("trainer: a step of several batches is that of all their items, also across epochs", "[trainer]") {
  const Directory d;
  SmallTraining by_hand;
  std::vector<double> losses;
  int batches = 0;
  double items = 0;
  while (losses.size() < 6)
    for (const data::Batch& b : by_hand.loader) {  // 7 in an epoch, the last one smaller
      if (batches % 3 == 0) by_hand.optimizer->zero_grad(), losses.push_back(0), items = 0;
      const Tensor loss = by_hand.loss(b);
      const double count = nn::loss_count(loss);
      loss.backward(full_like(loss, count));
      losses.back() += loss.item() * count;
      items += count;
      if (++batches % 3 != 0) continue;
      losses.back() /= items;
      for (const Tensor& p : by_hand.model->parameters()) p.grad().div_(items);
      by_hand.optimizer->step();
      by_hand.schedule->step();
      if (losses.size() == 6) break;
    }
  TrainerOptions options = quiet(4, d.path.string());
  options.accumulate(3);
  Trained first(options);
  CHECK(first.trainer.run().step == 4);
  options.resume(true).steps(6);
  Trained second(options);
  CHECK(second.trainer.run().loss == losses.back());
  CHECK(column(second.trainer.metrics(), "loss") == losses);
  CHECK(same_state(second.model->state_dict(), by_hand.model->state_dict()));
}

TEST_CASE("trainer: what goes along with each step, and numbers of one's own", "[trainer]") {
  Trained t(quiet(6));
  std::vector<std::int64_t> called;
  t.trainer
      .after_step([&] {
        called.push_back(t.trainer.checkpoint().step);
        t.trainer.log("twice", 2. * static_cast<double>(called.back()));
      })
      .validation(
          [&] {
            t.trainer.log("accuracy", 0.5);
            return static_cast<double>(called.size());
          },
          3);
  t.trainer.run();
  CHECK(called == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
  CHECK(column(t.trainer.metrics(), "twice") == std::vector<double>{2, 4, 6, 8, 10, 12});
  CHECK(column(t.trainer.metrics(), "accuracy").size() == 2);
  CHECK(column(t.trainer.metrics(), "validation") == std::vector<double>{3, 6});
}

TEST_CASE("trainer: Ctrl-C saves, and the resumed training is the uninterrupted one", "[trainer]") {
  const Directory d;
  Trained whole(quiet(20));
  whole.trainer.run();

  const std::string out = d.file("deep/out");
  Trained first(quiet(20, out), [](int step) {
    if (step == 9) std::raise(SIGINT);
  });
  const TrainerResult stopped = first.trainer.run();
  CHECK(stopped.end == End::interrupted);
  CHECK(stopped.step == 9);  // the step that ran is finished
  CHECK(checkpoint_info(out + "/last.safetensors").step == 9);
  // What a crash would leave: lines of steps that are taken again, and half of one.
  std::ofstream(out + "/metrics.jsonl", std::ios::app) << "{\"loss\":1,\"step\":10}\n{\"loss\":1,\"st";

  TrainerOptions options = quiet(20, out);
  options.resume(true);
  Trained second(options);
  CHECK(second.trainer.run().end == End::done);
  CHECK(same_state(second.model->state_dict(), whole.model->state_dict()));
  CHECK(column(second.trainer.metrics(), "loss") == column(whole.trainer.metrics(), "loss"));
  CHECK(lines_of(get(out + "/metrics.jsonl")) == 20);

  const double last = column(whole.trainer.metrics(), "loss").back();
  const TrainerResult nothing_left = second.trainer.run();
  CHECK(nothing_left.step == 20);
  CHECK(nothing_left.loss == last);
  Trained again(options);
  CHECK(again.trainer.run().loss == last);
  Trained third(quiet(3, d.file("other")));
  third.trainer.run();
  third.trainer.run();
  CHECK(lines_of(get(d.file("other") + "/metrics.jsonl")) == 3);  // what has been trained is not forgotten
}

TEST_CASE("trainer: run() goes on where it was ended, also within an epoch", "[trainer]") {
  Trained whole(quiet(20));
  whole.trainer.run();
  for (const bool in_folder : {false, true})
    for (const bool throws : {false, true}) {
      const Directory d;
      int calls = 0;
      Trained t(quiet(20, in_folder ? d.path.string() : ""), [&](int step) {
        if (step == 9 && ++calls == 1) {
          if (throws) throw Error("once");
          std::raise(SIGINT);
        }
      });
      if (throws)
        CHECK_THROWS_WITH(t.trainer.run(), "once");
      else
        CHECK(t.trainer.run().end == End::interrupted);
      CHECK(t.trainer.run().step == 20);
      CHECK(same_state(t.model->state_dict(), whole.model->state_dict()));
      CHECK(column(t.trainer.metrics(), "loss") == column(whole.trainer.metrics(), "loss"));
    }
}

TEST_CASE("trainer: Ctrl-C between the batches of a step, at the end of an epoch: the step is finished", "[trainer]") {
  const Directory d;
  TrainerOptions options = quiet(6);
  options.accumulate(2);  // of 7 in an epoch: the fourth step begins in one and ends in the next
  Trained whole(options);
  whole.trainer.run();
  options.out(d.path.string());
  bool raised = false;
  Trained first(options, [&](int step) {
    if (step == 4 && !std::exchange(raised, true)) std::raise(SIGINT);
  });
  CHECK(first.trainer.run().step == 4);
  options.resume(true);
  Trained second(options);
  second.trainer.run();
  CHECK(same_state(second.model->state_dict(), whole.model->state_dict()));
  CHECK(column(second.trainer.metrics(), "loss") == column(whole.trainer.metrics(), "loss"));
}

TEST_CASE("trainer: Ctrl-C says on stderr where it has saved and how to go on", "[trainer]") {
  const Directory d;
  for (const std::string& out : {d.path.string(), std::string()}) {
    TrainerOptions options = quiet(20, out);
    options.display(Display::lines);
    Trained t(options, [](int step) {
      if (step == 3) std::raise(SIGINT);
    });
    std::ostringstream told;
    std::streambuf* const before = std::cerr.rdbuf(told.rdbuf());
    t.trainer.run();
    std::cerr.rdbuf(before);
    CHECK_THAT(told.str(), Contains("Stopped in step 3"));
    if (out.empty())
      CHECK_THAT(told.str(), Contains("nothing is saved, as no folder was given"));
    else
      CHECK_THAT(told.str(),
                 Contains("saved in " + d.file("last.safetensors") + ": to go on, run it again with resume"));
  }
}

TEST_CASE("trainer: options can be changed between restore() and run(), as by hand", "[trainer]") {
  const Directory d;
  TrainerOptions options = quiet(4, d.path.string());
  Trained first(options);
  CHECK(first.trainer.restore() == 0);
  first.trainer.run();

  SmallTraining by_hand(5);
  EarlyStopping early;
  Checkpoint c;
  c.add("model", *by_hand.model).add("optimizer", *by_hand.optimizer).add("loader", by_hand.loader);
  c.add("early_stopping", early).add("schedule", *by_hand.schedule).load(d.file("last.safetensors"));
  by_hand.optimizer->options().weight_decay(0.5);
  by_hand.optimizer->set_lr(0.02);
  const std::vector<double> losses = by_hand.run(9, static_cast<int>(c.step));

  options.resume(true).steps(9);
  Trained second(options);
  CHECK(second.trainer.restore() == 4);
  CHECK(same_state(second.model->state_dict(), first.model->state_dict()));
  CHECK(second.optimizer->lr() == first.optimizer->lr());
  second.optimizer->options().weight_decay(0.5);
  second.optimizer->set_lr(0.02);
  second.trainer.run();
  const std::vector<double> all = column(second.trainer.metrics(), "loss"),
                            rates = column(second.trainer.metrics(), "lr");
  CHECK(std::vector<double>(all.begin() + 4, all.end()) == losses);
  CHECK(rates.at(4) == 0.02);
  CHECK(same_state(second.model->state_dict(), by_hand.model->state_dict()));
}

TEST_CASE("trainer: validation keeps the best and ends what no longer improves", "[trainer]") {
  const Directory d;
  TrainerOptions options = quiet(100, d.path.string());
  options.patience(2).log_every(1000);
  Trained t(options);
  std::vector<double> values = {3, 1, 2, 1.5, 0.5};
  std::size_t at = 0;
  bool training = true, recording = true;
  t.trainer.validation(
      [&] {
        training = t.model->training();
        recording = grad_enabled();
        return values.at(at++);
      },
      4);
  const TrainerResult result = t.trainer.run();
  CHECK(result.end == End::stopped_early);
  CHECK(result.step == 16);
  CHECK(result.best_validation == 1);
  CHECK_FALSE(training);
  CHECK_FALSE(recording);
  CHECK(t.model->training());
  CHECK(checkpoint_info(d.file("best.safetensors")).step == 8);
  CHECK(checkpoint_info(d.file("last.safetensors")).step == 16);
  CHECK(column(t.trainer.metrics(), "validation") == std::vector<double>{3, 1, 2, 1.5});

  options.resume(true);  // a training that has ended stays so
  Trained again(options);
  again.trainer.validation([] { return 0.; }, 4);
  CHECK(again.trainer.run().end == End::stopped_early);
}

TEST_CASE("trainer: reduction on a plateau goes with the validation, and on from its state", "[trainer]") {
  const Directory d;
  const auto rates = [](int steps, const std::string& out) {
    SmallTraining t;
    optim::ReduceLROnPlateau plateau(*t.optimizer, optim::PlateauOptions().patience(1));
    TrainerOptions options = quiet(steps, out);
    options.resume(!out.empty());
    Trainer trainer(
        *t.model, *t.optimizer, t.loader, [&](const data::Batch& b) { return t.loss(b); }, options);
    trainer.checkpoint().add("plateau", plateau);
    trainer.validation(
        [&] {
          plateau.step(1);
          return 1;
        },
        2);
    trainer.run();
    return column(trainer.metrics(), "lr");
  };
  const std::vector<double> whole = rates(14, "");
  CHECK(whole.front() > 50 * whole.back());
  rates(4, d.path.string());
  CHECK(rates(14, d.path.string()) == whole);
}

TEST_CASE("trainer: the norm of the gradients is told without clipping, too", "[trainer]") {
  Trained t(quiet(3));
  t.trainer.run();
  double squares = 0;
  for (const Tensor& p : t.model->parameters()) squares += sum(p.grad() * p.grad()).item();
  REQUIRE(column(t.trainer.metrics(), "grad_norm").size() == 3);
  CHECK(column(t.trainer.metrics(), "grad_norm").back() == Approx(std::sqrt(squares)));
  TrainerOptions seldom = quiet(7);
  seldom.log_every(3);
  Trained s(seldom);
  s.trainer.run();
  CHECK(column(s.trainer.metrics(), "grad_norm").size() == 3);  // of steps 3, 6 and 7
}

TEST_CASE("trainer: histograms, tokens of one's own, and many parameters without a gradient", "[trainer]") {
  Trained t(quiet(4).histograms_every(3));
  t.trainer.tokens([](const data::Batch&) { return 7; });
  const auto listener = std::make_shared<Listening>();
  t.trainer.listen(listener).run();
  CHECK(listener->gradients == std::vector<std::int64_t>{3});
  for (const TrainingRow& row : listener->rows) CHECK(row.at("tokens") == 7);
  struct Idle final : nn::UnaryLayer {
    Tensor forward(const Tensor& x) const override { return used(x); }
    FIT_FIELDS_ONLY(used, idle)
    nn::Linear used{2, 1};
    nn::Sequential idle{nn::Linear(2, 1), nn::Linear(2, 1), nn::Linear(2, 1)};
  } model;
  optim::SGD sgd(model.named_parameters(), 0.1);
  data::DataLoader loader(data::TensorDataset({ones({4, 2})}), data::LoaderOptions().batch_size(2));
  std::ostringstream said;
  std::streambuf* const before = std::cerr.rdbuf(said.rdbuf());
  Trainer trainer(
      model, sgd, loader, [&](const data::Batch& b) { return sum(model(b[0])); },
      TrainerOptions().steps(1).display(Display::lines));
  const TrainerResult result = trainer.run();
  std::cerr.rdbuf(before);
  CHECK(result.without_gradient.size() == 6);
  CHECK_THAT(said.str(), Contains("idle.0.weight, idle.0.bias, idle.1.weight, idle.1.bias, idle.2.weight and 1 more"));
}

TEST_CASE("trainer: listeners are told of each step, validation and recording, and how the run ends", "[trainer]") {
  const Directory d;
  std::vector<std::int64_t> looked;
  const auto look = recorded_at(looked);
  TrainerOptions options = quiet(10, d.path.string());
  options.title("Followed").log_every(2);
  const auto first = std::make_shared<Listening>(), second = std::make_shared<Listening>();
  Trained t(options);
  t.trainer.heads(look, 4).validation([&] { return 1.5; }, 5).listen(first).listen(second);
  const TrainerResult result = t.trainer.run();
  CHECK(looked == std::vector<std::int64_t>{0, 4, 8, 10});
  for (const auto& told : {first, second}) {
    REQUIRE(told->starts.size() == 1);
    CHECK(told->starts[0].out == d.path.string());
    CHECK(told->starts[0].title == "Followed");
    CHECK(told->starts[0].steps == 10);
    CHECK(told->starts[0].before.empty());
    CHECK(told->evaluations == std::vector<std::pair<std::int64_t, double>>{{5, 1.5}, {10, 1.5}});
    CHECK(told->recordings == std::vector<std::pair<std::int64_t, std::size_t>>{{0, 1}, {4, 2}, {8, 3}, {10, 4}});
    CHECK(told->title == "Followed");
    REQUIRE(told->rows.size() == t.trainer.metrics().rows().size());  // of steps 2, 4, 5, 6, 8 and 10
    CHECK(told->rows.size() == 6);
    for (std::size_t i = 0; i < told->rows.size(); ++i) {
      TrainingRow row = told->rows[i];
      row.erase("tokens");
      CHECK(row == t.trainer.metrics().rows()[i]);
    }
    CHECK(told->gradients.empty());
    REQUIRE(told->ends.size() == 1);
    CHECK(told->ends[0].end == End::done);
    CHECK(told->ends[0].step == 10);
    CHECK(told->ends[0].loss == result.loss);
  }

  options.resume(true).steps(12);
  const auto after = std::make_shared<Listening>();
  Trained on(options);
  on.trainer.listen(after).run();
  CHECK(after->starts.at(0).before.size() == 6);
  CHECK(after->starts.at(0).before.back().at("step") == 10);
  CHECK(after->rows.size() == 1);

  Trained stopped(quiet(9), [](int step) {
    if (step == 3) std::raise(SIGINT);
  });
  const auto until = std::make_shared<Listening>();
  stopped.trainer.listen(until).run();
  CHECK(until->starts.at(0).out.empty());
  CHECK(until->rows.size() == 3);
  CHECK(until->ends.at(0).end == End::interrupted);

  looked.clear();
  Trained alone(quiet(4));
  alone.trainer.heads(look, 2).run();
  CHECK(looked.empty());  // nobody is told
  CHECK_THROWS_WITH(alone.trainer.listen(nullptr), Contains("[Trainer] the listener is null"));
  CHECK_THROWS_WITH(t.trainer.heads(look, 0), Contains("heads are every 0 steps"));
  CHECK_THROWS_WITH(t.trainer.heads({}, 1), Contains("heads is empty"));
}

TEST_CASE("trainer: gradients are clipped, a loss that is not finite ends it", "[trainer]") {
  TrainerOptions options = quiet(5);
  options.clip_norm(1e-3);
  Trained clipped(options);
  clipped.trainer.run();
  CHECK(column(clipped.trainer.metrics(), "grad_norm").size() == 5);
  double squares = 0;
  for (const Tensor& p : clipped.model->parameters()) squares += sum(p.grad() * p.grad()).item();
  CHECK(std::sqrt(squares) == Approx(1e-3).epsilon(1e-3));

  SmallTraining t;
  Trainer bad(
      *t.model, *t.optimizer, t.loader, [&](const data::Batch& b) { return t.loss(b) * NAN; }, quiet(5));
  const auto before = copied(*t.model);
  CHECK_THROWS_AS(bad.run(), Error);
  CHECK_THROWS_WITH(bad.run(), Contains("the loss is") && Contains("nan in step 1"));
  CHECK(same_state(t.model->state_dict(), before));
}

TEST_CASE("trainer: a gradient that is not finite is refused before the step", "[trainer]") {
  for (const double clip_norm : {0., 1.}) {
    const Directory d;
    TrainerOptions options = quiet(6, d.path.string());
    options.save_every(1).clip_norm(clip_norm);
    SmallTraining by_hand, t;
    manual_seed(1);
    if (clip_norm == 0) by_hand.run(3);
    manual_seed(1);
    std::int64_t step = 1;
    const auto loss = [&](const data::Batch& b) {
      const Tensor value = t.loss(b);
      return step == 4 ? value + sqrt(sum(t.model->out.bias * 0)) : value;  // + 0, whose gradient is NaN
    };
    Trainer trainer(*t.model, *t.optimizer, t.loader, loss, options);
    trainer.schedule(*t.schedule).after_step([&] { ++step; });
    CHECK_THROWS_WITH(trainer.run(), Contains("the gradient of out.bias is not finite in step 4"));
    if (clip_norm == 0) CHECK(same_state(t.model->state_dict(), by_hand.model->state_dict()));
    if (clip_norm == 0) CHECK(same_state(t.optimizer->state_dict(), by_hand.optimizer->state_dict()));
    CHECK(checkpoint_info(d.file("last.safetensors")).step == 3);
    SmallModel saved;
    load_from_checkpoint(d.file("last.safetensors"), saved);
    CHECK(same_state(saved.state_dict(), t.model->state_dict()));
    step = -100;  // what follows is an ordinary training
    CHECK(trainer.run().step == 6);
  }
}

TEST_CASE("trainer: a model that is not finite is not saved over one that is", "[trainer]") {
  const Directory d;
  TrainerOptions options = quiet(6, d.path.string());
  options.save_every(1);
  Trained t(options);
  t.trainer.after_step([&] {
    const NoGrad no_grad;
    if (t.trainer.checkpoint().step == 3) t.model->out.weight[{2, 1}] = INFINITY;
  });
  CHECK_THROWS_WITH(t.trainer.run(), Contains("the parameter out.weight is not finite after step 3"));
  CHECK(checkpoint_info(d.file("last.safetensors")).step == 2);
}

TEST_CASE("trainer: a number of one's own takes no name of the Trainer's", "[trainer]") {
  Trained t(quiet(1));
  for (const char* name : {"step", "loss", "lr", "grad_norm", "rate", "tokens", "validation"})
    CHECK_THROWS_WITH(t.trainer.log(name, 1), Contains("log() is given '" + std::string(name) + "'"));
}

TEST_CASE("trainer: a validation that throws leaves the model in training", "[trainer]") {
  Trained t(quiet(3));
  t.trainer.validation([]() -> double { throw Error("no data"); }, 2);
  CHECK_THROWS_WITH(t.trainer.run(), "no data");
  CHECK(t.model->training());
}

TEST_CASE("trainer: after a validation, each layer has its mode back", "[trainer]") {
  Trained t(quiet(4));
  bool evaluated = true;
  t.model->dropout.eval();
  t.trainer
      .validation(
          [&] {
            evaluated = evaluated && !t.model->training() && !t.model->attention.training();
            return 1.;
          },
          1)
      .after_step([&] {
        if (t.trainer.checkpoint().step == 1) CHECK(t.model->dropout.training());  // run() has set it
        if (t.trainer.checkpoint().step == 2) t.model->dropout.eval();
        if (t.trainer.checkpoint().step == 4) CHECK_FALSE(t.model->dropout.training());
      });
  t.trainer.run();
  CHECK(evaluated);
  CHECK(t.model->training());
  CHECK(t.model->attention.training());
  CHECK_FALSE(t.model->dropout.training());
}

TEST_CASE("trainer: arguments out of range are told", "[trainer]") {
  SmallTraining t;
  const auto make = [&](data::DataLoader& loader, const TrainerOptions& options) {
    Trainer(
        *t.model, *t.optimizer, loader, [&](const data::Batch& b) { return t.loss(b); }, options);
  };
  data::DataLoader empty(data::TensorDataset({arange(3)}), data::LoaderOptions().batch_size(4).drop_last());
  CHECK_THROWS_WITH(make(empty, quiet(3)), Contains("the loader has no batches"));
  CHECK_THROWS_WITH(make(t.loader, quiet(-1)), Contains("steps is -1"));
  TrainerOptions none = quiet(3);
  none.accumulate(0);
  CHECK_THROWS_WITH(make(t.loader, none), Contains("accumulate is 0"));
  const auto refused = [&](const char* text, const TrainerOptions& o) {
    CHECK_THROWS_WITH(make(t.loader, o), Contains(text));
  };
  refused("clip_norm is -1", quiet(3).clip_norm(-1));
  refused("clip_norm is nan", quiet(3).clip_norm(NAN));
  refused("resume is set, but out is empty", quiet(3).resume(true));
  refused("save_every is -1", quiet(3).save_every(-1));
  refused("save_every is 2, but out is empty", quiet(3).save_every(2));
  refused("patience is -1", quiet(3).patience(-1));
  refused("log_every is 0", quiet(3).log_every(0));
  refused("min_delta is nan: it must be finite and not negative", quiet(3).min_delta(NAN));
  refused("min_delta is -0.5", quiet(3).min_delta(-0.5));
  CHECK_THROWS_WITH(Trainer(*t.model, *t.optimizer, t.loader, {}, quiet(3)), Contains("loss is empty"));
  const auto several = [](const data::Batch&) { return ones({2}).requires_grad_(); };
  Trainer vector(*t.model, *t.optimizer, t.loader, several, quiet(3));
  CHECK_THROWS_WITH(vector.run(), Contains("the loss is of shape [2] in step 1: it must be one number"));
  const Directory d;
  put(d.file("file"), "");
  Trained blocked(quiet(3, d.file("file/out")));
  CHECK_THROWS_AS(blocked.trainer.run(), FileError);
  CHECK_THROWS_WITH(blocked.trainer.run(), Contains("the folder " + d.file("file/out") + " can't be made"));
  Trained zero(quiet(0));
  CHECK(zero.trainer.run().step == 0);
  CHECK_THROWS_WITH(zero.trainer.validation([] { return 0.; }, 0), Contains("every 0 steps"));
  CHECK_THROWS_WITH(zero.trainer.validation(std::function<double()>(), 1), Contains("validation is empty"));
  CHECK_THROWS_WITH(zero.trainer.tokens(nullptr), Contains("tokens is empty"));
  CHECK_THROWS_WITH(zero.trainer.weight(nullptr), Contains("weight is empty"));
  Trainer lost(
      *t.model, *t.optimizer, t.loader, [](const data::Batch&) { return Tensor(); }, quiet(3));
  CHECK_THROWS_WITH(lost.run(), Contains("the loss is undefined in step 1: it must be one number"));
}

}  // namespace fit::test::trainer_test
