// What a training that goes wrong leaves behind, and says.
#include <cmath>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <tuple>

#include "base/affixes.hpp"
#include "fit/graph/graph.hpp"
#include "fit/nn/training/checkpoint.hpp"
#include "nn/models/trained.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/text.hpp"

namespace fit::test::trainer_losses_test {
namespace {

using Catch::Matchers::Contains;

// The rows that a page shows.
struct Heard final : TrainingListener {
  std::vector<TrainingRow> rows;
  void on_begin(const TrainingStart& start) override { rows = start.before; }
  void on_step(const TrainingRow& row) override { rows.push_back(row); }
};

std::int64_t step_in(const std::string& path) { return checkpoint_info(path).step; }

// What is written to stderr while f runs.
template <class F>
std::string said(const F& f) {
  std::ostringstream text;
  auto* const before = std::cerr.rdbuf(text.rdbuf());
  f();
  std::cerr.rdbuf(before);
  return text.str();
}

struct Wine : nn::UnaryLayer {
  Tensor forward(const Tensor& x) const override { return out(x); }
  FIT_FIELDS(out, spare, frozen)
  nn::Linear out{3, 1}, spare{3, 1}, frozen{2, 2};
};

// A schedule that a user wrote. Its fifth step throws.
struct FourSteps {
  void step() {
    if (++steps > 4) throw Error("no rate");
  }
  StateDict state_dict() const { return {{"steps", full({}, steps, int64)}}; }
  void load_state_dict(const StateDict& state) { steps = state[0].second.item<std::int64_t>(); }
  std::int64_t steps = 0;
};

}  // namespace

TEST_CASE(
    "trainer: an exception that leaves the loop saves the last whole step, and one goes on as if it had not come") {
  for (const int accumulate : {1, 3}) {
    const Directory d;
    TrainerOptions options = quiet(9, d.path.string());
    options.accumulate(accumulate);
    TrainerOptions plain = quiet(9);
    plain.accumulate(accumulate);
    Trained whole(plain);
    whole.trainer.run();
    int calls = 0;
    Trained broken(options, [&](int step) {
      if (step == 6 && ++calls == accumulate) throw std::runtime_error("the disk is gone");  // at its last batch
    });
    CHECK_THROWS_WITH(broken.trainer.run(), "the disk is gone");
    CHECK(step_in(d.file("last.safetensors")) == 5);
    options.resume(true);
    Trained second(options);
    CHECK(second.trainer.run().step == 9);
    CHECK(same_state(second.model->state_dict(), whole.model->state_dict()));
  }
}

TEST_CASE("trainer: a step that fails leaves no trace in running statistics, and NaN in them is not saved") {
  const Directory d;
  struct Run {
    StateDict state;
    std::string error;
  };
  // With `bad`, the loss of this step is NaN, or throws.
  const auto run = [&](const TrainerOptions& options, int bad, bool nan) {
    manual_seed(1);
    nn::Sequential model(nn::Linear(3, 4), nn::BatchNorm(4), nn::Linear(4, 1));
    optim::SGD optimizer(model.named_parameters(), 0.01);
    data::DataLoader loader(data::TensorDataset({randn({40, 3}), randn({40, 1})}),
                            data::LoaderOptions().batch_size(8).shuffle());
    int step = 0;
    const auto loss = [&](const data::Batch& b) {
      const bool fails = ++step == bad;
      const Tensor y = model(fails && nan ? b[0] * NAN : b[0]);
      if (fails && !nan) throw std::runtime_error("no disk");
      return nn::mse_loss(y, b[1]);
    };
    Trainer trainer(model, optimizer, loader, loss, options);
    Run end;
    try {
      trainer.run();
    } catch (const std::exception& e) {
      end.error = e.what();
    }
    end.state = copied(model);
    return end;
  };
  const Run whole = run(quiet(9), 0, false), four = run(quiet(4), 0, false);
  for (const bool nan : {false, true}) {
    const Directory out;
    const Run broken = run(quiet(9, out.path.string()), 5, nan);
    CHECK_THAT(broken.error, Contains(nan ? "nan in step 5" : "no disk"));
    CHECK(same_state(broken.state, four.state));
    CHECK(same_state(run(quiet(9, out.path.string()).resume(true), 0, false).state, whole.state));
  }

  nn::Sequential model(nn::Linear(3, 4), nn::BatchNorm(4), nn::Linear(4, 1));
  optim::SGD optimizer(model.named_parameters(), 0.01);
  data::DataLoader loader(data::TensorDataset({randn({40, 3}), randn({40, 1})}), 8);
  Trainer trainer(
      model, optimizer, loader, [&](const data::Batch& b) { return nn::mse_loss(model(b[0]), b[1]); },
      quiet(3, d.path.string()).save_every(1));
  trainer.after_step([&] {
    if (trainer.checkpoint().step == 2) model.layer<nn::BatchNorm>("1").running_var[{2}] = NAN;
  });
  CHECK_THROWS_WITH(trainer.run(), Contains("the buffer 1.running_var holds NaN after step 2"));
  CHECK(step_in(d.file("last.safetensors")) == 1);
}

TEST_CASE("trainer: where a step was cut in two, nothing is saved") {
  const Directory d;
  TrainerOptions options = quiet(9, d.path.string());
  options.save_every(3);
  SmallTraining t;
  Trainer trainer(
      *t.model, *t.optimizer, t.loader, [&](const data::Batch& b) { return t.loss(b); }, options);
  FourSteps schedule;
  trainer.schedule(schedule);
  CHECK_THROWS_WITH(trainer.run(), "no rate");  // when the optimiser has made step 5
  CHECK(step_in(d.file("last.safetensors")) == 3);
}

TEST_CASE("trainer: a schedule that is too short ends it before the step, and one goes on with a longer one") {
  const Directory d;
  TrainerOptions options = quiet(9, d.path.string());
  const auto run = [&](auto&& schedule_of, const TrainerOptions& o) {
    SmallTraining t;
    const auto schedule = schedule_of(*t.optimizer);
    Trainer trainer(
        *t.model, *t.optimizer, t.loader, [&](const data::Batch& b) { return t.loss(b); }, o);
    trainer.schedule(*schedule);
    std::string error;
    try {
      trainer.run();
    } catch (const Error& e) {
      error = e.what();
    }
    return std::pair(error, copied(*t.model));
  };
  const auto cycle = [](std::int64_t steps) {
    return [steps](optim::Optimizer& o) { return std::make_unique<optim::OneCycleLR>(o, 0.1, steps); };
  };
  const auto [error, state] = run(cycle(4), options);
  CHECK_THAT(error, Contains("step 5 is past total_steps, 4: give the schedule the number of steps of the training"));
  CHECK(step_in(d.file("last.safetensors")) == 4);
  CHECK(same_state(state, run(cycle(4), quiet(4)).second));
  const auto chained = [&](optim::Optimizer& o) {
    const auto sequence = std::make_shared<optim::SequentialLR>(
        o,
        std::vector<std::shared_ptr<optim::Schedule>>{std::make_shared<optim::LinearLR>(o),
                                                      std::make_shared<optim::OneCycleLR>(o, 0.1, 2)},
        std::vector<std::int64_t>{2});
    return std::make_unique<optim::ChainedScheduler>(o, std::vector<std::shared_ptr<optim::Schedule>>{sequence});
  };
  const Directory other;
  CHECK_THAT(run(chained, quiet(9, other.path.string())).first, Contains("step 3 is past total_steps, 2"));
  CHECK(step_in(other.file("last.safetensors")) == 4);
}

TEST_CASE("trainer: epochs without batches are passed over, and end a training if no others come") {
  SmallTraining t;
  std::int64_t epochs = 0;
  bool none = false;
  const data::Sampler sampler = [&](Generator&, std::int64_t) {
    return !none && ++epochs % 10 < 2 ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{};
  };
  data::DataLoader loader(small_data(), data::LoaderOptions().batch_size(2).sampler(sampler));
  const auto loss = [&](const data::Batch& b) { return t.loss(b); };
  CHECK(Trainer(*t.model, *t.optimizer, loader, loss, quiet(5)).run().step == 5);
  none = true;
  Trainer trainer(*t.model, *t.optimizer, loader, loss, quiet(5));
  CHECK_THROWS_WITH(trainer.run(), Contains("the loader gave no batch in 100 epochs, in step 1: its sampler"));
}

TEST_CASE("trainer: it saves by time, and keeps what last.safetensors was before") {
  const Directory d;
  TrainerOptions options = quiet(5, d.path.string());
  std::vector<std::int64_t> saved;
  const auto run = [&](double minutes) {
    std::filesystem::remove_all(d.path);
    saved.clear();
    options.save_minutes(minutes);
    Trained t(options, [&](int) {
      saved.push_back(std::filesystem::exists(d.file("last.safetensors")) ? step_in(d.file("last.safetensors")) : -1);
    });
    t.trainer.run();
  };
  run(1e-12);
  CHECK(saved == std::vector<std::int64_t>{-1, 1, 2, 3, 4});
  CHECK(step_in(d.file("last.safetensors")) == 5);
  CHECK(step_in(d.file("previous.safetensors")) == 4);
  run(0);
  CHECK(saved == std::vector<std::int64_t>(5, -1));
  CHECK_FALSE(std::filesystem::exists(d.file("previous.safetensors")));
  CHECK(TrainerOptions().save_minutes() == 5);
  options.save_minutes(-1);
  CHECK_THROWS_WITH(Trained(options), "[Trainer] save_minutes is -1: it must not be negative");
}

TEST_CASE("trainer: a damaged last.safetensors is told with what was saved before it") {
  const Directory d;
  TrainerOptions options = quiet(4, d.path.string());
  options.save_every(1);
  Trained(options).trainer.run();
  put(d.file("last.safetensors"), get(d.file("last.safetensors")).substr(0, 1000));
  options.resume(true);
  CHECK_THROWS_WITH(Trained(options).trainer.run(), Contains("the state that was saved before it is in " +
                                                             d.file("previous.safetensors") + ": to go on"));
  std::filesystem::rename(d.file("previous.safetensors"), d.file("last.safetensors"));
  CHECK(Trained(options).trainer.run().step == 4);
}

TEST_CASE("trainer: without resume, a longer training is not overwritten, and another is kept") {
  const Directory d;
  Trained(quiet(7, d.path.string())).trainer.run();
  const std::string metrics = get(d.file("metrics.jsonl"));
  CHECK_THROWS_WITH(Trained(quiet(6, d.path.string())).trainer.run(),
                    "[Trainer] " + d.path.string() +
                        " holds a training of 7 steps, this one has 6: set resume to go on "
                        "from it, give another folder, or remove it");
  CHECK(step_in(d.file("last.safetensors")) == 7);
  CHECK(get(d.file("metrics.jsonl")) == metrics);
  TrainerOptions options = quiet(8, d.path.string());
  options.save_every(2);
  Trained again(options);
  again.trainer.run();
  CHECK(step_in(d.file("earlier.safetensors")) == 7);
  CHECK(step_in(d.file("previous.safetensors")) == 6);
  CHECK(step_in(d.file("last.safetensors")) == 8);
  again.trainer.run();  // it is its own
  CHECK(step_in(d.file("earlier.safetensors")) == 7);
}

TEST_CASE("trainer: a validation that is made up counts once, also if a listener throws in it") {
  struct Told final : TrainingListener {
    int calls = 0;
    void on_evaluation(std::int64_t /*step*/, double /*value*/) override {
      if (++calls == 1) throw Error("told");
    }
  };
  Generator noise(3);
  int validations = 0;
  Trained t(quiet(9).patience(2));
  t.trainer.checkpoint().add("noise", noise);
  t.trainer.listen(std::make_shared<Told>());
  std::vector<double> drawn;
  t.trainer.validation(
      [&] {
        if (++validations == 1) throw Error("measured");
        drawn.push_back(rand({}, float64, noise).item());
        return t.trainer.checkpoint().step == 3 ? 1. : 2.;
      },
      3);
  CHECK_THROWS_WITH(t.trainer.run(), "measured");
  CHECK_THROWS_WITH(t.trainer.run(), "told");
  CHECK(t.trainer.run().step == 9);  // 3 is the best: patience ends at 9
  Generator again(3);
  std::vector<double> expected;
  for (int i = 0; i < 3; ++i) expected.push_back(rand({}, float64, again).item());
  CHECK(drawn == expected);
}

TEST_CASE("trainer: the best state of another training is kept, and no longer called the best") {
  const Directory d;
  const std::string best = d.file("best.safetensors"), earlier = d.file("earlier_best.safetensors");
  const auto train = [&](std::int64_t steps, std::int64_t best_step, bool resume) {
    Trained t(quiet(steps, d.path.string()).resume(resume).save_every(1));
    if (best_step > 0) t.trainer.validation([&] { return t.trainer.checkpoint().step == best_step ? 1. : 2.; }, 2);
    t.trainer.run();
  };
  train(6, 4, false);
  CHECK(step_in(best) == 4);
  train(8, 6, true);  // it goes on: nothing is better
  CHECK(step_in(best) == 4);
  CHECK_FALSE(std::filesystem::exists(earlier));
  train(8, 2, false);
  CHECK(step_in(best) == 2);
  CHECK(step_in(earlier) == 4);
  train(8, 0, false);  // without a validation: none is the best
  CHECK_FALSE(std::filesystem::exists(best));
  CHECK(step_in(earlier) == 2);
}

TEST_CASE("trainer: patience needs a validation") {
  TrainerOptions options = quiet(3);
  options.patience(2);
  CHECK_THROWS_WITH(Trained(options).trainer.run(),
                    "[Trainer] patience is 2, but there is no validation that could improve: give one by validation(), "
                    "or set patience to 0");
}

TEST_CASE("trainer: a loss that is not finite is told with its cause") {
  Tensor x = ones({8, 3}), y = ones({8, 1});
  Wine wine;
  optim::SGD optimizer(wine.named_parameters(), 0.1);
  const auto message = [&] {
    data::DataLoader loader(data::TensorDataset({arange(8), x, y}), 4);
    Trainer trainer(
        wine, optimizer, loader, [&](const data::Batch& b) { return nn::mse_loss(wine(b[1]), b[2]); }, quiet(2));
    try {
      trainer.run();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  x[{6, 1}] = NAN;
  CHECK_THAT(message(), Contains("the loss is nan in step 2: field 1 of the batch holds NaN in row 2; the model is"));
  x[{6, 1}] = 1;
  y[{1, 0}] = INFINITY;
  CHECK_THAT(message(), Contains("the loss is inf in step 1: field 2 of the batch holds an infinity in row 1"));
  y[{1, 0}] = 1;
  {
    const NoGrad no_grad;
    wine.out.bias.fill_(NAN);
  }
  CHECK_THAT(message(), Contains("in step 1: the parameter out.bias is not finite"));
  {
    const NoGrad no_grad;
    wine.out.bias.fill_(1e30f);
  }
  CHECK_THAT(message(), Contains("the loss is inf in step 1: the learning rate may be too high"));
}

TEST_CASE("trainer: parameters without a gradient are told once") {
  Wine wine;
  wine.frozen.freeze();
  optim::SGD optimizer(wine.named_parameters(), 0.01);
  data::DataLoader loader(data::TensorDataset({ones({8, 3}), ones({8, 1})}), 4);
  TrainerOptions options = quiet(4);
  options.display(Display::lines);
  Trainer trainer(
      wine, optimizer, loader, [&](const data::Batch& b) { return nn::mse_loss(wine(b[0]), b[1]); }, options);
  TrainerResult result;
  const std::string text = said([&] { result = trainer.run(); });
  CHECK(result.without_gradient == std::vector<std::string>{"spare.weight", "spare.bias"});
  CHECK(count(text,
              "Without a gradient in the first step, as the loss does not depend on them: spare.weight, "
              "spare.bias") == 1);
  SmallTraining all;
  CHECK(Trained(quiet(2)).trainer.run().without_gradient.empty());
}

TEST_CASE("trainer: after an error, generators and the validation's place are those of the last step") {
  // Resumed after an error in a loss, a validation or after_step(), or without one.
  const auto run = [](const std::string& fails) {
    const Directory where;
    for (int attempt = 0;; ++attempt) {
      manual_seed(1);
      Generator noise(3);
      nn::Linear layer(2, 1);
      optim::SGD optimizer(layer.named_parameters(), 0.01);
      optim::ExponentialMovingAverage average(layer.named_parameters(), 0.5);
      data::DataLoader loader(data::TensorDataset({randn({8, 2})}), 4);
      data::DataLoader validated(data::TensorDataset({reshape(arange(8), {8, 1}).to(float32)}), 2);
      int losses = 0, validations = 0;
      const auto loss = [&](const data::Batch& b) {
        const bool validation = b[0].size(1) == 1;
        const Tensor x = validation ? b[0] : b[0] + randn(b[0].shape(), noise);
        const int call = validation ? ++validations : ++losses;
        if (attempt == 0 && call == 2 && fails == (validation ? "validation" : "loss")) throw Error("once");
        if (attempt == 1 && call == 2 && fails == "validation") {  // a killed program would leave this file
          CHECK_THAT(get(where.file("metrics.jsonl")), Contains("\"step\":3}\n"));
          throw Error("twice");
        }
        return validation ? mean(x) + 0 * sum(layer.weight) : mean(square(layer(x)));
      };
      Trainer trainer(layer, optimizer, loader, loss,
                      TrainerOptions().steps(6).out(where.path).resume().display(Display::none));
      trainer.validation(validated, 3).checkpoint().add("noise", noise).add("average", average);
      trainer.after_step([&] {
        if (attempt == 0 && trainer.checkpoint().step == 5 && fails == "after_step") throw Error("once");
        average.update();
      });
      const auto heard = std::make_shared<Heard>();
      trainer.listen(heard);
      try {
        trainer.run();
      } catch (const Error&) {
        continue;
      }
      std::string rows;
      CHECK(heard->rows.size() == trainer.metrics().rows().size());
      for (const auto& row : heard->rows) {
        rows += std::to_string(static_cast<int>(row.at("step")));
        if (row.count("validation")) rows += ":" + std::to_string(row.at("validation"));
        rows += ' ';
      }
      const auto applied = average.apply();
      return std::pair(values(layer.weight), rows);
    }
  };
  const auto [weights, rows] = run("nothing");
  CHECK(rows == "1 2 3:3.500000 4 5 6:3.500000 ");
  CHECK(run("loss") == std::pair(weights, rows));
  CHECK(run("validation") == std::pair(weights, rows));  // the resumed training begins with it
  CHECK(run("after_step") == std::pair(weights, rows));
}

TEST_CASE("trainer: a validation counts once, whatever fails beside it") {
  // A listener that may throw.
  struct Told final : TrainingListener {
    bool of_validation = false, of_step = false;
    void on_evaluation(std::int64_t /*step*/, double /*value*/) override {
      if (of_validation) throw Error("once");
    }
    void on_step(const TrainingRow& /*row*/) override {
      if (of_step) throw Error("once");
    }
  };
  const auto run = [](const std::string& fails) {
    const Directory where;
    const std::string best = where.file("best.safetensors");
    for (int attempt = 0;; ++attempt) {
      manual_seed(1);
      nn::Linear layer(2, 1);
      optim::SGD optimizer(layer.named_parameters(), 0.01);
      data::DataLoader loader(data::TensorDataset({randn({8, 2})}), 4);
      int losses = 0;
      const auto loss = [&](const data::Batch& b) {
        if (++losses == 1 && attempt == 1 && fails == "the step behind one made up") throw Error("once");
        return mean(square(layer(b[0])));
      };
      Trainer trainer(layer, optimizer, loader, loss,
                      TrainerOptions().steps(6).out(where.path).resume().patience(2).display(Display::none));
      trainer.validation(
          [&] {
            if (attempt == 0 && ends_with(fails, "one made up")) throw Error("once");
            return trainer.checkpoint().step == 2 ? 1. : 2.;
          },
          2);
      const auto listener = std::make_shared<Told>();
      listener->of_validation = attempt == 0 && fails == "a listener";
      listener->of_step = attempt == 1 && fails == "a listener of one made up";
      trainer.listen(listener);
      if (attempt == 0 && fails == "the best file") std::filesystem::create_directory(best);  // can't be replaced
      try {
        const TrainerResult result = trainer.run();
        return std::tuple(result.step, result.best_validation, step_in(best), trainer.metrics().rows().size(),
                          values(layer.weight));
      } catch (const Error&) {
        REQUIRE(attempt < 2);
        if (std::filesystem::is_directory(best)) std::filesystem::remove(best);
      }
    }
  };
  const auto whole = run("nothing");
  CHECK(std::get<0>(whole) == 6);  // of patience 2
  CHECK(std::get<1>(whole) == 1);
  CHECK(std::get<2>(whole) == 2);
  CHECK(std::get<3>(whole) == 6);
  for (const char* fails :
       {"a listener", "the best file", "the step behind one made up", "a listener of one made up"}) {
    INFO(fails);
    CHECK(run(fails) == whole);
  }
}

}  // namespace fit::test::trainer_losses_test
