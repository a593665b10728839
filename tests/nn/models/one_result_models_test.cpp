#include <cstdint>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "fit/graph/autocast.hpp"
#include "fit/nn.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/nn/optim/schedule.hpp"
#include "support/catch.hpp"
#include "support/optimizer_groups.hpp"
#include "support/oracles/one_result.hpp"
#include "support/tables/loss_functions.hpp"

// Losses, optimisers and whole trainings have one result, to the bit, on every instruction set.
namespace fit::test::one_result_models_test {
namespace {

using Values = std::vector<Tensor>;

// The parameters of a GPT and its losses after `steps` steps of AdamW with dropout, clipping and a schedule.
Values trained(const nn::GPTOptions& options, int steps) {
  manual_seed(7);
  nn::GPT gpt(options);
  optim::AdamW optimizer(optim::decay_groups(gpt, optim::AdamWOptions().lr(3e-3)));
  optim::CosineAnnealingLR schedule(optimizer, steps);
  Generator g(3);
  Tensor losses = zeros({steps});
  const std::int64_t T = options.context_length();
  for (int i = 0; i < steps; ++i) {
    const Tensor ids = randint(0, 41, {4, T + 1}, g);
    const Tensor loss = gpt.loss(slice(ids, 1, 0, T), slice(ids, 1, 1, T + 1));
    optimizer.zero_grad();
    loss.backward();
    optim::clip_grad_norm_(gpt.named_parameters(), 0.5);
    optimizer.step();
    schedule.step();
    losses.edit<float>()[i] = loss.data<float>()[0];
  }
  Values all{losses};
  for (const auto& [name, p] : gpt.named_parameters()) all.push_back(p.detach());
  return all;
}

nn::GPTOptions small() {
  return nn::GPTOptions().vocab_size(41).context_length(24).d_model(48).num_heads(4).num_layers(2).dropout(0.1);
}

}  // namespace

TEST_CASE("one result: every loss", "[one_result]") {
  const LossRows rows = loss_rows({0, 1, -1, 3, 4, 2, 2, -1});
  for (const LossFunction& f : loss_functions())
    for (const DType dtype : {float32, float64}) DYNAMIC_SECTION(f.name << ' ' << dtype) {
        std::ostringstream name;
        name << "loss " << f.name << ' ' << dtype;
        check_one_result(name.str(), [&] {
          Values all;
          for (const nn::Reduction to : {nn::Reduction::mean, nn::Reduction::sum, nn::Reduction::none}) {
            Generator g(2);
            Tensor y = randn({rows.size(), 5}, float32, g).to(dtype).requires_grad_();
            LossRows of = rows;
            of.numbers = of.numbers.to(dtype), of.fractions = of.fractions.to(dtype), of.signs = of.signs.to(dtype);
            const Tensor loss = f.loss(y, of, to);
            sum(loss).backward();
            all.push_back(loss.detach());
            all.push_back(y.grad());
          }
          return all;
        });
      }
}

TEST_CASE("one result: every optimiser", "[one_result]") {
  each_optimizer([](auto* null) {
    using Optimizer = std::remove_pointer_t<decltype(null)>;
    for (const DType dtype : {float32, float64}) {
      std::ostringstream name;
      name << "optimiser " << optim::detail::Formula<OptionsOf<Optimizer>>::name << ' ' << dtype;
      check_one_result(name.str(), [&] {
        Generator g(4);
        StateDict parameters;
        for (const Shape& shape : {Shape{33, 17}, Shape{7}, Shape{40}})
          parameters.emplace_back(shape.str(), randn(shape, float32, g).to(dtype).requires_grad_());
        Optimizer optimizer(groups_of<Optimizer>(parameters, 0.01));
        for (int i = 0; i < 10; ++i) {
          for (auto& [key, p] : parameters) p.set_grad(randn(p.shape(), float32, g).to(dtype));
          optimizer.step();
        }
        Values all;
        for (const auto& [key, p] : parameters) all.push_back(p.detach());
        return all;
      });
    }
  });
}

TEST_CASE("one result: trainings of a GPT", "[one_result]") {
  check_one_result("GPT, 30 steps", [] { return trained(small(), 30); });
  check_one_result("GPT with ALiBi and capped scores, 30 steps",
                   [] { return trained(small().positions(nn::Positions::alibi).attention_logit_cap(20), 30); });
  check_one_result("GPT with rotary positions and a window, 30 steps", [] {
    return trained(small().positions(nn::Positions::rotary).window(9).norm(nn::Norm::rms).num_kv_heads(2), 30);
  });
}

TEST_CASE("one result: a training of a GPT under Autocast in the mode Reproducible", "[one_result][bfloat16]") {
  check_one_narrow_result("GPT under Autocast, 10 steps", [] {
    const Autocast low(bfloat16);
    return trained(small(), 10);
  });
}

TEST_CASE("one result: 1,000 steps of a GPT", "[one_result][heavy]") {
  const nn::GPTOptions options = small()
                                     .context_length(12)
                                     .d_model(24)
                                     .num_heads(2)
                                     .positions(nn::Positions::alibi)
                                     .attention_logit_cap(20)
                                     .window(9);
  check_one_result("GPT, 1000 steps", [&] { return trained(options, 1000); });
}

}  // namespace fit::test::one_result_models_test
