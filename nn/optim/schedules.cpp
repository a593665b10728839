#include <algorithm>
#include <cmath>

#include "common/functions.hpp"
#include "fit/nn/optim/schedule.hpp"
#include "optim/ranges.hpp"

// The schedules with one formula. Like PyTorch's, most compute a rate from the previous one, so a rate that was set by
// hand has an effect.
namespace fit::optim {
namespace {

const double pi = std::acos(-1.);

void check_positive(const char* op, const char* name, std::int64_t n) {
  if (n <= 0) check::fail(op, name, " is ", n, ": it must be positive");
  if (n > std::int64_t{1} << 53) check::fail(op, name, " is ", n, ": it must be at most 2^53");
}

void check_finite(const char* op, const char* name, double value) {
  if (!std::isfinite(value)) check::fail(op, name, " is ", value, ": it must be finite");
}

void check_lambdas(const char* op, const std::vector<LRLambda>& lambdas, const Optimizer& optimizer) {
  if (lambdas.size() != optimizer.groups())
    check::fail(op, "there are ", lambdas.size(), " functions and ", optimizer.groups(), " groups: one each is wanted");
  for (std::size_t g = 0; g < lambdas.size(); ++g)
    if (!lambdas[g]) check::fail(op, "the function of group ", g, " is empty: it must give a factor");
}

double factor_of(const char* op, const LRLambda& lambda, std::int64_t t) {
  const double factor = lambda(t);
  if (!std::isfinite(factor)) check::fail(op, "the function gives ", factor, " at position ", t, ": it must be finite");
  return factor;
}

void check_cycle(const char* op, const Optimizer& optimizer, const OneCycleOptions& options) {
  check_share(op, "base_momentum", options.base_momentum());
  check_share(op, "max_momentum", options.max_momentum());
  const OneCycleOptions usual;
  if (!options.cycle_momentum() &&
      (options.base_momentum() != usual.base_momentum() || options.max_momentum() != usual.max_momentum()))
    check::fail(op, "base_momentum is ", options.base_momentum(), ", max_momentum ", options.max_momentum(),
                ", but cycle_momentum is false, so neither has an effect: set it");
  if (options.cycle_momentum())
    for (std::size_t g = 0; g < optimizer.groups(); ++g)
      if (!optimizer.momentum(g))
        check::fail(op, "the optimiser has neither momentum nor beta1: there is none to move");
}

}  // namespace

StepLR::StepLR(Optimizer& optimizer, std::int64_t step_size, double gamma) : Schedule("StepLR", optimizer) {
  check_positive("StepLR", "step_size", step_size);
  check_finite("StepLR", "gamma", gamma);
  start([=](const At& a) { return a.t == 0 || a.t % step_size != 0 ? a.lr : a.lr * gamma; },
        {{"step_size", static_cast<double>(step_size)}, {"gamma", gamma}});
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, std::vector<std::int64_t> milestones, double gamma)
    : Schedule("MultiStepLR", optimizer) {
  check_finite("MultiStepLR", "gamma", gamma);
  Numbers numbers = numbers_of(milestones);
  numbers.emplace_back("milestones", static_cast<double>(milestones.size()));
  numbers.emplace_back("gamma", gamma);
  start(
      [milestones = std::move(milestones), gamma](const At& a) {
        const auto times = std::count(milestones.begin(), milestones.end(), a.t);
        return times == 0 ? a.lr : a.lr * nn::number::pow(gamma, static_cast<double>(times));
      },
      std::move(numbers));
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma) : Schedule("ExponentialLR", optimizer) {
  check_finite("ExponentialLR", "gamma", gamma);
  start([=](const At& a) { return a.t == 0 ? a.lr : a.lr * gamma; }, {{"gamma", gamma}});
}

LinearLR::LinearLR(Optimizer& optimizer, double start_factor, double end_factor, std::int64_t total_iters)
    : Schedule("LinearLR", optimizer) {
  constexpr const char* op = "LinearLR";
  if (!(start_factor > 0 && start_factor <= 1))
    check::fail(op, "start_factor is ", start_factor, ": it must be above 0 and at most 1");
  if (!(end_factor >= 0 && end_factor <= 1)) check::fail(op, "end_factor is ", end_factor, ": it must be in 0 … 1");
  check_positive(op, "total_iters", total_iters);
  start(
      [=](const At& a) {
        if (a.t == 0) return a.lr * start_factor;
        if (a.t > total_iters) return a.lr;
        const double rise = end_factor - start_factor;
        return a.lr *
               (1 + rise / (static_cast<double>(total_iters) * start_factor + static_cast<double>(a.t - 1) * rise));
      },
      {{"start_factor", start_factor}, {"end_factor", end_factor}, {"total_iters", static_cast<double>(total_iters)}});
}

ConstantLR::ConstantLR(Optimizer& optimizer, double factor, std::int64_t total_iters)
    : Schedule("ConstantLR", optimizer) {
  if (!(factor > 0 && factor <= 1))
    check::fail("ConstantLR", "factor is ", factor, ": it must be above 0 and at most 1");
  check_positive("ConstantLR", "total_iters", total_iters);
  start(
      [=](const At& a) {
        if (a.t == 0) return a.lr * factor;
        return a.t == total_iters ? a.lr * (1 / factor) : a.lr;
      },
      {{"factor", factor}, {"total_iters", static_cast<double>(total_iters)}});
}

PolynomialLR::PolynomialLR(Optimizer& optimizer, std::int64_t total_iters, double power)
    : Schedule("PolynomialLR", optimizer) {
  check_positive("PolynomialLR", "total_iters", total_iters);
  check_not_negative("PolynomialLR", "power", power);
  start(
      [=](const At& a) {
        if (a.t == 0 || a.t > total_iters) return a.lr;
        const auto left = [&](std::int64_t t) { return 1 - static_cast<double>(t) / static_cast<double>(total_iters); };
        return a.lr * nn::number::pow(left(a.t) / left(a.t - 1), power);
      },
      {{"total_iters", static_cast<double>(total_iters)}, {"power", power}});
}

LambdaLR::LambdaLR(Optimizer& optimizer, const LRLambda& lr_lambda)
    : LambdaLR(optimizer, std::vector<LRLambda>(optimizer.groups(), lr_lambda)) {}

LambdaLR::LambdaLR(Optimizer& optimizer, std::vector<LRLambda> lr_lambdas) : Schedule("LambdaLR", optimizer) {
  check_lambdas("LambdaLR", lr_lambdas, optimizer);
  start(
      [lambdas = std::move(lr_lambdas)](const At& a) { return a.base * factor_of("LambdaLR", lambdas[a.group], a.t); });
}

MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, const LRLambda& lr_lambda)
    : MultiplicativeLR(optimizer, std::vector<LRLambda>(optimizer.groups(), lr_lambda)) {}

MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, std::vector<LRLambda> lr_lambdas)
    : Schedule("MultiplicativeLR", optimizer) {
  check_lambdas("MultiplicativeLR", lr_lambdas, optimizer);
  start([lambdas = std::move(lr_lambdas)](const At& a) {
    return a.t == 0 ? a.lr : a.lr * factor_of("MultiplicativeLR", lambdas[a.group], a.t);
  });
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, std::int64_t T_max, double eta_min)
    : Schedule("CosineAnnealingLR", optimizer) {
  check_positive("CosineAnnealingLR", "T_max", T_max);
  check_not_negative("CosineAnnealingLR", "eta_min", eta_min);
  start(
      [=](const At& a) {
        if (a.t == 0) return a.lr;
        const auto wave = [&](std::int64_t t) {
          return 1 + nn::number::cos(pi * static_cast<double>(t) / static_cast<double>(T_max));
        };
        if ((a.t - 1 - T_max) % (2 * T_max) == 0)  // after the lowest point, the ratio below is 0 / 0
          return a.lr + (a.base - eta_min) * (1 - nn::number::cos(pi / static_cast<double>(T_max))) / 2;
        return wave(a.t) / wave(a.t - 1) * (a.lr - eta_min) + eta_min;
      },
      {{"T_max", static_cast<double>(T_max)}, {"eta_min", eta_min}});
}

