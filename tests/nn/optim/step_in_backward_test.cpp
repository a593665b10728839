#include "fit/nn/optim/step_in_backward.hpp"

#include "fit/backward/activation_checkpoint.hpp"
#include "fit/base/memory.hpp"
#include "fit/graph/graph.hpp"
#include "fit/graph/observer.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/optim/muon.hpp"
#include "fit/nn/optim/schedule.hpp"
#include "fit/nn/training/trainer.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace fit::test::step_in_backward_test {
namespace {

using Catch::Contains;
using optim::StepInBackward;

nn::GPTOptions gpt_options() {
  return nn::GPTOptions().vocab_size(9).context_length(8).num_layers(2).num_heads(2).d_model(8).dropout(0.1);
}

// The parameters and averages after 6 steps.
template <class Make>
StateDict trained(const nn::GPTOptions& o, const Make& make, bool within) {
  manual_seed(7);
  nn::GPT gpt(o);
  gpt.layer("h.0.ln_1").freeze();
  const auto optimizer = make(gpt);
  optim::CosineAnnealingLR schedule(*optimizer, 6);
  const auto fused = within ? std::make_unique<StepInBackward>(*optimizer) : nullptr;
  for (int i = 0; i < 6; ++i) {
    const Tensor ids = randint(0, o.vocab_size(), {3, 8});
    optimizer->zero_grad();
    gpt.loss(ids, ids).backward();
    for (const Tensor& p : gpt.parameters()) CHECK(p.has_grad() == (!within && p.requires_grad()));
    optimizer->step();
    schedule.step();
  }
  StateDict all = optimizer->state_dict();
  for (const auto& [name, x] : gpt.state_dict()) all.emplace_back(name, x.detach().clone());
  return all;
}

template <class Make>
void check_same(const nn::GPTOptions& o, const Make& make) {
  const StateDict plain = trained(o, make, false), within = trained(o, make, true);
  REQUIRE(plain.size() == within.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    INFO(plain[i].first);
    CHECK(plain[i].first == within[i].first);
    CHECK(same_bits(plain[i].second, within[i].second));
  }
}

}  // namespace

TEST_CASE("a step within backward() gives the bits of a step after it", "[optim]") {
  const auto adamw = [](nn::GPT& gpt) { return std::make_unique<optim::AdamW>(gpt.named_parameters(), 1e-2); };
  check_same(gpt_options(), adamw);
  check_same(gpt_options().tie_weights(false).bias(false), adamw);
  check_same(gpt_options().checkpoint_blocks(true), adamw);
  check_same(gpt_options().vocab_size(200), adamw);  // the gradient of the table waits
  check_same(gpt_options(), [](nn::GPT& gpt) {
    const auto options = optim::SGDOptions().lr(0.1).momentum(0.9).dampening(0.5);  // the first average is the gradient
    return std::make_unique<optim::SGD>(gpt.named_parameters(), options);
  });
  check_same(gpt_options(), [](nn::GPT& gpt) { return std::make_unique<optim::Adafactor>(gpt.named_parameters()); });
  check_same(gpt_options(), [](nn::GPT& gpt) {
    return std::make_unique<optim::Muon>(optim::muon_groups(gpt, optim::MuonOptions(), optim::AdamWOptions()));
  });
}

namespace {

// The most bytes in use between two nodes of a backward pass.
struct Peak final : Observer {
  void node_left(const NodeEvent&) override { bytes = std::max(bytes, memory_stats().live_bytes); }
  std::int64_t bytes = 0;
};

}  // namespace

TEST_CASE("gradients take little memory if backward() makes the step", "[optim][memory]") {
  const auto peak = [](bool within) {
    nn::GPT gpt(gpt_options().num_layers(8).d_model(64).vocab_size(16));
    optim::AdamW optimizer(gpt.named_parameters(), 1e-3);
    const auto fused = within ? std::make_unique<StepInBackward>(optimizer) : nullptr;
    const Tensor ids = zeros({1, 2}, int64);
    Peak most;
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      const std::int64_t before = memory_stats().live_bytes;
      const Tensor loss = gpt.loss(ids, ids);
      most.bytes = 0;
      const Observe watching(most);
      loss.backward();
      most.bytes -= before;
      optimizer.step();
    }
    return std::pair(most.bytes, gpt.num_parameters() * 4);
  };
  const auto [plain, parameters] = peak(false);
  CHECK(plain > parameters);
  CHECK(peak(true).first < parameters / 4);
}

