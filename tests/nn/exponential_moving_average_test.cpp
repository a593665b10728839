#include "fit/nn/linear.hpp"
#include "fit/ops.hpp"
#include "fit/optim.hpp"
#include "support/catch.hpp"
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

}  // namespace fit::test::exponential_moving_average_test
