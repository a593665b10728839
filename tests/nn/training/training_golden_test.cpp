// Optimisers, schedules and clipping beside PyTorch (tests/golden/training.py).
#include <cmath>

#include "fit/graph/graph.hpp"
#include "fit/nn/optim/more/lbfgs.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/nn/optim/schedule.hpp"
#include "fit/ops/ops.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/oracles/optimizer_path.hpp"
#include "support/tensors.hpp"

namespace fit::test::training_golden_test {
using Catch::Contains;
using fit::test::max_difference;
using fit::test::same_bits;

namespace {

Tensor golden(const std::string& name) { return training_golden(name); }

// Each of PyTorch's 30 places, in double to 1e-12 and in float to 1e-4.
template <class Optimizer, class Options>
void follows(const std::string& name, const Options& options) {
  for (const std::string kind : {"vector", "matrix"})
    for (const DType dtype : {float64, float32}) {
      INFO(name << ' ' << kind << ' ' << dtype);
      CHECK(distance_from_path<Optimizer>("optimisers/" + kind, name, options, dtype) <
            (dtype == float64 ? 1e-12 : 1e-4));
    }
}

using Make = Callable<std::shared_ptr<optim::Schedule>(optim::Optimizer&)>;

void has_rates(const std::string& name, const Make& make) {
  INFO(name);
  const Tensor path = golden("schedules/" + name);
  const auto two_groups = [] {
    const auto leaf = [] { return zeros({1}).requires_grad_(); };
    return optim::SGD({{{leaf()}, optim::SGDOptions().lr(0.5)}, {{leaf()}, optim::SGDOptions().lr(0.02)}});
  };
  auto first = two_groups(), second = two_groups();
  auto schedule = make(first), resumed = make(second);
  const auto check = [&](const optim::Optimizer& o, std::int64_t t) {
    for (std::int64_t g = 0; g < 2; ++g) {
      const double right = path[{t, g}].item();
      CHECK(std::abs(o.lr(static_cast<std::size_t>(g)) - right) <= 1e-12 * std::abs(right));
    }
  };
  for (std::int64_t t = 0; t <= 100; ++t) {
    check(first, t);
    if (t == 43) resumed->load_state_dict(schedule->state_dict());
    if (t >= 43) check(second, t), resumed->step();
    schedule->step();
  }
}

}  // namespace

TEST_CASE("Adadelta, Adafactor and maximize follow PyTorch's path", "[golden]") {
  using namespace optim;
  follows<Adadelta>("adadelta", AdadeltaOptions());
  follows<Adadelta>("adadelta_all", AdadeltaOptions().lr(0.5).rho(0.8).eps(1e-3).weight_decay(0.1).maximize());
  follows<Adafactor>(
      "adafactor_all",
      AdafactorOptions().lr(0.3).beta2_decay(-0.5).eps1(1e-4).eps2(1e-2).d(1.5).weight_decay(0.1).maximize());
  follows<SGD>("sgd_maximize", SGDOptions().lr(0.05).momentum(0.9).weight_decay(0.1).maximize());
  follows<Adam>("adam_maximize", AdamOptions().lr(0.05).weight_decay(0.1).maximize());
  follows<AdamW>("adamw_maximize", AdamWOptions().lr(0.05).maximize());
  follows<NAdam>("nadam_maximize", NAdamOptions().lr(0.05).maximize());
  follows<RAdam>("radam_maximize", RAdamOptions().lr(0.05).maximize());
  follows<Adamax>("adamax_maximize", AdamaxOptions().lr(0.05).maximize());
  follows<RMSprop>("rmsprop_maximize", RMSpropOptions().lr(0.05).maximize());
  follows<Adagrad>("adagrad_maximize", AdagradOptions().lr(0.05).maximize());
}

TEST_CASE("Adafactor keeps rows and columns, and goes on from its state") {
  optim::Adafactor checked({zeros({2}).requires_grad_()}, optim::AdafactorOptions().lr(0.1));
  follows<optim::Adafactor>("adafactor", optim::AdafactorOptions());
  Generator random(2);
  Tensor a = randn({3, 4}, float32, random).requires_grad_(), b = a.detach().clone().requires_grad_(),
         bias = ones({4}).requires_grad_();
  optim::Adafactor first(StateDict{{"w", a}, {"b", bias}});
  const auto step = [&](optim::Optimizer& o, Tensor& p, std::uint64_t seed) {
    Generator g(seed);
    p.set_grad(randn({3, 4}, float32, g));
    o.step();
  };
  bias.set_grad(ones({4}));
  step(first, a, 5);
  const StateDict state = first.state_dict();
  CHECK(at(state, "w.row_var").shape() == Shape{3, 1});
  CHECK(at(state, "w.col_var").shape() == Shape{1, 4});
  CHECK_FALSE(contains(state, "w.variance"));
  CHECK(at(state, "b.variance").shape() == Shape{4});
  CHECK_FALSE(contains(state, "b.row_var"));
  b = a.detach().clone().requires_grad_();
  Tensor other = bias.detach().clone().requires_grad_();
  optim::Adafactor second(StateDict{{"w", b}, {"b", other}});
  second.load_state_dict(state);
  step(first, a, 6), step(second, b, 6);
  CHECK(same_bits(a.detach(), b.detach()));
  CHECK_THROWS_WITH(optim::Adafactor({a}, optim::AdafactorOptions().beta2_decay(0.1)),
                    "[Adafactor] beta2_decay is 0.1: it must not be positive");
  CHECK_THROWS_WITH(optim::Adafactor({a}, optim::AdafactorOptions().d(0.5)),
                    "[Adafactor] d is 0.5: it must be at least 1");
}

TEST_CASE("schedules by constants, powers and functions have PyTorch's rates, and go on from their state", "[golden]") {
  using namespace optim;
  has_rates("constant", [](Optimizer& o) { return std::make_shared<ConstantLR>(o); });
  has_rates("constant_long", [](Optimizer& o) { return std::make_shared<ConstantLR>(o, 0.7, 60); });
  has_rates("polynomial", [](Optimizer& o) { return std::make_shared<PolynomialLR>(o, 40); });
  has_rates("polynomial_square", [](Optimizer& o) { return std::make_shared<PolynomialLR>(o, 90, 2.5); });
  has_rates("lambda", [](Optimizer& o) {
    return std::make_shared<LambdaLR>(o, [](std::int64_t t) { return std::pow(0.95, t); });
  });
  has_rates("lambda_each", [](Optimizer& o) {
    return std::make_shared<LambdaLR>(
        o, std::vector<LRLambda>{[](std::int64_t t) { return static_cast<double>(t / 30); },
                                 [](std::int64_t t) { return 1 / (1. + static_cast<double>(t)); }});
  });
  has_rates("multiplicative", [](Optimizer& o) {
    return std::make_shared<MultiplicativeLR>(o, [](std::int64_t t) { return 1 - 1 / (1. + static_cast<double>(t)); });
  });
  has_rates("multiplicative_each", [](Optimizer& o) {
    return std::make_shared<MultiplicativeLR>(
        o, std::vector<LRLambda>{[](std::int64_t) { return 0.9; }, [](std::int64_t) { return 1.01; }});
  });

  SGD o({zeros({1}).requires_grad_()}, 0.1);
  const LRLambda one = [](std::int64_t) { return 1.; };
  CHECK_THROWS_WITH(ConstantLR(o, 1.5), "[ConstantLR] factor is 1.5: it must be above 0 and at most 1");
  CHECK_THROWS_WITH(ConstantLR(o, 0.5, 0), "[ConstantLR] total_iters is 0: it must be positive");
  CHECK_THROWS_WITH(PolynomialLR(o, 5, -1), "[PolynomialLR] power is -1: it must not be negative");
  CHECK_THROWS_WITH(LambdaLR(o, std::vector<LRLambda>{one, one}),
                    "[LambdaLR] there are 2 functions and 1 groups: one each is wanted");
  CHECK_THROWS_WITH(LambdaLR(o, LRLambda()), "[LambdaLR] the function of group 0 is empty: it must give a factor");
  CHECK_THROWS_WITH(LambdaLR(o, [](std::int64_t) { return NAN; }),
                    "[LambdaLR] the function gives nan at position 0: it must be finite");
  CHECK(o.lr() == 0.1);
}

TEST_CASE("clipping by any norm is PyTorch's", "[golden]") {
  for (const auto& [kind, norm_type] :
       std::vector<std::pair<std::string, double>>{{"0.5", 0.5}, {"1.0", 1}, {"2.0", 2}, {"3.0", 3}, {"inf", INFINITY}})
    for (const auto& [text, limit] : {std::pair<const char*, double>{"0.7", 0.7}, {"1e+06", 1e6}}) {
      const std::string name = "clipping/" + kind + '_' + text;
      INFO(name);
      std::vector<Tensor> ps;
      for (const std::string i : {"0", "1"}) {
        const Tensor g = golden(name + "/before." + i);
        ps.push_back(zeros(g.shape(), float64).requires_grad_());
        ps.back().set_grad(g.clone());
      }
      const double norm = optim::clip_grad_norm_(ps, limit, norm_type);
      CHECK(norm == Approx(golden(name + "/norm").item()).epsilon(1e-13));
      for (std::size_t i = 0; i < 2; ++i)
        CHECK(max_difference(ps[i].grad(), golden(name + "/after." + std::to_string(i))) < 1e-13);
    }
  Tensor p = zeros({2}).requires_grad_();
  p.set_grad(tensor({3., NAN}));
  CHECK_THROWS_WITH(optim::clip_grad_norm_({p}, 1, 0), "[clip_grad_norm_] norm_type is 0: it must be positive");
  CHECK_THROWS_WITH(optim::clip_grad_norm_({p}, 1, INFINITY, optim::error_if_nonfinite),
                    "[clip_grad_norm_] the norm of the gradients is nan: it must be finite");
}

namespace {

// Rosenbrock's valley in 6 dimensions, of a vector and a matrix.
struct Valley {
  explicit Valley(const Tensor& start, DType dtype = float64)
      : a(slice(start, 0, 0, 2).to(dtype).clone().requires_grad_()),
        b(slice(start, 0, 2, 6).reshape({2, 2}).to(dtype).clone().requires_grad_()) {}
  Tensor loss() const {
    const Tensor x = cat({a, b.flatten()}), left = slice(x, 0, 0, 5), right = slice(x, 0, 1, 6);
    return sum(100 * square(right - square(left)) + square(1 - left));
  }
  Tensor place() const { return cat({a.detach(), b.detach().flatten()}); }
  Callable<Tensor()> closure(optim::LBFGS& o) {
    return [this, &o] {
      o.zero_grad();
      const Tensor value = loss();
      value.backward();
      return value;
    };
  }
  Tensor a, b;
};

}  // namespace

TEST_CASE("LBFGS follows PyTorch's path, and goes on from its state", "[golden]") {
  using optim::LBFGSOptions, optim::LineSearch;
  const auto wolfe = LineSearch::strong_wolfe;
  const Tensor start = golden("lbfgs/start");
  for (const auto& [name, options] : std::vector<std::pair<std::string, LBFGSOptions>>{
           {"plain", LBFGSOptions().lr(1e-3).max_iter(4)},
           {"wolfe", LBFGSOptions().max_iter(6).line_search_fn(wolfe)},
           {"short", LBFGSOptions().max_iter(8).max_eval(5).history_size(2).line_search_fn(wolfe)},
           {"long", LBFGSOptions().lr(3).max_iter(40).max_eval(60).line_search_fn(wolfe)}}) {
    INFO(name);
    const Tensor path = golden("lbfgs/" + name);
    Valley first(start), second(start);
    optim::LBFGS one({first.a, first.b}, options), other({second.a, second.b}, options);
    for (std::int64_t t = 0; t < 5; ++t) {
      if (t == 2) {  // another one takes its place
        const NoGrad no_grad;
        second.a.copy_(first.a), second.b.copy_(first.b);
        other.load_state_dict(one.state_dict());
      }
      const double loss = one.step(first.closure(one));
      CHECK(loss == Approx(path[{t, 6}].item()).epsilon(1e-6).margin(1e-12));
      CHECK(max_difference(first.place(), slice(path[t], 0, 0, 6)) < 1e-6);
      if (t < 2) continue;
      other.step(second.closure(other));
      CHECK(same_bits(first.place(), second.place()));
    }
  }
}

TEST_CASE("LBFGS asks for the loss where PyTorch does, wherever the search along a line leads", "[golden]") {
  for (int i = 0; i < 12; ++i) {
    CAPTURE(i);
    const std::string name = "line_searches/" + std::to_string(i);
    const Tensor given = golden(name + "/options"), path = golden(name + "/path");
    Tensor p = slice(given, 0, 0, 2).clone().requires_grad_();
    const double waves = given[2].item();
    optim::LBFGS optimizer({p}, optim::LBFGSOptions()
                                    .lr(given[3].item())
                                    .max_iter(static_cast<std::int64_t>(given[4].item()))
                                    .max_eval(static_cast<std::int64_t>(given[5].item()))
                                    .line_search_fn(optim::LineSearch::strong_wolfe));
    std::vector<Tensor> seen;
    const auto closure = [&] {
      optimizer.zero_grad();
      const Tensor x = p[0], y = p[1];
      const Tensor loss = sin(waves * x) + cos(2 * y) + 0.1 * (x * x + y * y) + 0.05 * x * y;
      loss.backward();
      seen.push_back(cat({p.detach().clone(), loss.detach().reshape({1})}));
      return loss;
    };
    optimizer.step(closure), optimizer.step(closure);
    REQUIRE(static_cast<std::int64_t>(seen.size()) == path.size(0));
    CHECK(max(abs(stack(seen) - path) / (1 + abs(path))).item() < 1e-9);
  }
}

TEST_CASE("LBFGS goes where PyTorch does, whatever losses and slopes it is told", "[golden]") {
  for (int i = 0; i < 19; ++i) {
    CAPTURE(i);
    const std::string name = "told_losses/" + std::to_string(i);
    const Tensor given = golden(name + "/options"), told = golden(name + "/told"), places = golden(name + "/places");
    Tensor p = zeros({1}, float64).requires_grad_();
    optim::LBFGS optimizer(
        {p}, optim::LBFGSOptions()
                 .lr(given[0].item())
                 .max_iter(given[1].item<std::int64_t>())
                 .max_eval(given[2].item<std::int64_t>())
                 .tolerance_grad(given[3].item())
                 .tolerance_change(given[4].item())
                 .line_search_fn(given[5].item() != 0 ? optim::LineSearch::strong_wolfe : optim::LineSearch::none));
    std::vector<double> seen;
    optimizer.step([&] {
      const std::int64_t at = std::min(static_cast<std::int64_t>(seen.size()), told.size(0) - 1);
      seen.push_back(p.item());
      p.set_grad(told[{at, range(1, 2)}].clone());
      return told[{at, 0}];
    });
    seen.push_back(p.item());
    REQUIRE(static_cast<std::int64_t>(seen.size()) == places.size(0));
    const Tensor error = abs(tensor(seen, places.shape()) - places);
    CHECK(all(error <= 1e-9 * abs(places)).item<bool>());
  }
}

TEST_CASE("LBFGS and Adafactor take the least that is allowed, and LBFGS a state from before its first step") {
  const Tensor start = golden("lbfgs/start");
  Valley valley(start);
  optim::LBFGS optimizer({valley.a, valley.b}, optim::LBFGSOptions().lr(1e-3).max_iter(1).history_size(1));
  CHECK_NOTHROW(optimizer.load_state_dict(optim::LBFGS({valley.a, valley.b}).state_dict()));
  const double first = optimizer.step(valley.closure(optimizer));
  CHECK(optimizer.step(valley.closure(optimizer)) < first);
  CHECK_NOTHROW(optim::Adafactor({valley.a, valley.b}, optim::AdafactorOptions().beta2_decay(0).d(1)));
}

TEST_CASE("LBFGS leaves the parameters where they were if a loss is not finite, and refuses bad arguments") {
  const Tensor start = golden("lbfgs/start");
  Valley valley(start, float32);
  optim::LBFGS optimizer({valley.a, valley.b});
  int calls = 0;
  CHECK_THROWS_WITH(optimizer.step([&] {
    const Tensor loss = valley.closure(optimizer)();
    return ++calls == 3 ? loss * NAN : loss;
  }),
                    Contains("[LBFGS] the loss is nan, the largest gradient ") && Contains("both must be finite"));
  CHECK(calls == 3);
  CHECK(same_bits(valley.place(), start.to(float32)));
  CHECK(optimizer.state_dict().size() == 2);  // no step was made
  CHECK_THROWS_WITH(optimizer.step([&] { return valley.a * 1; }),
                    "[LBFGS] the loss is of shape [2]: the closure must give one number");
  CHECK_THROWS_WITH(optimizer.step({}),
                    "[LBFGS] the closure is empty: it must compute the gradients and give the loss");
  optimizer.options().max_iter(0);
  CHECK_THROWS_WITH(optimizer.step([&] { return valley.loss(); }), "[LBFGS] max_iter is 0: it must be positive");
  CHECK_THROWS_WITH(optim::LBFGS({valley.a, zeros({1}, float64).requires_grad_()}),
                    "[LBFGS] the parameter 1 is float64, 0 float32: all must have one type");
  CHECK_THROWS_WITH(optim::LBFGS({valley.a, valley.a}),
                    Contains("[LBFGS] the parameter 1 of shape [2] is there twice"));
  CHECK_THROWS_WITH(optimizer.load_state_dict({{"n_iter", full({}, 3, int64)}, {"func_evals", full({}, 3, int64)}}),
                    Contains("that is no state of LBFGS"));
}

}  // namespace fit::test::training_golden_test
