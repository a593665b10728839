// What an optimiser saves, and how it goes on from it.
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/nn/training/checkpoint.hpp"
#include "fit/ops/ops.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/optimizer_groups.hpp"
#include "support/tensors.hpp"

namespace fit::test::optim_state_test {
namespace {

using Catch::Contains;

Tensor leaf(const Tensor& value) { return value.clone().requires_grad_(); }

// `change` comes before the state is saved, `later` in the middle of what follows.
template <class Optimizer, class Options>
void resume(const Options& options, const Callable<void(Options&)>& change = {},
            const Callable<void(Options&)>& later = {}) {
  Generator random(4);
  std::vector<Tensor> gradients;
  for (int t = 0; t < 6; ++t) gradients.push_back(randn({2, 3}, float32, random));
  const auto steps = [&](Optimizer& optimizer, Tensor& p, int from, int to) {
    for (int t = from; t < to; ++t) {
      p.set_grad(gradients[static_cast<std::size_t>(t)]);
      optimizer.step();
    }
  };
  Tensor a = leaf(ones({2, 3})), b = leaf(ones({2, 3}));
  Optimizer straight(StateDict{{"w", a}}, options);
  Optimizer first(StateDict{{"w", b}}, options);
  steps(straight, a, 0, 3);
  steps(first, b, 0, 3);
  straight.set_lr(0.3);
  first.set_lr(0.3);
  straight.options().weight_decay(0.05), first.options().weight_decay(0.05);
  if (change) change(straight.options()), change(first.options());
  Tensor c = leaf(b.detach());
  Optimizer second(StateDict{{"w", c}}, Options{});  // the state has the options
  second.load_state_dict(first.state_dict());
  CHECK(second.lr() == 0.3);
  steps(straight, a, 3, 5);
  steps(second, c, 3, 5);
  if (later) later(straight.options()), later(second.options());
  steps(straight, a, 5, 6);
  steps(second, c, 5, 6);
  CHECK(same_bits(a.detach(), c.detach()));
}

}  // namespace

TEST_CASE("every optimiser goes on from its saved state, bit for bit") {
  each_optimizer([](auto* type) {
    using Optimizer = std::decay_t<decltype(*type)>;
    resume<Optimizer>(OptionsOf<Optimizer>());
  });
  resume<optim::SGD>(optim::SGDOptions().lr(0.1).momentum(0.9).dampening(0.2));
  resume<optim::AdamW>(optim::AdamWOptions().lr(0.1).beta1(0.9).beta2(0.99).eps(1e-8).weight_decay(0.1).amsgrad());
  resume<optim::RMSprop>(
      optim::RMSpropOptions().lr(0.01).alpha(0.9).eps(1e-8).weight_decay(0).momentum(0.9).centered());
  resume<optim::Adagrad>(optim::AdagradOptions().lr(0.1).lr_decay(0.1).weight_decay(0).initial_accumulator_value(0.5));
}

TEST_CASE("an optimiser goes on from its saved state where an option has been changed since the last step") {
  // A state that the option asks for has not begun yet.
  resume<optim::SGD, optim::SGDOptions>(optim::SGDOptions().lr(0.1), [](auto& o) { o.momentum(0.9); });
  resume<optim::Adam, optim::AdamOptions>({}, [](auto& o) { o.amsgrad(true); });
  resume<optim::AdamW, optim::AdamWOptions>({}, [](auto& o) { o.amsgrad(true); });
  resume<optim::RMSprop, optim::RMSpropOptions>({}, [](auto& o) { o.momentum(0.9).centered(true); });
  resume<optim::Muon, optim::MuonOptions>({}, [](auto& o) { o.adamw(true); });
  // One that it no longer asks for is there when it does again.
  resume<optim::SGD, optim::SGDOptions>(
      optim::SGDOptions().lr(0.1).momentum(0.9), [](auto& o) { o.momentum(0); }, [](auto& o) { o.momentum(0.9); });
  resume<optim::Adam, optim::AdamOptions>(
      optim::AdamOptions().lr(0.1).beta2(0.99).amsgrad(), [](auto& o) { o.amsgrad(false); },
      [](auto& o) { o.amsgrad(true); });
}

TEST_CASE("create_states() does not change the first step of a momentum that was switched on later") {
  const auto trained = [](bool create) {
    Tensor w = leaf(zeros({1}));
    optim::SGD optimizer({w}, optim::SGDOptions().lr(1).dampening(0.5));
    w.set_grad(ones({1}));
    optimizer.step();
    optimizer.options().momentum(0.9);
    if (create) optimizer.create_states();
    optimizer.step();
    return w.item();
  };
  CHECK(trained(false) == -2);
  CHECK(trained(true) == -2);
}

TEST_CASE("a checkpoint takes an optimiser whose momentum has been switched on since its last step") {
  const test::Directory directory;
  const std::string path = directory.file("momentum.safetensors");
  Tensor p = leaf(ones({3}));
  optim::SGD optimizer({p}, 0.1);
  p.set_grad(tensor({1., 2., 3.}));
  optimizer.step();
  optimizer.options().momentum(0.9);
  const auto state = optimizer.state_dict();
  REQUIRE(state.back().first == "0.momentum_buffer");
  CHECK(state.back().second.shape() == Shape{0});
  Checkpoint checkpoint;
  checkpoint.add("optimizer", optimizer).save(path);
  optim::SGD other({p}, 0.5);
  Checkpoint().add("optimizer", other).load(path);
  CHECK(other.options().momentum() == 0.9);
  other.step();
  CHECK(same_bits(other.state_dict().back().second, p.grad()));
  // A state that is not there at all is told, as before.
  auto wrong = state;
  wrong.pop_back();
  CHECK_THROWS_WITH(other.load_state_dict(wrong), Contains("missing: 0.momentum_buffer [3]"));
}

TEST_CASE("an optimiser's state has the names of its parameters, and is loaded whole or not at all") {
  nn::Sequential net(nn::Linear(2, 2), nn::Linear(2, 1, false));
  optim::Adam optimizer(net.named_parameters(), 0.1);
  sum(net(ones({1, 2}))).backward();
  optimizer.step();
  const auto state = optimizer.state_dict();
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state) names.push_back(name);
  CHECK(names == std::vector<std::string>{"lr.0", "beta1.0", "beta2.0", "eps.0", "weight_decay.0", "maximize.0",
                                          "amsgrad.0", "0.weight.step", "0.weight.exp_avg", "0.weight.exp_avg_sq",
                                          "0.bias.step", "0.bias.exp_avg", "0.bias.exp_avg_sq", "1.weight.step",
                                          "1.weight.exp_avg", "1.weight.exp_avg_sq"});
  auto wrong = state;
  wrong[0].second = full({}, 77, float64);
  wrong[8].second = zeros({3});
  wrong[10].first = "0.bias.stop";
  CHECK_THROWS_WITH(optimizer.load_state_dict(wrong), Contains("this Adam") &&
                                                          Contains("misshapen: 0.weight.exp_avg is [3], here [2, 2]") &&
                                                          Contains("0.bias.stop []"));
  CHECK(optimizer.lr() == 0.1);
  wrong = state;
  wrong[1].second = full({}, 2, float64);
  CHECK_THROWS_WITH(optimizer.load_state_dict(wrong), Contains("[Adam] beta1 is 2"));
  wrong[1].second = zeros({2});
  CHECK_THROWS_WITH(optimizer.load_state_dict(wrong), Contains("misshapen: beta1.0 is [2], here []"));
  CHECK(optimizer.options().beta1() == 0.9);
  wrong.erase(wrong.begin() + 1);  // options may be missing, but not the rate
  optimizer.options().beta1(0.8);
  CHECK_NOTHROW(optimizer.load_state_dict(wrong));
  CHECK(optimizer.options().beta1() == 0.8);
  wrong.erase(wrong.begin());
  CHECK_THROWS_WITH(optimizer.load_state_dict(wrong), Contains("missing: lr.0"));
  CHECK_NOTHROW(optimizer.load_state_dict(state));
  CHECK(optimizer.options().beta1() == 0.9);
  CHECK_NOTHROW(optimizer.load_state_dict(optim::Adam(net.named_parameters(), 0.1).state_dict()));  // of no parameter
  wrong = state;
  REQUIRE(wrong[7].first == "0.weight.step");
  wrong[7].second = zeros({}, int64);
  CHECK_NOTHROW(optimizer.load_state_dict(wrong));
  wrong[7].second = full({}, -1, int64);
  CHECK_THROWS_WITH(optimizer.load_state_dict(wrong), Contains("the state has step -1 for 0.weight"));
}

TEST_CASE("the state of an optimiser with another number of groups is refused by their numbers") {
  const Tensor w = ones({2}).requires_grad_(), b = ones({}).requires_grad_();
  optim::Adam one({w}, 0.1), two({w}, 0.2);
  two.add_param_group({{b}, optim::AdamOptions()});
  sum(w * b).backward();
  one.step(), two.step();
  CHECK_THROWS_WITH(one.load_state_dict(two.state_dict()),
                    Contains("the number of groups of parameters is 2 in the state and 1 in this Adam"));
  CHECK_THROWS_WITH(two.load_state_dict(one.state_dict()),
                    Contains("the number of groups of parameters is 1 in the state and 2 in this Adam"));
  CHECK(one.lr() == 0.1);
  one.add_param_group({{b}, optim::AdamOptions()});
  CHECK_NOTHROW(one.load_state_dict(two.state_dict()));
  CHECK(one.lr() == 0.2);
}

}  // namespace fit::test::optim_state_test