WarmupStableDecayLR::WarmupStableDecayLR(Optimizer& optimizer, std::int64_t steps, std::int64_t warmup,
                                         std::int64_t decay, double min_factor)
    : Schedule("WarmupStableDecayLR", optimizer) {
  constexpr const char* op = "WarmupStableDecayLR";
  check_positive(op, "steps", steps);
  if (warmup < 0 || decay < 0 || warmup > steps - decay)
    check::fail(op, "warmup is ", warmup, ", decay ", decay, ", steps ", steps,
                ": neither may be negative, and together they must be at most steps");
  if (!(min_factor >= 0 && min_factor <= 1)) check::fail(op, "min_factor is ", min_factor, ": it must be in 0 … 1");
  // `steps` and `decay` may be others when a training is continued, or when it ends earlier.
  start(
      [=](const At& a) {
        if (a.t < warmup) return a.base * static_cast<double>(a.t + 1) / static_cast<double>(warmup);
        if (a.t < steps - decay || decay == 0) return a.base;
        const double left = static_cast<double>(std::max<std::int64_t>(0, steps - a.t)) / static_cast<double>(decay);
        return a.base * (left + (1 - left) * min_factor);
      },
      {{"warmup", static_cast<double>(warmup)}, {"min_factor", min_factor}});
}

WarmupCosineLR::WarmupCosineLR(Optimizer& optimizer, std::int64_t steps, std::int64_t warmup, double min_factor)
    : Schedule("WarmupCosineLR", optimizer) {
  constexpr const char* op = "WarmupCosineLR";
  check_positive(op, "steps", steps);
  if (warmup < 0 || warmup >= steps)
    check::fail(op, "warmup is ", warmup, ", steps ", steps, ": warmup must be in 0 … steps - 1");
  if (!(min_factor >= 0 && min_factor <= 1)) check::fail(op, "min_factor is ", min_factor, ": it must be in 0 … 1");
  start(
      [=](const At& a) {
        if (a.t < warmup) return a.base * static_cast<double>(a.t) / static_cast<double>(warmup);
        const double share = static_cast<double>(std::min(a.t, steps) - warmup) / static_cast<double>(steps - warmup);
        return a.base * (min_factor + (1 - min_factor) * (1 + nn::number::cos(pi * share)) / 2);
      },
      {{"steps", static_cast<double>(steps)}, {"warmup", static_cast<double>(warmup)}, {"min_factor", min_factor}});
}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer& optimizer, std::int64_t T_0, std::int64_t T_mult,
                                                         double eta_min)
    : Schedule("CosineAnnealingWarmRestarts", optimizer) {
  constexpr const char* op = "CosineAnnealingWarmRestarts";
  check_positive(op, "T_0", T_0);
  check_positive(op, "T_mult", T_mult);
  check_not_negative(op, "eta_min", eta_min);
  start(
      [=](const At& a) {
        std::int64_t t = a.t, period = T_0;
        if (T_mult == 1)
          t %= period;
        else
          while (t >= period) {
            t -= period;
            if (__builtin_mul_overflow(period, T_mult, &period)) period = INT64_MAX;
          }
        return eta_min + (a.base - eta_min) *
                             (1 + nn::number::cos(pi * static_cast<double>(t) / static_cast<double>(period))) / 2;
      },
      {{"T_0", static_cast<double>(T_0)}, {"T_mult", static_cast<double>(T_mult)}, {"eta_min", eta_min}});
}

