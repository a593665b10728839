#include "fit/nn/optim/more/lbfgs.hpp"

#include "fit/graph/autocast.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "support/catch.hpp"
#include "support/exception_safety.hpp"
#include "support/tensors.hpp"

namespace fit::test::lbfgs_test {
using Catch::Contains;
using fit::test::same_bits;

namespace {

Tensor leaf(const Tensor& value) { return value.clone().requires_grad_(); }

}  // namespace

TEST_CASE("LBFGS goes on from its state, ends at the minimum, and leaves alone what was frozen") {
  Tensor w = leaf(tensor({3., -2.}, float64)), frozen = leaf(tensor({5.}, float64));
  const auto options = optim::LBFGSOptions().max_iter(1).lr(0.5);
  optim::LBFGS lbfgs(StateDict{{"w", w}, {"frozen", frozen}}, options);
  const auto closure_of = [](optim::LBFGS& o, const Tensor& x) {
    return [&o, x] {
      o.zero_grad();
      const Tensor loss = sum(square(x));
      loss.backward();
      return loss;
    };
  };
  frozen.set_grad(ones({1}, float64));
  frozen.requires_grad_(false);
  lbfgs.step(closure_of(lbfgs, w));
  CHECK(frozen.item() == 5);
  const StateDict state = lbfgs.state_dict();  // after one iteration there is no history yet
  CHECK(at(state, "old_dirs").shape() == Shape{0, 3});
  Tensor v = leaf(w.detach());
  optim::LBFGS other(StateDict{{"w", v}, {"frozen", frozen}}, options);
  other.load_state_dict(state);
  for (int i = 0; i < 40; ++i) {
    lbfgs.step(closure_of(lbfgs, w)), other.step(closure_of(other, v));
    CHECK(same_bits(w.detach(), v.detach()));
  }
  CHECK(max(abs(w)).item() < 1e-4);
  // At the minimum a step gives the loss and changes nothing.
  Tensor zero = leaf(zeros({2}, float64));
  optim::LBFGS there({zero});
  CHECK(there.step(closure_of(there, zero)) == 0);
  CHECK(there.state_dict().size() == 2);
  Tensor none = leaf(zeros({0}, float64));
  optim::LBFGS empty({none});
  CHECK(empty.step(closure_of(empty, none)) == 0);

  const auto with = [&](const std::string& name, const Tensor& x) {
    StateDict changed = state;
    for (auto& [key, value] : changed)
      if (key == name) value = x;
    return changed;
  };
  const std::string before = test::State()(other.state_dict());
  for (const auto& [changed, why] : std::vector<std::pair<StateDict, std::string>>{
           {with("n_iter", tensor(-1)), "n_iter is -1"},
           {with("n_iter", tensor(0)), "n_iter is 0, func_evals 1, and d is there: that is no state of LBFGS"},
           {with("func_evals", tensor(-1)), "func_evals -1"},
           {{{"n_iter", tensor(3)}, {"func_evals", tensor(3)}}, "n_iter is 3, func_evals 3, and d is not there"},
           {with("old_dirs", Tensor()), "old_dirs"},
           {with("old_dirs", zeros({3}, float64)), "old_dirs"}}) {
    INFO(why);
    CHECK_THROWS_WITH(other.load_state_dict(changed), Contains(why));
    CHECK(std::string(test::State()(other.state_dict())) == before);
  }
}

TEST_CASE("LBFGS computes its own numbers in their type, also under Autocast") {
  const Tensor scale = pow(10., linspace(0, 4, 20)), goal = sin(arange(20).to(float32));
  const auto trained = [&](DType type) {
    Tensor w = leaf(zeros({20}));
    optim::LBFGS lbfgs({w}, optim::LBFGSOptions().max_iter(20));
    const Autocast surrounding(type);
    lbfgs.step([&] {
      const Autocast off(float32);
      lbfgs.zero_grad();
      const Tensor loss = sum(scale * square(w - goal));
      loss.backward();
      return loss;
    });
    return w.detach();
  };
  CHECK(same_bits(trained(bfloat16), trained(float32)));
}

TEST_CASE("LBFGS gives the values back when a later evaluation fails before its gradients are there") {
  for (const auto search : {optim::LineSearch::none, optim::LineSearch::strong_wolfe})
    for (const bool throws : {true, false}) {
      const Tensor w = leaf(tensor({3., -2.}, float64)), before = w.detach().clone();
      optim::LBFGS lbfgs({w}, optim::LBFGSOptions().line_search_fn(search));
      int calls = 0;
      const auto closure = [&] {
        const Tensor loss = sum(square(w));
        if (++calls == 1) return loss.backward(), loss;
        if (throws) throw Error("the second call");
        return loss;  // without a gradient
      };
      CHECK_THROWS_AS(lbfgs.step(closure), Error);
      CHECK(calls == 2);
      CHECK(same_bits(w.detach(), before));
    }
}

TEST_CASE("LBFGS tells of a layer that was replaced") {
  nn::Linear layer(2, 1);
  optim::LBFGS lbfgs(layer.named_parameters());
  const auto closure = [&] {
    const Tensor loss = sum(square(layer(ones({3, 2}))));
    return loss.backward(), loss;
  };
  lbfgs.step(closure);
  layer = nn::Linear(2, 1);
  CHECK_THROWS_WITH(lbfgs.step(closure), Contains("[LBFGS] the parameter weight of shape [1, 2] belongs to no layer"));
}

}  // namespace fit::test::lbfgs_test
