#include "fit/io/safetensors.hpp"
#include "fit/nn/dist/dist.hpp"
#include "fit/nn/layer/parametrize.hpp"
#include "fit/nn/layers/fine_tune.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/layers/quantize.hpp"
#include "fit/nn/optim/more/lbfgs.hpp"
#include "fit/nn/optim/muon.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/nn/training/checkpoint.hpp"
#include "fit/nn/weights/weights.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace fit::test::exponential_moving_average_test {
using Catch::Contains;
using fit::test::same_bits;

TEST_CASE("the moving average follows the weights, and takes their places for a scope") {
  manual_seed(4);
  nn::Linear layer(9, 5);
  optim::ExponentialMovingAverage average(layer.named_parameters(), 0.75);
  std::vector<double> expected = layer.weight.detach().to(float64).to_vector<double>();
  for (int t = 0; t < 4; ++t) {
    {
      const NoGrad no_grad;
      layer.weight.add_(randn({5, 9}));
    }
    average.update();
    const std::vector<float> now = layer.weight.detach().to_vector<float>();
    for (std::size_t i = 0; i < now.size(); ++i) expected[i] = 0.75 * expected[i] + 0.25 * now[i];
  }
  const Tensor weight = layer.weight.detach().clone(), averaged = average.state_dict()[0].second.clone();
  CHECK(allclose(averaged, tensor(expected, {5, 9}).to(float32)));
  {
    const auto scope = average.apply();
    CHECK(same_bits(layer.weight.detach(), averaged));
    CHECK_THROWS_WITH(average.update(), Contains("update() while the averages are applied"));
    CHECK_THROWS_WITH(average.apply(), Contains("apply() while"));
  }
  CHECK(same_bits(layer.weight.detach(), weight));
  CHECK(layer.weight.requires_grad());
  CHECK_NOTHROW(average.update());
}

TEST_CASE("what the end of apply() would undo is refused, and an export is written") {
  manual_seed(4);
  const Directory d;
  nn::Linear layer(4, 2);
  const StateDict first = layer.clone()->state_dict();
  const auto adam = optim::AdamWOptions().lr(0.1);
  optim::AdamW optimizer(layer.named_parameters(), adam);
  optim::Muon muon(optim::Parameters{layer.weight}, optim::MuonOptions());
  optim::LBFGS lbfgs(layer.named_parameters(), {});
  const auto loss = [&] { return sum(square(layer(ones({3, 4})))); };
  optim::ExponentialMovingAverage average(layer.named_parameters(), 0.5);
  Checkpoint checkpoint;
  checkpoint.add("model", layer).add("optimizer", optimizer).add("average", average);
  loss().backward();
  optimizer.step();
  average.update();
  checkpoint.save(d.file("saved"));
  const std::string saved = get(d.file("saved"));
  const Tensor weight = layer.weight.detach().clone();
  const std::string holds = "holds its average (ExponentialMovingAverage::apply()): the end of that scope ";
  {
    const auto scope = average.apply();
    const StateDict before = layer.clone()->state_dict();
    CHECK_FALSE(equal(layer.weight.detach(), weight));
    const auto refused = [&](const auto& f, const std::string& text) {
      CHECK_THROWS_WITH(f(), Contains(text) && Contains("; end the scope first"));
    };
    refused([&] { checkpoint.save(d.file("saved")); }, "[Checkpoint] the parameter model.weight " + holds + "restores");
    refused([&] { checkpoint.load(d.file("saved")); },
            "[load_state_dict] the parameter weight " + holds + "would undo");
    refused([&] { layer.load_state_dict(first); }, "[load_state_dict] the parameter weight " + holds);
    refused([&] { nn::load_weights(layer, first); }, "[load_weights] the parameter weight " + holds);
    refused([&] { nn::load_fitting_weights(layer, first); }, "[load_fitting_weights] the parameter weight " + holds);
    refused([&] { optimizer.step(); }, "[AdamW] the parameter weight " + holds + "would undo the step");
    refused([&] { optimizer.step(layer.bias); }, "[AdamW] the parameter bias " + holds);
    refused([&] { muon.step(); }, "[Muon] the parameter 0 " + holds);
    refused([&] { lbfgs.step([&] { return loss(); }); },
            "[LBFGS] the parameter weight " + holds + "would undo the step");
    refused([&] { optimizer.shard(dist::world()); }, "[AdamW] the parameter weight " + holds + "would undo");
    refused([&] { nn::quantize_(layer); }, "[quantize_] the parameter weight " + holds);
    refused([&] { nn::vector_to_parameters(zeros({10}), layer.parameters()); },
            "[vector_to_parameters] the parameter 0 " + holds + "would undo this");
    CHECK_THROWS_WITH(average.load_state_dict(average.state_dict()), Contains("load_state_dict() while the averages"));
    for (const auto& [name, x] : before) CHECK(same_bits(at(layer.state_dict(), name).detach(), x.detach()));
    nn::save_weights(d.file("averages"), layer);
    // Others are free: a clone, another model, a frozen optimiser's other parameters.
    auto other = layer.clone();
    optim::SGD sgd(other->named_parameters(), 0.1);
    sum(square(static_cast<nn::Linear&>(*other)(ones({3, 4})))).backward();
    sgd.step();
    other->load_state_dict(first);
  }
  CHECK(get(d.file("saved")) == saved);
  CHECK(same_bits(layer.weight.detach(), weight));
  {
    nn::Linear adapted(4, 2);
    nn::add_lora(adapted);
    optim::ExponentialMovingAverage of_adapters(adapted.named_parameters());
    const StateDict adapters = nn::lora_state_dict(adapted);
    const auto scope = of_adapters.apply();
    const std::string adapter_holds = "the parameter lora_A.weight " + holds;
    CHECK_THROWS_WITH(nn::load_lora_state_dict(adapted, adapters), Contains(adapter_holds + "would undo the loading"));
    CHECK_THROWS_WITH(nn::merge_lora(adapted), Contains(adapter_holds + "would restore an adapter"));
    nn::merge_lora(*nn::clone(adapted));
  }
  CHECK(same_bits(at(load_safetensors(d.file("averages")).tensors, "weight"), at(average.state_dict(), "weight")));
  optimizer.step();  // the scope has ended
  CHECK_FALSE(equal(layer.weight.detach(), weight));
  checkpoint.load(d.file("saved"));
  CHECK(same_bits(layer.weight.detach(), weight));
  layer.load_state_dict(first);
  checkpoint.save(d.file("saved"));
}