OneCycleLR::OneCycleLR(Optimizer& optimizer, double max_lr, std::int64_t total_steps, const OneCycleOptions& options)
    : Schedule("OneCycleLR", optimizer), total_(total_steps), options_(options) {
  constexpr const char* op = "OneCycleLR";
  check_not_negative(op, "max_lr", max_lr);
  check_positive(op, "total_steps", total_steps);
  if (!(options.pct_start() >= 0 && options.pct_start() <= 1))
    check::fail(op, "pct_start is ", options.pct_start(), ": it must be in 0 … 1");
  if (!(options.div_factor() > 0 && options.final_div_factor() > 0))
    check::fail(op, "div_factor is ", options.div_factor(), ", final_div_factor ", options.final_div_factor(),
                ": both must be positive");
  check_cycle(op, optimizer, options);
  Numbers numbers{{"max_lr", max_lr},
                  {"total_steps", static_cast<double>(total_steps)},
                  {"pct_start", options.pct_start()},
                  {"anneal_strategy", static_cast<double>(options.anneal_strategy())},
                  {"div_factor", options.div_factor()},
                  {"final_div_factor", options.final_div_factor()},
                  {"three_phase", options.three_phase()},
                  {"cycle_momentum", options.cycle_momentum()}};
  if (options.cycle_momentum()) {
    numbers.emplace_back("base_momentum", options.base_momentum());
    numbers.emplace_back("max_momentum", options.max_momentum());
  }
  start(
      [=](const At& a) {
        if (a.t > total_)
          check::fail(op, "step ", a.t, " is past total_steps, ", total_,
                      ": give the schedule the number of steps of the training");
        const double first = max_lr / options_.div_factor();
        return at(a.t, first, max_lr, first / options_.final_div_factor());
      },
      std::move(numbers));
}

double OneCycleLR::at(std::int64_t t, double start, double peak, double end) const {
  const double steps = static_cast<double>(total_), now = static_cast<double>(t),
               top = options_.pct_start() * steps - 1;
  const auto between = [&](double from, double to, double begin, double last) {
    const double done = last > begin ? (now - begin) / (last - begin) : 1;
    return options_.anneal_strategy() == Anneal::cos ? to + (from - to) / 2 * (nn::number::cos(pi * done) + 1)
                                                     : (to - from) * done + from;
  };
  if (now <= top) return between(start, peak, 0, top);
  if (!options_.three_phase()) return between(peak, end, top, steps - 1);
  const double down = 2 * options_.pct_start() * steps - 2;
  return now <= down ? between(peak, start, top, down) : between(start, end, down, steps - 1);
}

void OneCycleLR::set_momentum() {
  const OneCycleOptions& o = options_;
  if (!o.cycle_momentum()) return;
  const double momentum = at(position(), o.max_momentum(), o.base_momentum(), o.max_momentum());
  for (std::size_t g = 0; g < base().size(); ++g) optimizer().set_momentum(g, momentum);
}

void OneCycleLR::move() {
  Schedule::move();
  set_momentum();
}

void OneCycleLR::restart() {
  Schedule::restart();
  set_momentum();
}

const char* OneCycleLR::no_factor() const {
  return "its rates follow from max_lr, and not from the base rate; run it alone, or in a SequentialLR";
}

NoamLR::NoamLR(Optimizer& optimizer, std::int64_t d_model, std::int64_t warmup_steps) : Schedule("NoamLR", optimizer) {
  check_positive("NoamLR", "d_model", d_model);
  check_positive("NoamLR", "warmup_steps", warmup_steps);
  // AdamW's default, 1e-3, would give rates a thousandth of the paper's.
  constexpr double least = 0.02;
  const double root = std::sqrt(static_cast<double>(d_model) * static_cast<double>(warmup_steps));
  for (std::size_t g = 0; g < optimizer.groups(); ++g)
    if (const double base = optimizer.initial_lr(g); base > 0 && base < least)
      check::fail("NoamLR", "the optimiser's lr is ", base, ", which NoamLR multiplies by at most 1 / ", root,
                  ", so the highest rate would be ", base / root, ": set lr to 1 for the paper's rates, or to ", root,
                  " times the highest rate; LambdaLR takes a formula of your own");
  start(
      [=, scale = 1 / std::sqrt(static_cast<double>(d_model))](const At& a) {
        const double s = static_cast<double>(a.t + 1);
        return a.base * scale *
               std::min(1 / std::sqrt(s), s * nn::number::pow(static_cast<double>(warmup_steps), -1.5));
      },
      {{"d_model", static_cast<double>(d_model)}, {"warmup_steps", static_cast<double>(warmup_steps)}});
}

}  // namespace fit::optim
