#include "fit/nn/optim/schedule.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "fit/nn/optim/optim.hpp"
#include "fit/ops/ops.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/oracles/golden.hpp"
#include "support/tensors.hpp"

namespace fit::test::schedule_test {
using Catch::Contains;
using fit::test::Golden;
using fit::test::same_bits;

namespace {

Tensor leaf() { return zeros({1}).requires_grad_(); }

template <class F>
std::string written_to_stderr(const F& f) {
  const test::Directory folder;
  const std::string path = folder.file("stderr.txt");
  std::fflush(stderr);
  const int kept = dup(2);
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  dup2(file, 2), close(file);
  f();
  std::fflush(stderr);
  dup2(kept, 2), close(kept);
  return test::get(path);
}

// Two groups, as tests/golden/generate.py has them.
optim::SGD two_groups() {
  return optim::SGD({{{leaf()}, optim::SGDOptions().lr(0.5)}, {{leaf()}, optim::SGDOptions().lr(0.02)}});
}

template <class S, class... Options>
std::shared_ptr<optim::Schedule> make(optim::Optimizer& optimizer, const Options&... options) {
  return std::make_shared<S>(optimizer, options...);
}

void check_rates(const optim::Optimizer& optimizer, const Tensor& path, std::int64_t t) {
  INFO("position " << t);
  for (std::size_t g = 0; g < optimizer.groups(); ++g) {
    const double right = std::max(0., index(path, {t, static_cast<std::int64_t>(g)}).item());  // PyTorch's may be below
    CHECK(std::abs(optimizer.lr(g) - right) <= 1e-12 * std::abs(right));
  }
}

using Make = Callable<std::shared_ptr<optim::Schedule>(optim::Optimizer&)>;

// PyTorch's rates at positions 0 to 100; and the same when the second half is done by a new optimiser and schedule,
// which got the state of the first.
void follow(const std::string& name, const Make& make_schedule) {
  INFO(name);
  const Tensor path = Golden("schedules/" + name)("path");
  auto optimizer = two_groups();
  const auto schedule = make_schedule(optimizer);
  StateDict saved;
  for (std::int64_t t = 0; t < path.size(0); ++t) {
    CHECK(schedule->position() == t);
    check_rates(optimizer, path, t);
    if (t == 43) saved = schedule->state_dict();
    if (t + 1 < path.size(0)) schedule->step();
  }
  auto other = two_groups();
  const auto resumed = make_schedule(other);
  resumed->load_state_dict(saved);
  for (std::int64_t t = 43; t < path.size(0); ++t) {
    CHECK(resumed->position() == t);
    check_rates(other, path, t);
    if (t + 1 < path.size(0)) resumed->step();
  }
  CHECK(other.lr() == optimizer.lr());
  CHECK(other.lr(1) == optimizer.lr(1));
}

}  // namespace

TEST_CASE("schedules have PyTorch's rates, and go on from their state", "[golden]") {
  using namespace optim;
  auto linear = OneCycleOptions().pct_start(0.4);
  OneCycleOptions three;
  linear.anneal_strategy(Anneal::linear);
  linear.div_factor(10).final_div_factor(100);
  three.pct_start(0.35).three_phase(true);
  follow("step", [](Optimizer& o) { return make<StepLR>(o, 7, 0.5); });
  follow("multi_step", [](Optimizer& o) {
    return make<MultiStepLR>(o, std::vector<std::int64_t>{3, 10, 10, 50}, 0.3);
  });
  follow("exponential", [](Optimizer& o) { return make<ExponentialLR>(o, 0.95); });
  follow("linear", [](Optimizer& o) { return make<LinearLR>(o); });
  follow("linear_down", [](Optimizer& o) { return make<LinearLR>(o, 1., 0.2, 30); });
  follow("cosine", [](Optimizer& o) { return make<CosineAnnealingLR>(o, 30, 0.001); });
  follow("restarts", [](Optimizer& o) { return make<CosineAnnealingWarmRestarts>(o, 10, 2, 0.001); });
  follow("restarts_equal", [](Optimizer& o) { return make<CosineAnnealingWarmRestarts>(o, 9); });
  follow("one_cycle", [](Optimizer& o) { return make<OneCycleLR>(o, 0.3, 100); });
  follow("one_cycle_linear", [&](Optimizer& o) { return make<OneCycleLR>(o, 0.3, 100, linear); });
  follow("one_cycle_three", [&](Optimizer& o) { return make<OneCycleLR>(o, 0.3, 110, three); });
  follow("sequential", [](Optimizer& o) {
    const std::vector<std::shared_ptr<Schedule>> parts{make<LinearLR>(o, 0.1, 1., 10),
                                                       make<CosineAnnealingLR>(o, 50, 0.001), make<StepLR>(o, 5, 0.5)};
    return make<SequentialLR>(o, parts, std::vector<std::int64_t>{10, 60});
  });
  follow("chained", [](Optimizer& o) {
    const std::vector<std::shared_ptr<Schedule>> parts{make<LinearLR>(o, 0.2, 1., 10), make<ExponentialLR>(o, 0.97),
                                                       make<CosineAnnealingLR>(o, 120)};
    return make<ChainedScheduler>(o, parts);
  });
}

TEST_CASE("one cycle moves the momentum as PyTorch does, which a resumed optimiser goes on with", "[golden]") {
  using namespace optim;
  const auto check = [](const std::string& name, const auto& make_optimizer, const auto& momentum_of,
                        const OneCycleOptions& options) {
    INFO(name);
    const Tensor path = Golden("schedules/one_cycle_" + name)("path");
    auto optimizer = make_optimizer(), other = make_optimizer();
    OneCycleLR schedule(optimizer, 0.3, 101, options), resumed(other, 0.3, 101, options);
    for (std::int64_t t = 0; t < path.size(0); ++t) {
      CHECK(optimizer.lr() == Approx(path[{t, 0}].item()).epsilon(1e-12));
      CHECK(momentum_of(optimizer.options()) == Approx(path[{t, 1}].item()).epsilon(1e-12));
      if (t == 43) other.load_state_dict(optimizer.state_dict()), resumed.load_state_dict(schedule.state_dict());
      if (t >= 43) CHECK(momentum_of(other.options()) == momentum_of(optimizer.options()));
      if (t >= 43) resumed.step();
      schedule.step();
    }
  };
  OneCycleOptions two, three;
  two.cycle_momentum(true), three.cycle_momentum(true);
  three.three_phase(true).pct_start(0.35).anneal_strategy(Anneal::linear).base_momentum(0.8).max_momentum(0.9);
  check(
      "momentum", [] { return SGD({leaf()}, 0.1, 0.9); }, [](const SGDOptions& o) { return o.momentum(); }, two);
  check(
      "betas", [] { return Adam({leaf()}, 0.1); }, [](const AdamOptions& o) { return o.beta1(); }, three);

  Adagrad none({leaf()}, 0.1);
  CHECK_THROWS_WITH(OneCycleLR(none, 0.1, 5, two),
                    Contains("[OneCycleLR] the optimiser has neither momentum nor beta1"));
  three.max_momentum(1);
  SGD sgd({leaf()}, 0.1);
  CHECK_THROWS_WITH(OneCycleLR(sgd, 0.1, 5, three), Contains("max_momentum is 1"));
  CHECK_THROWS_WITH(OneCycleLR(sgd, 0.1, 5, OneCycleOptions().base_momentum(0.8)),
                    Contains("base_momentum is 0.8, max_momentum 0.95, but cycle_momentum is false"));
}

TEST_CASE("reduction on a plateau is PyTorch's, and goes on from its state", "[golden]") {
  const auto check = [](const std::string& name, double sign, const optim::PlateauOptions& options) {
    INFO(name);
    const Tensor metrics = Golden("schedules")("metrics"), path = Golden("schedules/" + name)("path");
    auto optimizer = two_groups(), other = two_groups();
    optim::ReduceLROnPlateau schedule(optimizer, options), resumed(other, options);
    check_rates(optimizer, path, 0);
    for (std::int64_t t = 0; t < metrics.size(0); ++t) {
      const double metric = sign * index(metrics, {t}).item();
      if (t == 37) resumed.load_state_dict(schedule.state_dict());
      schedule.step(metric);
      check_rates(optimizer, path, t + 1);
      if (t < 37) continue;
      resumed.step(metric);
      check_rates(other, path, t + 1);
    }
    CHECK(resumed.best() == schedule.best());
    CHECK(optimizer.lr() < 0.5);
  };
  const auto plain = optim::PlateauOptions().patience(4);
  optim::PlateauOptions max;
  optim::PlateauOptions floor;
  max.mode(optim::PlateauOptions::Mode::max);
  max.threshold_mode(optim::PlateauOptions::Threshold::abs).factor(0.5).patience(2).threshold(0.01).cooldown(3);
  floor.factor(0.5).patience(0).threshold(0.2).min_lr(0.01).eps(1e-3);
  check("plateau", 1, plain);
  check("plateau_max", -1, max);
  check("plateau_floor", 1, floor);
}

TEST_CASE("a plateau of negative numbers is one, with a relative threshold of any size") {
  const auto rate_after = [](const optim::PlateauOptions& options, const std::vector<double>& metrics) {
    optim::SGD optimizer({leaf()}, 1.);
    optim::ReduceLROnPlateau schedule(optimizer, optim::PlateauOptions(options).factor(0.5).patience(2));
    for (const double metric : metrics) schedule.step(metric);
    return optimizer.lr();
  };
  const optim::PlateauOptions falls;
  const auto rises = optim::PlateauOptions().mode(optim::PlateauOptions::Mode::max);
  CHECK(rate_after(falls, {-10, -10, -10, -10}) == 0.5);
  CHECK(rate_after(falls, {-10, -9.9995, -9.999, -9.9985}) == 0.5);      // it gets worse, by less than a threshold
  CHECK(rate_after(falls, {-10, -10.0005, -10.0007, -10.0009}) == 0.5);  // better, by less than the threshold
  CHECK(rate_after(falls, {-10, -10.002, -10.004, -10.006}) == 1);
  CHECK(rate_after(falls, {0.001, -0.001, -0.0011, -0.0012}) == 1);
  CHECK(rate_after(rises, {-10, -10, -10, -10}) == 0.5);
  CHECK(rate_after(rises, {-10, -9.9995, -9.9993, -9.9991}) == 0.5);
  CHECK(rate_after(rises, {-10, -9.998, -9.996, -9.994}) == 1);
  CHECK(rate_after(optim::PlateauOptions().threshold(1), {5, -1, -3, -7}) == 1);  // the first is better than none
}

TEST_CASE("Noam's schedule is its paper's formula") {
  optim::Adam optimizer({leaf()}, 2.);
  optim::NoamLR schedule(optimizer, 64, 10);
  for (int step = 1; step <= 100; ++step) {
    CHECK(optimizer.lr() ==
          Approx(2 * std::pow(64., -0.5) * std::min(std::pow(step, -0.5), step * std::pow(10., -1.5))).epsilon(1e-13));
    schedule.step();
  }
}

TEST_CASE("a schedule takes up a rate that was set by hand, and the base rate is the first") {
  optim::SGD optimizer({leaf()}, 0.8);
  const optim::LinearLR warmup(optimizer, 0.25, 1, 4);
  CHECK(optimizer.lr() == 0.2);
  optim::CosineAnnealingWarmRestarts cosine(optimizer, 4);  // its base is 0.8, not 0.2
  CHECK(optimizer.lr() == 0.8);
  optim::StepLR halves(optimizer, 1, 0.5);
  optimizer.set_lr(0.1);
  halves.step();
  CHECK(optimizer.lr() == 0.05);
}

TEST_CASE("a rate that falls to 0 does not round below it") {
  for (const double start : {0.1, 1. / 3, 1.}) {
    const Tensor w = leaf();
    optim::SGD optimizer({w}, 0.02);
    optim::LinearLR schedule(optimizer, start, 0, 5);
    for (int t = 0; t < 8; ++t) {
      optimizer.step();
      schedule.step();
      CHECK(optimizer.lr() >= 0);
    }
    CHECK(optimizer.lr() < 1e-17);
  }
}

namespace {

// A schedule and its factor of the base rate at position t, by its formula.
struct Factor {
  std::string name;
  Make make;
  Callable<double(double t, double base)> factor;
};

std::vector<Factor> factors() {
  using namespace optim;
  const double pi = std::acos(-1.);
  const auto falling = [](double t) { return 1 / (1 + 0.1 * t); };
  const auto restarted = [=](double t) {
    double period = 3;
    for (; t >= period; period *= 2) t -= period;
    return (1 + std::cos(pi * t / period)) / 2;
  };
  return {
      {"StepLR", [](Optimizer& o) { return make<StepLR>(o, 3, 0.7); },
       [](double t, double) { return std::pow(0.7, std::floor(t / 3)); }},
      {"MultiStepLR",
       [](Optimizer& o) {
         return make<MultiStepLR>(o, std::vector<std::int64_t>{2, 5, 5}, 0.3);
       },
       [](double t, double) { return std::pow(0.3, (t >= 2) + 2 * (t >= 5)); }},
      {"ExponentialLR", [](Optimizer& o) { return make<ExponentialLR>(o, 0.93); },
       [](double t, double) { return std::pow(0.93, t); }},
      {"LinearLR", [](Optimizer& o) { return make<LinearLR>(o, 0.2, 0.8, 6); },
       [](double t, double) { return 0.2 + 0.1 * std::min(t, 6.); }},
      {"ConstantLR", [](Optimizer& o) { return make<ConstantLR>(o, 0.3, 4); },
       [](double t, double) { return t < 4 ? 0.3 : 1; }},
      {"PolynomialLR", [](Optimizer& o) { return make<PolynomialLR>(o, 15, 1.7); },
       [](double t, double) { return std::pow(1 - std::min(t, 15.) / 15, 1.7); }},
      {"LambdaLR", [=](Optimizer& o) { return make<LambdaLR>(o, LRLambda(falling)); },
       [=](double t, double) { return falling(t); }},
      {"MultiplicativeLR", [=](Optimizer& o) { return make<MultiplicativeLR>(o, LRLambda(falling)); },
       [=](double t, double) { return t == 0 ? 1 : std::tgamma(11.) * std::pow(10., t) / std::tgamma(t + 11); }},
      {"CosineAnnealingLR", [](Optimizer& o) { return make<CosineAnnealingLR>(o, 7); },
       [=](double t, double) { return (1 + std::cos(pi * t / 7)) / 2; }},
      {"CosineAnnealingLR with a minimum", [](Optimizer& o) { return make<CosineAnnealingLR>(o, 7, 0.001); },
       [=](double t, double base) { return (0.001 + (base - 0.001) * (1 + std::cos(pi * t / 7)) / 2) / base; }},
      {"CosineAnnealingWarmRestarts", [](Optimizer& o) { return make<CosineAnnealingWarmRestarts>(o, 3, 2); },
       [=](double t, double) { return restarted(t); }},
      {"WarmupStableDecayLR", [](Optimizer& o) { return make<WarmupStableDecayLR>(o, 20, 4, 8, 0.1); },
       [](double t, double) {
         const double left = std::max(0., 20 - t) / 8;
         return t < 4 ? (t + 1) / 4 : t < 12 ? 1 : left + (1 - left) * 0.1;
       }},
      {"WarmupCosineLR", [](Optimizer& o) { return make<WarmupCosineLR>(o, 18, 4, 0.1); },
       [=](double t, double) {
         return t < 4 ? t / 4 : 0.1 + 0.9 * (1 + std::cos(pi * (std::min(t, 18.) - 4) / 14)) / 2;
       }},
      {"NoamLR", [](Optimizer& o) { return make<NoamLR>(o, 16, 5); },
       [](double t, double) { return std::min(1 / std::sqrt(t + 1), (t + 1) * std::pow(5, -1.5)) / 4; }},
  };
}

std::vector<double> rates_of(const optim::Optimizer& o) { return {o.lr(0), o.lr(1)}; }

constexpr std::int64_t last = 25;

// The rates of a schedule at positions 0 … last.
std::vector<std::vector<double>> path_of(const Make& make_schedule) {
  auto optimizer = two_groups();
  const auto schedule = make_schedule(optimizer);
  std::vector<std::vector<double>> path{rates_of(optimizer)};
  while (schedule->position() < last) schedule->step(), path.push_back(rates_of(optimizer));
  return path;
}

// A chain has the product of the factors; also when it is saved and resumed in the middle, and in a sequence.
void check_chain(const std::vector<Factor>& parts) {
  const Make chain = [&](optim::Optimizer& o) {
    std::vector<std::shared_ptr<optim::Schedule>> inner;
    for (const Factor& f : parts) inner.push_back(f.make(o));
    return make<optim::ChainedScheduler>(o, inner);
  };
  std::string names;
  for (const Factor& f : parts) names += f.name + ' ';
  INFO(names);
  const auto path = path_of(chain);
  double worst = 0;
  for (std::size_t t = 0; t < path.size(); ++t)
    for (const auto& [g, base] : {std::pair(0, 0.5), std::pair(1, 0.02)}) {
      double right = base;
      for (const Factor& f : parts) right *= f.factor(static_cast<double>(t), base);
      worst = std::max(worst, std::abs(path[t][static_cast<std::size_t>(g)] - right) / (right + 1e-4 * base));
    }
  CHECK(worst < 1e-11);

  auto first = two_groups(), second = two_groups();
  const auto saved = chain(first), resumed = chain(second);
  for (int t = 0; t < 9; ++t) saved->step();
  resumed->load_state_dict(saved->state_dict());
  bool same = true;
  for (std::size_t t = 9; t < path.size(); ++t, resumed->step()) same = same && rates_of(second) == path[t];
  CHECK(same);

  const auto sequence = path_of([&](optim::Optimizer& o) {
    return make<optim::SequentialLR>(
        o, std::vector<std::shared_ptr<optim::Schedule>>{make<optim::ExponentialLR>(o, 0.5), chain(o)},
        std::vector<std::int64_t>{4});
  });
  CHECK(std::equal(sequence.begin() + 4, sequence.end(), path.begin()));
}

}  // namespace

TEST_CASE("the factors of chained schedules multiply: every pair, some triples, at every step") {
  const std::vector<Factor> all = factors();
  for (const Factor& one : all) check_chain({one});
  for (const Factor& one : all)
    for (const Factor& other : all) check_chain({one, other});
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const std::size_t step : {1u, 4u}) check_chain({all[i], all[(i + step) % 13], all[(i + 2 * step + 1) % 13]});

