// A Trainer checks, measures, clips and logs the optimiser's parameters alone.
#include <cmath>
#include <set>

#include "fit/graph/graph.hpp"
#include "fit/graph/hooks.hpp"
#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/linear.hpp"
#include "nn/models/trained.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"
#include "support/text.hpp"

namespace fit::test::trained_set_test {
namespace {

using Catch::Matchers::Contains;

// The optimiser has `mine`. The loss depends on `other`, too.
struct Halves : nn::UnaryLayer {
  Tensor forward(const Tensor& x) const override { return mine(tanh(other(x))); }
  FIT_FIELDS(mine, other)
  nn::Linear other{3, 4}, mine{4, 1};
};

enum class Other { frozen, trainable, huge, infinite, nan, left_over };

struct Run {
  StateDict state;
  std::vector<MetricsLog::Row> rows;
  std::string error;
};

Run train(Other other, TrainerOptions options, double rate = 0.05) {
  manual_seed(3);
  Halves model;
  if (other == Other::frozen) model.other.freeze();
  const double factor = other == Other::huge ? 1e30 : other == Other::infinite ? INFINITY : NAN;
  GradHook hook;
  if (other == Other::huge || other == Other::infinite || other == Other::nan)
    hook = register_hook(model.other.weight, [factor](const Tensor& g) { return full_like(g, factor); });
  if (other == Other::left_over) model.other.weight.set_grad(full({4, 3}, INFINITY));
  optim::AdamW optimizer(model.mine.named_parameters(), rate);
  data::DataLoader loader(data::TensorDataset({randn({24, 3}), randn({24, 1})}),
                          data::LoaderOptions().batch_size(4).shuffle());
  Trainer trainer(
      model, optimizer, loader, [&](const data::Batch& b) { return nn::mse_loss(model(b[0]), b[1]); }, options);
  Run run;
  try {
    trainer.run();
  } catch (const Error& e) {
    run.error = e.what();
  }
  run.rows = trainer.metrics().rows();
  for (MetricsLog::Row& row : run.rows) row.erase("rate");
  for (const auto& [name, x] : model.state_dict()) run.state.emplace_back(name, x.clone());
  for (const auto& [name, x] : optimizer.state_dict()) run.state.emplace_back(name, x.clone());
  return run;
}

}  // namespace

TEST_CASE("trainer: a parameter outside the optimiser changes no bit, whatever its gradient") {
  for (const double clip : {0., 0.1})
    for (const std::int64_t accumulate : {1, 3}) {
      const Directory d;
      TrainerOptions options = quiet(30).clip_norm(clip).accumulate(accumulate);
      const Run frozen = train(Other::frozen, options);
      CHECK(frozen.rows.size() == 30);
      CHECK(frozen.error.empty());
      for (const Other other : {Other::trainable, Other::huge, Other::infinite, Other::nan, Other::left_over}) {
        CAPTURE(clip, accumulate, static_cast<int>(other));
        const Run run = train(other, options);
        CHECK(run.error.empty());
        CHECK(same_state(run.state, frozen.state));
        CHECK(run.rows == frozen.rows);
      }
    }
}

TEST_CASE("trainer: the gradients of parameters outside the optimiser do not grow") {
  manual_seed(3);
  Halves model;
  optim::SGD optimizer(model.mine.named_parameters(), 0.);
  data::DataLoader loader(data::TensorDataset({randn({4, 3}), randn({4, 1})}), 4);
  const auto loss = [&](const data::Batch& b) { return nn::mse_loss(model(b[0]), b[1]); };
  Trainer(model, optimizer, loader, loss, quiet(1)).run();
  const Tensor once = model.other.weight.grad().clone();
  Trainer(model, optimizer, loader, loss, quiet(50)).run();
  CHECK(same_bits(model.other.weight.grad(), once));
}

TEST_CASE("trainer: a trained parameter with a gradient that is not finite ends the step before anything changes") {
  for (const double clip : {0., 0.1})
    for (const double bad : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
      manual_seed(3);
      Halves model;
      optim::AdamW optimizer(model.mine.named_parameters(), 0.05);
      data::DataLoader loader(data::TensorDataset({randn({4, 3}), randn({4, 1})}), 4);
      int calls = 0;
      const GradHook hook =
          register_hook(model.mine.weight, [&](const Tensor& g) { return ++calls == 3 ? full_like(g, bad) : g; });
      StateDict before;
      Trainer trainer(
          model, optimizer, loader, [&](const data::Batch& b) { return nn::mse_loss(model(b[0]), b[1]); },
          quiet(9).clip_norm(clip));
      trainer.after_step([&] {
        before.clear();
        for (const auto& [name, x] : model.state_dict()) before.emplace_back(name, x.clone());
        for (const auto& [name, x] : optimizer.state_dict()) before.emplace_back(name, x.clone());
      });
      CHECK_THROWS_WITH(trainer.run(), Contains("the gradient of weight is not finite in step 3") &&
                                           Contains("the model is as the step before has left it"));
      StateDict after = model.state_dict();
      for (const auto& x : optimizer.state_dict()) after.push_back(x);
      CHECK(same_state(after, before));
      CHECK(trainer.checkpoint().step == 2);
    }
}

TEST_CASE("trainer: logs of gradients are those of the optimiser's parameters, with the model's names") {
  const Directory d;
  manual_seed(3);
  Halves model;
  Tensor temperature = ones({}).requires_grad_();  // trained, and not in the model
  optim::SGD optimizer({{StateDict{{"w", model.mine.weight}}, {}}, {StateDict{{"t", temperature}}, {}}});
  data::DataLoader loader(data::TensorDataset({randn({4, 3}), randn({4, 1})}), 4);
  Trainer trainer(
      model, optimizer, loader, [&](const data::Batch& b) { return nn::mse_loss(model(b[0]) * temperature, b[1]); },
      quiet(2, d.path.string()).histograms_every(1));
  struct Shown final : TrainingListener {
    void on_gradients(std::int64_t, const StateDict& parameters) override {
      for (const auto& [name, p] : parameters) names.insert(name);
    }
    std::set<std::string> names;
  };
  const auto shown = std::make_shared<Shown>();
  const TrainerResult result = trainer.listen(shown).run();
  CHECK(result.without_gradient.empty());
  const double squares = sum(square(model.mine.weight.grad())).item() + square(temperature.grad()).item();
  CHECK(trainer.metrics().rows().back().at("grad_norm") == Approx(std::sqrt(squares)).epsilon(1e-6));
  CHECK(shown->names == std::set<std::string>{"mine.weight", "t"});
}

}  // namespace fit::test::trained_set_test