TEST_CASE("two averages may be applied one in the other: the model is lent until the outer scope ends") {
  nn::Linear layer(2, 2);
  const StateDict state = layer.clone()->state_dict();
  optim::ExponentialMovingAverage outer(layer.named_parameters()), inner(layer.named_parameters());
  {
    const auto scope = outer.apply();
    {
      const auto nested = inner.apply();
      CHECK_THROWS_WITH(layer.load_state_dict(state), Contains("holds its average"));
    }
    CHECK_THROWS_WITH(layer.load_state_dict(state), Contains("holds its average"));
  }
  layer.load_state_dict(state);
}

TEST_CASE("an average with decay 0 is the weight, however far away it was") {
  Tensor w = full({1}, 1e6).requires_grad_();
  optim::ExponentialMovingAverage average({w}, 0);
  {
    const NoGrad no_grad;
    w.fill_(0.01);
  }
  average.update();
  CHECK(same_bits(average.state_dict()[0].second, w.detach()));
}

TEST_CASE("the average of bfloat16 weights is float32: their digits would lose its steps") {
  nn::Linear layer(9, 5);
  layer.to(bfloat16);
  optim::ExponentialMovingAverage average(layer.named_parameters(), 0.999), other(layer.named_parameters());
  std::vector<double> expected = test::values(layer.weight.detach());
  for (int t = 0; t < 20; ++t) {
    {
      const NoGrad no_grad;
      layer.weight.add_(0.25);
    }
    average.update();
    const std::vector<double> now = test::values(layer.weight.detach());
    for (std::size_t i = 0; i < now.size(); ++i) expected[i] = 0.999 * expected[i] + 0.001 * now[i];
  }
  const Tensor averaged = average.state_dict()[0].second, weight = layer.weight.detach().clone();
  CHECK(averaged.dtype() == float32);
  CHECK(test::max_difference(averaged, tensor(expected, {5, 9})) < 1e-6);
  {
    const auto scope = average.apply();
    CHECK(same_bits(layer.weight.detach(), averaged.to(bfloat16)));
  }
  CHECK(same_bits(layer.weight.detach(), weight));
  StateDict narrow = average.state_dict();  // as earlier versions saved them
  for (auto& [name, x] : narrow) x = x.to(bfloat16);
  other.load_state_dict(narrow);
  CHECK(same_bits(other.state_dict()[0].second, averaged.to(bfloat16).to(float32)));
}

TEST_CASE("averages are saved by name, and loaded whole or not at all") {
  nn::Linear layer(2, 2);
  optim::ExponentialMovingAverage average(layer.named_parameters(), 0.9), other(layer.named_parameters(), 0.9);
  auto state = average.state_dict();
  CHECK(state[0].first == "weight");
  CHECK(state[1].first == "bias");
  CHECK_FALSE(state[0].second.requires_grad());
  state[0].second = full({2, 2}, 7.);
  other.load_state_dict(state);
  CHECK(same_bits(other.state_dict()[0].second, full({2, 2}, 7.)));
  state[1].first = "b";
  CHECK_THROWS_WITH(average.load_state_dict(state), Contains("missing: bias [2]") && Contains("unexpected: b [2]"));
  CHECK_FALSE(same_bits(average.state_dict()[0].second, state[0].second));
  CHECK_THROWS_WITH(optim::ExponentialMovingAverage({layer.weight}, 1.5), Contains("decay is 1.5"));
  CHECK_THROWS_WITH(optim::ExponentialMovingAverage({Tensor()}), Contains("the parameter 0 is undefined"));
  layer.to(float64);
  CHECK_THROWS_WITH(average.update(), Contains("the average is float32, weight is float64"));
}

TEST_CASE("an average tells of a layer that was replaced") {
  nn::Linear layer(2, 1);
  optim::ExponentialMovingAverage average(layer.named_parameters(), 0.9);
  nn::low_rank(layer.weight, 1);
  CHECK_NOTHROW(average.update());
  layer = nn::Linear(2, 1);
  const std::string why =
      "[ExponentialMovingAverage] the parameter bias of shape [1] belongs to no layer any more: its "
      "layer was replaced or destroyed. Make the average after";
  CHECK_THROWS_WITH(average.update(), Contains(why));
  CHECK_THROWS_WITH(average.apply(), Contains(why));
  CHECK_NOTHROW(average.state_dict());
}

}  // namespace fit::test::exponential_moving_average_test