  const auto rate = [&](std::size_t one, std::size_t other, std::size_t t) {
    return path_of([&](optim::Optimizer& o) {
      const std::vector<std::shared_ptr<optim::Schedule>> parts{all[one].make(o), all[other].make(o)};
      return make<optim::ChainedScheduler>(o, parts);
    })[t][1];
  };
  REQUIRE(all[10].name == "CosineAnnealingWarmRestarts");
  CHECK(rate(1, 10, 2) == Approx(0.0015).epsilon(1e-13));
  CHECK(rate(3, 10, 0) == Approx(0.004).epsilon(1e-13));
}

TEST_CASE("a chain goes on from a rate that was set by hand") {
  using namespace optim;
  auto optimizer = two_groups(), other = two_groups();
  const auto chain = [](Optimizer& o) {
    const std::vector<std::shared_ptr<Schedule>> parts{make<CosineAnnealingWarmRestarts>(o, 4),
                                                       make<ExponentialLR>(o, 0.9)};
    return make<ChainedScheduler>(o, parts);
  };
  const auto schedule = chain(optimizer), undisturbed = chain(other);
  for (int t = 0; t < 11; ++t) {
    if (t == 3) optimizer.set_lr(1, optimizer.lr(1) / 4);
    if (t >= 3) CHECK(optimizer.lr(1) == Approx(other.lr(1) / 4).epsilon(1e-12));
    CHECK(optimizer.lr(0) == other.lr(0));
    schedule->step(), undisturbed->step();
  }
}