TEST_CASE("the gradient of a tied table takes memory only at the end", "[optim][memory]") {
  constexpr std::int64_t vocab = 8192, C = 64;
  const auto bytes_between = [](bool tied) {
    nn::GPT gpt(gpt_options().vocab_size(vocab).d_model(C).tie_weights(tied).dropout(0));
    optim::AdamW optimizer(gpt.named_parameters(), 1e-3);
    const StepInBackward fused(optimizer);
    std::int64_t between = 0;
    const GradHook hook = register_post_accumulate_grad_hook(
        gpt.layer<nn::LayerNorm>("h.0.ln_1").weight, [&](const Tensor&) { between = memory_stats().live_bytes; });
    const std::int64_t before = memory_stats().live_bytes;
    gpt.loss(zeros({1, 2}, int64), zeros({1, 2}, int64)).backward();
    return between - before;
  };
  CHECK(bytes_between(true) < vocab * C * 4 / 4);
}

TEST_CASE("the averages of a step within backward() lie before those of the graph", "[optim]") {
  nn::GPT gpt(gpt_options());
  gpt.layer("h.0.ln_1").freeze();
  optim::AdamW optimizer(gpt.named_parameters(), 1e-3);
  const std::int64_t before = memory_stats().live_bytes;
  const StepInBackward fused(optimizer);
  CHECK(memory_stats().live_bytes - before >= 2 * 4 * (gpt.num_parameters() - 16));
  CHECK(optimizer.state_dict().size() == optim::AdamW(gpt.named_parameters(), 1e-3).state_dict().size());
}

TEST_CASE("what a step within backward() refuses", "[optim]") {
  Tensor a = ones({2}).requires_grad_(), b = ones({2}).requires_grad_(), other = ones({2}).requires_grad_();
  optim::SGD optimizer({a, b}, 0.5);
  {
    const StepInBackward fused(optimizer);
    CHECK_THROWS_WITH(StepInBackward(optimizer), Contains("takes its step in backward() already"));
    sum(a * b).backward();
    CHECK(equal(a.detach(), full({2}, 0.5)));
    CHECK(equal(b.detach(), full({2}, 0.5)));
    CHECK_THROWS_WITH(optim::clip_grad_norm_({a, b}, 1.0),
                      Contains("[clip_grad_norm_]") && Contains("before the other gradients are known"));
    CHECK_THROWS_WITH(optim::clip_grad_value_({b}, 1.0), Contains("[clip_grad_value_]"));
    CHECK_NOTHROW(optim::clip_grad_norm_({other}, 1.0));
    CHECK_THROWS_WITH(optim::clip_grad_norm_({other, b}, 1.0), Contains("updates the parameter 1 within backward()"));
    CHECK_THROWS_WITH(optimizer.step(optim::error_if_nonfinite),
                      Contains("[SGD] a StepInBackward updates the parameter 0 within backward(), before the other "
                               "gradients are known") &&
                          Contains("Call step() without error_if_nonfinite"));
    CHECK_NOTHROW(optimizer.step());
  }
  sum(a * b).backward();
  CHECK(equal(a.detach(), full({2}, 0.5)));
  CHECK(a.has_grad());
  CHECK_NOTHROW(optim::clip_grad_norm_({a, b}, 1.0));
  optimizer.step(a);
  CHECK_FALSE(equal(a.detach(), full({2}, 0.5)));
  CHECK(equal(b.detach(), full({2}, 0.5)));
  CHECK_THROWS_WITH(optimizer.step(other), Contains("not one of the optimiser's"));
}

TEST_CASE("a parameter in several calls of checkpoint() takes one step within backward()", "[optim]") {
  const auto trained = [](bool within) {
    manual_seed(1);
    nn::Linear layer(3, 3);
    optim::Adam optimizer(layer.named_parameters(), 0.1);
    const auto fused = within ? std::make_unique<StepInBackward>(optimizer) : nullptr;
    Tensor h = randn({4, 3}).requires_grad_();
    for (int i = 0; i < 3; ++i) h = checkpoint([&](const Tensor& t) { return tanh(layer(t)); }, h);
    sum(square(h)).backward();
    optimizer.step();
    return optimizer.state_dict();
  };
  const StateDict plain = trained(false), within = trained(true);
  REQUIRE(plain.size() == within.size());
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(same_bits(plain[i].second, within[i].second));
}

TEST_CASE("a layer that is replaced beside a StepInBackward is noticed", "[optim]") {
  nn::Linear layer(2, 2);
  optim::SGD optimizer(layer.named_parameters(), 0.5);
  const StepInBackward fused(optimizer);
  layer = nn::Linear(2, 2);
  CHECK_THROWS_WITH(optimizer.step(), Contains("[SGD] the parameter weight of shape [2, 2] belongs to no layer"));
}

