#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/tensor/state_dict.hpp"
#include "fit/tensor/tensor.hpp"

/// Learning rate schedules. Names, defaults and values are PyTorch's, but for SequentialLR, ChainedScheduler, and
/// ReduceLROnPlateau of negative numbers.
///
///     optim::SGD optimizer(net.named_parameters(), 0.1);
///     optim::CosineAnnealingLR schedule(optimizer, steps);
///     for (…) { …  optimizer.step();  schedule.step(); }
///
/// The constructor sets the rates of position 0; the first step() sets those of position 1. Each group has its own base
/// rate: its rate before the first schedule. A negative rate, from rounding or a chain of schedules, becomes 0.
///
/// As in PyTorch, the formulas of StepLR, MultiStepLR, ExponentialLR, LinearLR, ConstantLR, PolynomialLR,
/// CosineAnnealingLR and MultiplicativeLR multiply the present rate. So a schedule that is made after another goes on
/// from where that has ended: to begin anew, call optimizer.set_lr() first. A rate of 0 would stay 0, which the first
/// step() says on stderr.
namespace fit::optim {

/// The base of all schedules except ReduceLROnPlateau. The optimiser must outlive them.
class Schedule {
 public:
  virtual ~Schedule() = default;
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  /// Moves to the next position and sets the rates. Throws Error, and changes nothing, after the end of the schedule.
  void step();
  /// Throws the Error that step() would throw, and changes nothing.
  void check_step() const;
  /// The number of calls of step() (PyTorch: last_epoch).
  std::int64_t position() const { return position_; }

  /// The optimiser's rates ("lr"), the position and the base rates ("position", "base_lr"), and the numbers of the
  /// formula ("T_max"). Inner schedules have their number as a prefix ("0.position").
  StateDict state_dict() const;
  /// Loads the state and the optimiser's rates. Throws one Error that lists every name that does not fit, and every
  /// number of the formula that differs, and then changes nothing.
  void load_state_dict(const StateDict& state);

 protected:
  /// Inner schedules.
  using List = std::vector<std::shared_ptr<Schedule>>;
  /// A rate for each group.
  using Rates = std::vector<double>;
  Schedule(const char* op, Optimizer& optimizer, List inner = {});
  /// The arguments of a formula for the rate of a group.
  struct At {
    std::size_t group;
    std::int64_t t;   ///< the position
    double lr, base;  ///< the group's rate at t - 1, and its base rate
  };
  /// The numbers of a formula, by name. They are saved, and must be equal when a state is loaded.
  using Numbers = std::vector<std::pair<std::string, double>>;
  /// Those of milestones: "milestone_0", "milestone_1", ...
  static Numbers numbers_of(const std::vector<std::int64_t>& milestones);
  /// Sets the formula of the rate, and begins.
  void start(std::function<double(const At&)> formula, Numbers numbers = {});
  /// Sets the numbers of a schedule without a formula of its own.
  void set_numbers(Numbers numbers) { numbers_ = std::move(numbers); }

  /// The rates of the next position, if `rates` are those of this one. Throws Error after the end.
  virtual Rates next(const Rates& rates) const;
  /// The rates of position 0.
  virtual Rates first() const;
  /// The rates that this schedule alone gives at its position: the base rates times its factor.
  virtual Rates own() const;
  /// Moves to the next position, or to position 0. The rates are set elsewhere.
  virtual void move();
  virtual void restart();
  /// Why the rates are no factor of the base rates, so that no chain may multiply them; null if they are one.
  virtual const char* no_factor() const { return nullptr; }

  /// The name in errors.
  const char* op() const { return op_; }
  /// The optimiser whose rates it sets.
  Optimizer& optimizer() const { return optimizer_; }
  /// The rates before the first schedule.
  const Rates& base() const { return base_; }
  /// The inner schedules.
  const List& inner() const { return inner_; }
  /// Moves to position 0, whose rates are these. A constructor calls it last.
  void begin(const Rates& rates);

 private:
  friend class SequentialLR;  // these call the functions of inner schedules
  friend class ChainedScheduler;
  StateDict places() const;
  Rates formula_rates(std::int64_t t, const Rates& before) const;
  /// Calls f(schedule, prefix of its names) for this schedule and the inner ones.
  template <class Self, class F>
  static void each(Self& self, const F& f, const std::string& prefix = {});

  const char* op_;
  Optimizer& optimizer_;
  std::function<double(const At&)> formula_;
  Numbers numbers_;
  Rates base_;
  std::int64_t position_ = -1;  // -1: not started
  List inner_;
  mutable Rates own_;  // own() at own_position_, from which it goes on
  mutable std::int64_t own_position_ = -1;
};

/// Multiplies the rate by gamma every step_size steps.
class StepLR final : public Schedule {
 public:
  explicit StepLR(Optimizer& optimizer, std::int64_t step_size, double gamma = 0.1);
};

/// Multiplies the rate by gamma at each milestone.
class MultiStepLR final : public Schedule {
 public:
  MultiStepLR(Optimizer& optimizer, std::vector<std::int64_t> milestones, double gamma = 0.1);
};

/// Multiplies the rate by gamma in each step.
class ExponentialLR final : public Schedule {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma);
};