TEST_CASE("what is no factor of the base rate is refused in a chain") {
  using namespace optim;
  SGD optimizer({leaf()}, 1.);
  const auto cycle = make<OneCycleLR>(optimizer, 0.1, 5), half = make<ExponentialLR>(optimizer, 0.5);
  const auto sequence = std::make_shared<SequentialLR>(optimizer, std::vector<std::shared_ptr<Schedule>>{half, cycle},
                                                       std::vector<std::int64_t>{2});
  CHECK_THROWS_WITH(ChainedScheduler(optimizer, {half, cycle}),
                    "[ChainedScheduler] schedule 1, OneCycleLR, can't be multiplied with others: its rates follow from "
                    "max_lr, and not from the base rate; run it alone, or in a SequentialLR");
  CHECK_THROWS_WITH(ChainedScheduler(optimizer, {sequence, half}),
                    Contains("schedule 0, SequentialLR, can't be multiplied") && Contains("max_lr"));
  CHECK_NOTHROW(ChainedScheduler(optimizer, {cycle}));
  CHECK_THROWS_WITH(ChainedScheduler(optimizer, {half, half}), Contains("schedule 0 is there twice"));
}

TEST_CASE("schedules in sequence may be chains and sequences themselves") {
  using namespace optim;
  optim::SGD optimizer({leaf()}, 1.);
  const std::vector<std::shared_ptr<Schedule>> halves{make<ExponentialLR>(optimizer, 0.5),
                                                      make<ExponentialLR>(optimizer, 0.5)};
  const auto chain = make<ChainedScheduler>(optimizer, halves);
  const std::vector<std::shared_ptr<Schedule>> parts{make<LinearLR>(optimizer, 0.5, 1., 2), chain};
  SequentialLR schedule(optimizer, parts, {3});
  std::vector<double> rates;
  for (int t = 0; t < 6; ++t, schedule.step()) rates.push_back(optimizer.lr());
  CHECK(rates == std::vector<double>{0.5, 0.75, 1, 1, 0.25, 0.0625});
}