TEST_CASE("a Trainer goes on with a StepInBackward, and refuses to accumulate", "[optim][trainer]") {
  nn::Linear layer(3, 1);
  optim::SGD optimizer(layer.named_parameters(), 0.01);
  data::DataLoader loader(data::TensorDataset({randn({32, 3})}), 8);
  const auto run = [&](const TrainerOptions& o, std::vector<MetricsLog::Row>& rows) {
    Trainer trainer(
        layer, optimizer, loader, [&](const data::Batch& b) { return mean(square(layer(b[0]) - 1.)); }, o);
    const TrainerResult result = trainer.run();
    rows = trainer.metrics().rows();
    return result;
  };
  const StepInBackward fused(optimizer);
  const auto options = TrainerOptions().steps(2).display(Display::none);
  std::vector<MetricsLog::Row> rows;
  CHECK(run(options, rows).without_gradient.empty());
  REQUIRE(rows.size() == 2);
  CHECK(rows[1].count("grad_norm") == 0);
  const Tensor before = layer.weight.detach().clone();
  CHECK_THROWS_WITH(run(TrainerOptions(options).accumulate(2), rows),
                    Contains("[Trainer] accumulate is 2, but a StepInBackward updates the parameter weight"));
  CHECK_THROWS_WITH(run(TrainerOptions(options).clip_norm(1), rows),
                    Contains("[Trainer] clip_norm is 1, but a StepInBackward updates the parameter weight in each "
                             "backward(), before all gradients have a norm: set clip_norm to 0"));
  CHECK(same_bits(layer.weight.detach(), before));
}

TEST_CASE("a Trainer saves no step that backward() has taken and an error has ended", "[optim][trainer]") {
  struct Throwing final : TrainingListener {
    bool on = false;
    void on_gradients(std::int64_t step, const StateDict& /*parameters*/) override {
      if (on && step == 3) throw Error("once");
    }
  };
  const auto run = [](bool fails, std::int64_t scheduled, std::int64_t steps = 5) {
    const Directory where;
    std::string error;
    for (int attempt = 0;; ++attempt) {
      manual_seed(4);
      nn::Linear layer(3, 1);
      optim::Adam optimizer(layer.named_parameters(), 0.1);
      optim::OneCycleLR schedule(optimizer, 0.1, attempt == 0 ? scheduled : 8);
      const StepInBackward fused(optimizer);
      data::DataLoader loader(data::TensorDataset({randn({32, 3})}), 8);
      Trainer trainer(
          layer, optimizer, loader, [&](const data::Batch& b) { return mean(square(layer(b[0]) - 1.)); },
          TrainerOptions()
              .steps(steps)
              .out(where.path)
              .resume()
              .save_every(4)
              .histograms_every(1)
              .display(Display::none));
      const auto listener = std::make_shared<Throwing>();
      listener->on = fails && attempt == 0;
      trainer.schedule(schedule).listen(listener);
      try {
        trainer.run();
        return std::pair(error, values(layer.weight));
      } catch (const Error& e) {
        error = e.what();
        REQUIRE(attempt == 0);
        if (scheduled < 5) return std::pair(error, values(layer.weight));
      }
    }
  };
  const auto whole = run(false, 8), failed = run(true, 8);
  CHECK(failed.first == "once");
  CHECK(failed.second == whole.second);
  const auto ended = run(false, 2);  // before the third step: the model is that of two
  CHECK_THAT(ended.first, Contains("step 3 is past total_steps, 2"));
  CHECK(ended.second == run(false, 2, 2).second);
}

TEST_CASE("a step within backward() of a loss in which nothing counts is none", "[optim][trainer]") {
  nn::Linear layer(3, 1);
  optim::SGD optimizer(layer.named_parameters(), 0.1);
  const StepInBackward fused(optimizer);
  data::DataLoader loader(data::TensorDataset({randn({8, 3})}), 4);
  const Tensor before = layer.weight.detach().clone();
  Trainer trainer(
      layer, optimizer, loader, [&](const data::Batch& b) { return nn::mean_over(sum(layer(b[0])) / 0., 0); },
      TrainerOptions().steps(3).display(Display::none));
  CHECK(trainer.run().loss == 0);
  CHECK(same_bits(layer.weight.detach(), before));
}

TEST_CASE("a parameter that was frozen, or has another type, still takes its step in backward()", "[optim]") {
  nn::Linear layer(3, 1);
  optim::SGD optimizer(layer.named_parameters(), 0.1);
  const StepInBackward fused(optimizer);
  const auto moves = [&] {
    const Tensor before = layer.weight.detach().clone();
    sum(layer(ones({2, 3}, before.dtype()))).backward();
    return !equal(layer.weight.detach(), before) && !layer.weight.has_grad();
  };
  CHECK(moves());
  layer.freeze();
  layer.unfreeze();
  CHECK(moves());
  layer.to(float64);
  CHECK(moves());
  const Tensor loss = sum(layer(ones({2, 3}, float64)));
  layer.to(float32);
  CHECK_THROWS_WITH(loss.backward(), Contains("a leaf of shape [1, 3] and type float64 has another type now"));
}

}  // namespace fit::test::step_in_backward_test