/// Linear warm-up: from start_factor to end_factor times the rate within total_iters steps.
class LinearLR final : public Schedule {
 public:
  explicit LinearLR(Optimizer& optimizer, double start_factor = 1. / 3, double end_factor = 1,
                    std::int64_t total_iters = 5);
};

/// factor times the rate for the first total_iters steps.
class ConstantLR final : public Schedule {
 public:
  explicit ConstantLR(Optimizer& optimizer, double factor = 1. / 3, std::int64_t total_iters = 5);
};

/// base (1 - t / total_iters)^power, then 0.
class PolynomialLR final : public Schedule {
 public:
  explicit PolynomialLR(Optimizer& optimizer, std::int64_t total_iters = 5, double power = 1);
};

/// The factor of a rate at position t.
using LRLambda = std::function<double(std::int64_t t)>;

/// base lr_lambda(t), with one function for all groups, or one for each. The functions are not saved.
class LambdaLR final : public Schedule {
 public:
  LambdaLR(Optimizer& optimizer, const LRLambda& lr_lambda);
  LambdaLR(Optimizer& optimizer, std::vector<LRLambda> lr_lambdas);
};

/// Multiplies the rate by lr_lambda(t) in each step.
class MultiplicativeLR final : public Schedule {
 public:
  MultiplicativeLR(Optimizer& optimizer, const LRLambda& lr_lambda);
  MultiplicativeLR(Optimizer& optimizer, std::vector<LRLambda> lr_lambdas);
};

/// Loshchilov & Hutter 2017, without restarts: eta_min + (base - eta_min) (1 + cos(pi t / T_max)) / 2. The rate rises
/// again after T_max.
class CosineAnnealingLR final : public Schedule {
 public:
  explicit CosineAnnealingLR(Optimizer& optimizer, std::int64_t T_max, double eta_min = 0);
};

/// The same with restarts: from base to eta_min in T_0 steps, then again in T_0 T_mult, T_0 T_mult^2 … steps.
class CosineAnnealingWarmRestarts final : public Schedule {
 public:
  explicit CosineAnnealingWarmRestarts(Optimizer& optimizer, std::int64_t T_0, std::int64_t T_mult = 1,
                                       double eta_min = 0);
};

/// Warm-up, a constant rate, and a decay (warmup-stable-decay, Hu et al. 2024, MiniCPM), over `steps` steps in all. At
/// position t: base (t + 1) / warmup for t < warmup; then base; in the last `decay` steps it falls on a line to
/// base min_factor, which holds at t = steps and after. The constant part can be continued from a checkpoint with more
/// steps, and a decay can be made from each of its points.
class WarmupStableDecayLR final : public Schedule {
 public:
  WarmupStableDecayLR(Optimizer& optimizer, std::int64_t steps, std::int64_t warmup, std::int64_t decay,
                      double min_factor = 0);
};

/// Warm-up from 0, a half cosine wave, and a floor, over `steps` steps in all, as in many GPTs. At position t: base
/// t / warmup for t < warmup; then along the wave from base to base min_factor, which holds at t = steps and after.
class WarmupCosineLR final : public Schedule {
 public:
  WarmupCosineLR(Optimizer& optimizer, std::int64_t steps, std::int64_t warmup, double min_factor = 0);
};

/// Along a half cosine wave, or linear.
enum class Anneal { cos, linear };

/// The options of OneCycleLR.
struct OneCycleOptions {
  FIT_OPTION(double, pct_start) = 0.3;                ///< The fraction of the steps in which the rate rises.
  FIT_OPTION(Anneal, anneal_strategy) = Anneal::cos;  ///< The shape of the rise and the fall.
  FIT_OPTION(double, div_factor) = 25;                ///< The first rate is max_lr / div_factor.
  FIT_OPTION(double, final_div_factor) = 1e4;         ///< The last rate is the first / final_div_factor.
  FIT_OPTION(bool, three_phase) = false;              ///< Falls to the first rate as slowly as it rose, then further.
  /// Whether the momentum (or beta1) falls while the rate rises, and rises while it falls (PyTorch: true).
  FIT_OPTION(bool, cycle_momentum) = false;
  FIT_OPTION(double, base_momentum) = 0.85;  ///< The momentum at the highest rate.
  FIT_OPTION(double, max_momentum) = 0.95;   ///< The momentum at the first and last rate.
};