TEST_CASE("a MultiplicativeLR in a sequence starts from the base rate") {
  using namespace optim;
  optim::SGD optimizer({leaf()}, 1.);
  const auto half = [](std::int64_t) { return 0.5; };
  const std::vector<std::shared_ptr<Schedule>> parts{make<ExponentialLR>(optimizer, 0.5),
                                                     make<MultiplicativeLR>(optimizer, half)};
  SequentialLR schedule(optimizer, parts, {3});
  std::vector<double> rates;
  for (int t = 0; t < 6; ++t, schedule.step()) rates.push_back(optimizer.lr());
  CHECK(rates == std::vector<double>{1, 0.5, 0.25, 1, 0.5, 0.25});
}

TEST_CASE("a schedule's state is loaded whole or not at all") {
  optim::SGD optimizer({leaf()}, 1.);
  const auto step = make<optim::StepLR>(optimizer, 2);
  optim::SequentialLR schedule(optimizer, {step, make<optim::ExponentialLR>(optimizer, 0.5)}, {5});
  auto state = schedule.state_dict();
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state) names.push_back(name);
  CHECK(names == std::vector<std::string>{"lr", "position", "base_lr", "0.position", "0.base_lr", "1.position",
                                          "1.base_lr", "milestone_0", "0.step_size", "0.gamma", "1.gamma"});
  state[0].second = full({1}, 7., float64);
  state[3].first = "0.place";
  CHECK_THROWS_WITH(schedule.load_state_dict(state), Contains("this SequentialLR") &&
                                                         Contains("missing: 0.position []") &&
                                                         Contains("unexpected: 0.place []"));
  CHECK(optimizer.lr() == 1);
}