/// Smith & Topin 2017: from max_lr / div_factor up to max_lr, and down to max_lr / div_factor / final_div_factor. With
/// three_phase, first down to max_lr / div_factor in the time of the rise. The groups' own rates are not used. With
/// cycle_momentum the momentum falls from max_momentum to base_momentum while the rate rises, and then rises again.
/// Throws Error past total_steps, for cycle_momentum if the optimiser has no momentum, and for other momenta than the
/// usual ones without cycle_momentum.
class OneCycleLR final : public Schedule {
 public:
  OneCycleLR(Optimizer& optimizer, double max_lr, std::int64_t total_steps, const OneCycleOptions& options = {});

 protected:
  void move() override;
  void restart() override;
  const char* no_factor() const override;

 private:
  void set_momentum();
  double at(std::int64_t t, double start, double peak, double end) const;
  std::int64_t total_;
  OneCycleOptions options_;
};

/// Vaswani et al. 2017: base d_model^-0.5 min(s^-0.5, s warmup_steps^-1.5) in step s = t + 1. The paper's base is 1:
/// AdamW(parameters, 1). The highest rate is base / sqrt(d_model warmup_steps). Throws Error for a base between 0 and
/// 0.02, which is meant as a rate.
class NoamLR final : public Schedule {
 public:
  NoamLR(Optimizer& optimizer, std::int64_t d_model, std::int64_t warmup_steps);
};

/// Runs schedules one after the other. At each milestone, the next schedule starts at its position 0, from the base
/// rates. PyTorch's MultiplicativeLR differs: it multiplies the rate of the schedule before by lr_lambda(0).
///
///     auto warmup = std::make_shared<optim::LinearLR>(optimizer, 0.01, 1, 100);
///     auto cosine = std::make_shared<optim::CosineAnnealingLR>(optimizer, steps - 100);
///     optim::SequentialLR schedule(optimizer, {warmup, cosine}, {100});
class SequentialLR final : public Schedule {
 public:
  SequentialLR(Optimizer& optimizer, List schedules, std::vector<std::int64_t> milestones);

 protected:
  Rates next(const Rates& rates) const override;
  Rates first() const override;
  Rates own() const override;
  void move() override;
  void restart() override;
  const char* no_factor() const override;

 private:
  /// The schedule of position t, and whether it starts there.
  std::pair<Schedule*, bool> at(std::int64_t t) const;
  std::vector<std::int64_t> milestones_;
};

/// Runs schedules together, from their position 0. Each alone would multiply the base rate by a factor; the chain
/// multiplies it by the product of these factors. A minimum rate (eta_min) is a part of its schedule's factor.
/// PyTorch's differs: a schedule that computes from the base rate drops the factors of the others. A rate that was set
/// by hand is multiplied further. Throws Error for a schedule that is there twice, and for OneCycleLR beside others:
/// its rates follow from max_lr, and are no factor.
class ChainedScheduler final : public Schedule {
 public:
  ChainedScheduler(Optimizer& optimizer, List schedules);

 protected:
  Rates next(const Rates& rates) const override;
  Rates first() const override;
  Rates own() const override;
  void move() override;
  void restart() override;

 private:
  template <class F>
  Rates product(const F& rates_of) const;
};

/// The options of ReduceLROnPlateau.
struct PlateauOptions {
  enum class Mode { min, max };  ///< Whether a smaller or a larger number is better.
  /// Whether the threshold is a fraction of the best number's magnitude, or a difference. (PyTorch: of the number
  /// itself, so that a negative one that gets worse by less counts as better.)
  enum class Threshold { rel, abs };

  FIT_OPTION(Mode, mode) = Mode::min;                      ///< Whether a smaller or a larger number is better.
  FIT_OPTION(double, factor) = 0.1;                        ///< The factor of the rate.
  FIT_OPTION(std::int64_t, patience) = 10;                 ///< The steps without improvement that change nothing.
  FIT_OPTION(double, threshold) = 1e-4;                    ///< A smaller change of the number is no improvement.
  FIT_OPTION(Threshold, threshold_mode) = Threshold::rel;  ///< Whether the threshold is relative or absolute.
  FIT_OPTION(std::int64_t, cooldown) = 0;                  ///< The steps after a change that do not count.
  FIT_OPTION(double, min_lr) = 0;                          ///< The min rate.
  FIT_OPTION(double, eps) = 1e-8;                          ///< Changes of the rate up to this are not made.
};

/// Multiplies the rates by factor if a number, usually the validation loss, has not improved for patience steps.
class ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options = {});

  /// Records the number, and changes the rates after `patience` steps without improvement.
  void step(double metric);
  /// The best number so far.
  double best() const { return best_; }

  /// "lr", "best", "num_bad_epochs" and "cooldown_counter". The rules are those of Schedule.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 private:
  bool better(double metric) const;

  Optimizer& optimizer_;
  PlateauOptions options_;
  double best_;
  std::int64_t bad_ = 0, cooldown_ = 0;
};

}  // namespace fit::optim