TEST_CASE("a schedule's state is not taken by one with other numbers") {
  using namespace optim;
  using Milestones = std::vector<std::int64_t>;
  SGD optimizer({leaf()}, SGDOptions().lr(1).momentum(0.9));
  const auto cycle = OneCycleOptions().cycle_momentum(true);
  const auto one_cycle = [&](const OneCycleOptions& o) { return make<OneCycleLR>(optimizer, 0.1, 10, o); };
  const auto refused = [](const auto& saved, const auto& schedule, const std::string& message) {
    CHECK_THROWS_WITH(schedule->load_state_dict(saved->state_dict()), Contains(message));
    CHECK_NOTHROW(saved->load_state_dict(saved->state_dict()));
  };
  const auto steps = make<MultiStepLR>(optimizer, Milestones{2, 4}, 0.5);
  refused(steps, make<MultiStepLR>(optimizer, Milestones{2, 5}, 0.5), "milestone_1 is 4 in the state, 5 here");
  refused(steps, make<MultiStepLR>(optimizer, Milestones{2, 4, 5}, 0.5), "milestones is 2 in the state, 3 here");
  refused(steps, make<MultiStepLR>(optimizer, Milestones{2, 4}, 0.1), "gamma is 0.5 in the state, 0.1 here");
  refused(one_cycle(cycle), one_cycle({}), "cycle_momentum is 1 in the state, 0 here");
  refused(one_cycle(cycle), one_cycle(OneCycleOptions(cycle).max_momentum(0.9)), "max_momentum is 0.95");
  refused(one_cycle({}), one_cycle(OneCycleOptions().three_phase(true)), "three_phase is 0 in the state, 1 here");
  refused(one_cycle({}), one_cycle(OneCycleOptions().anneal_strategy(Anneal::linear)), "anneal_strategy is 0");
  // More steps continue the constant part, and an earlier decay ends it.
  const auto stable = make<WarmupStableDecayLR>(optimizer, 20, 4, 8);
  CHECK_NOTHROW(make<WarmupStableDecayLR>(optimizer, 30, 4, 5)->load_state_dict(stable->state_dict()));
  refused(stable, make<WarmupStableDecayLR>(optimizer, 20, 3, 8), "warmup is 4 in the state, 3 here");
}

TEST_CASE("a schedule leaves the groups alone that were added after it, also when it is resumed") {
  using namespace optim;
  const Group<SGDOptions> added{{leaf()}, SGDOptions().lr(0.3)};
  SGD optimizer({leaf()}, 1.);
  StepLR schedule(optimizer, 1, 0.5);
  optimizer.add_param_group(added);
  schedule.step();
  CHECK(rates_of(optimizer) == std::vector<double>{0.5, 0.3});
  SGD again({leaf()}, 1.);
  again.add_param_group(added);
  StepLR resumed(again, 1, 0.5);  // of both groups
  again.load_state_dict(optimizer.state_dict());
  resumed.load_state_dict(schedule.state_dict());
  schedule.step(), resumed.step();
  CHECK(rates_of(again) == std::vector<double>{0.25, 0.3});
  CHECK(rates_of(optimizer) == rates_of(again));
  CHECK_THROWS_WITH(StepLR(optimizer, 1, 0.5).load_state_dict(StepLR(again, 2, 0.5).state_dict()),
                    Contains("step_size"));
}

TEST_CASE("schedules refuse bad arguments") {
  using namespace optim;
  SGD optimizer({leaf()}, 1.), other({leaf()}, 1.);
  const auto step = make<StepLR>(optimizer, 2);
  CHECK_THROWS_WITH(StepLR(optimizer, 0), Contains("[StepLR] step_size is 0: it must be positive"));
  CHECK_THROWS_WITH(LinearLR(optimizer, 0), Contains("start_factor is 0"));
  CHECK_THROWS_WITH(LinearLR(optimizer, 0.5, 2), Contains("end_factor is 2"));
  CHECK_THROWS_WITH(LinearLR(optimizer, 0.5, 1, 0), Contains("total_iters is 0"));
  CHECK_THROWS_WITH(CosineAnnealingLR(optimizer, -1), Contains("T_max is -1"));
  CHECK_THROWS_WITH(CosineAnnealingWarmRestarts(optimizer, 2, 0), Contains("T_mult is 0"));
  CHECK_THROWS_WITH(OneCycleLR(optimizer, 0.1, 0), Contains("total_steps is 0"));
  CHECK_THROWS_WITH(OneCycleLR(optimizer, 0.1, 5, OneCycleOptions().pct_start(1.5)), Contains("pct_start is 1.5"));
  CHECK_THROWS_WITH(NoamLR(optimizer, 64, 0), Contains("warmup_steps is 0"));
  CHECK_THROWS_WITH(SequentialLR(optimizer, {step}, {3}), Contains("there are 1 schedules and 1 milestones"));
  CHECK_THROWS_WITH(SequentialLR(optimizer, {step, step}, {0}), Contains("milestone 0 is 0"));
  CHECK_THROWS_WITH(SequentialLR(optimizer, {step, step, step}, {3, 3}), Contains("milestone 1 is 3"));
  CHECK_THROWS_WITH(SequentialLR(other, {step}, {}), Contains("schedule 0 belongs to another optimiser"));
  CHECK_THROWS_WITH(ChainedScheduler(optimizer, {}), Contains("there are no schedules"));
  CHECK_THROWS_WITH(ChainedScheduler(optimizer, {nullptr}), Contains("schedule 0 is null"));
  CHECK_THROWS_WITH(ReduceLROnPlateau(optimizer, PlateauOptions().mode(PlateauOptions::Mode::min).factor(1)),
                    Contains("factor is 1"));
  CHECK_THROWS_WITH(ReduceLROnPlateau(optimizer, PlateauOptions().patience(-1)),
                    Contains("patience is -1, cooldown 0: neither may be negative"));
  CHECK_THROWS_WITH(ReduceLROnPlateau(optimizer, PlateauOptions().cooldown(-2)), Contains("cooldown -2: neither"));
  CHECK_THROWS_WITH(StepLR(optimizer, 2, INFINITY), Contains("gamma is inf"));
  CHECK_THROWS_WITH(CosineAnnealingLR(optimizer, INT64_MAX), Contains("it must be at most 2^53"));
  CosineAnnealingWarmRestarts far(optimizer, 1 << 11, std::int64_t{1} << 53);  // their product is 2^64
  for (int i = 0; i < 5000; ++i) far.step();
  CHECK(optimizer.lr() == Approx(1));  // the second period has hardly begun
  OneCycleLR two(optimizer, 0.1, 2);
  two.step();
  two.step();
  CHECK_THROWS_WITH(two.step(), Contains("step 3 is past total_steps, 2"));
}

TEST_CASE("schedules: what is just at a bound") {
  using namespace optim;
  SGD optimizer({leaf()}, 1.);
  CHECK_THROWS_WITH(ConstantLR(optimizer, 0), Contains("factor is 0"));
  CHECK_THROWS_WITH(OneCycleLR(optimizer, 0.1, 5, OneCycleOptions().div_factor(0)), Contains("div_factor is 0"));
  CHECK_THROWS_WITH(OneCycleLR(optimizer, 0.1, 5, OneCycleOptions().final_div_factor(0)),
                    Contains("final_div_factor 0"));
  SGD first({leaf()}, 1.);  // one of ten steps is the whole way up
  OneCycleLR(first, 0.1, 10, OneCycleOptions().pct_start(0.1).cycle_momentum(false));
  CHECK(first.lr() == 0.1);
  std::vector<LRLambda> functions{[](std::int64_t) { return 0.5; }, {}};
  functions.pop_back();
  CHECK_NOTHROW(LambdaLR(optimizer, std::move(functions)));
  const auto rate_after = [](PlateauOptions::Mode mode, double eps) {
    SGD other({leaf()}, 1.);
    ReduceLROnPlateau schedule(other, PlateauOptions().mode(mode).factor(0.5).patience(0).threshold(0).eps(eps));
    for (int t = 0; t < 2; ++t) schedule.step(3);
    return other.lr();
  };
  for (const auto mode : {PlateauOptions::Mode::min, PlateauOptions::Mode::max}) {
    CHECK(rate_after(mode, 0.25) == 0.5);  // what is the same is not better
    CHECK(rate_after(mode, 0.5) == 1);     // a change of eps is none
  }
}

TEST_CASE("a schedule that multiplies a rate of 0 says so") {
  using namespace optim;
  const auto said = [](const auto& make, double lr) {
    SGD optimizer({leaf()}, 0.5);
    const CosineAnnealingLR before(optimizer, 2);
    optimizer.set_lr(lr);
    return written_to_stderr([&] {
      const auto schedule = make(optimizer);
      for (int t = 0; t < 2; ++t) schedule->step();
    });
  };
  const auto cosine = [](SGD& o) { return std::make_shared<CosineAnnealingLR>(o, 4); };
  const auto function = [](SGD& o) { return std::make_shared<LambdaLR>(o, [](std::int64_t t) { return t > 1; }); };
  const auto zero = [](SGD& o) { return std::make_shared<LambdaLR>(o, [](std::int64_t) { return 0; }); };
  const std::string stays = "[CosineAnnealingLR] the rate was 0 before this schedule";
  CHECK_THAT(said(cosine, 0), Contains(stays));
  CHECK_THAT(said(cosine, 0.5), !Contains(stays));
  CHECK_THAT(said(function, 0), !Contains("the rate was 0"));  // from the base rate
  CHECK_THAT(said(zero, 0), !Contains("the rate was 0"));
}

}  // namespace fit::test::schedule_test
