#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fit/optim.hpp"
#include "fit/option.hpp"
#include "fit/state_dict.hpp"
#include "fit/tensor.hpp"

/// Schedules: they change an optimiser's learning rates, step by step. Names, defaults and values are PyTorch's.
///
///     optim::SGD optimizer(net.named_parameters(), 0.1);
///     optim::CosineAnnealingLR schedule(optimizer, steps);
///     for (…) { …  optimizer.step();  schedule.step(); }
///
/// Making one sets the rates of position 0; the first step() those of position 1. The base rate of a group is the rate
/// that the first schedule found. Each group goes its own way from there. A rate below 0, to which rounding or a chain
/// may lead, becomes 0.
namespace fit::optim {

/// The base of all schedules but ReduceLROnPlateau. The optimiser must outlive them.
class Schedule {
 public:
  virtual ~Schedule() = default;
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  /// Goes one position on, and sets the rates. Throws Error, and has changed nothing, where the schedule has ended.
  virtual void step();
  /// How often step() has been called (PyTorch: last_epoch).
  std::int64_t position() const { return position_; }

  /// The optimiser's rates ("lr"), the position and base rates ("position", "base_lr"), those of chained schedules
  /// after their number ("0.position").
  StateDict state_dict() const;
  /// Puts them back, the optimiser's rates as well. Throws one Error that lists every name that does not fit, and then
  /// has changed nothing.
  void load_state_dict(const StateDict& state);

 protected:
  /// Schedules within this one.
  using List = std::vector<std::shared_ptr<Schedule>>;
  Schedule(const char* op, Optimizer& optimizer, List inner = {});
  /// The rate of a group at position t, `lr` before. A constructor ends with step() to position 0.
  virtual double next(std::int64_t t, double lr, double base) const;
  /// The same where groups differ in more than their rates.
  virtual double next_of(std::size_t /*group*/, std::int64_t t, double lr, double base) const {
    return next(t, lr, base);
  }
  /// Those within this one.
  const List& inner() const { return inner_; }
  /// Goes to position 0 again, from the base rates.
  void restart();
  /// Sets the rates back to the base rates, and the position to where the next step() leads to 0.
  void rewind();
  /// Goes one position on, and changes nothing else.
  void count_step() { ++position_; }
  /// Throws Error unless every group has the option "momentum" or "beta1".
  void check_momentum() const;
  /// Sets it, for all groups.
  void set_momentum(double momentum);
  /// What step() may change, to be put back if it fails halfway.
  struct Snapshot {
    std::vector<std::vector<Optimizer::Option>> options;  // of the groups
    std::vector<std::int64_t> positions;                  // of this and of those inside
  };
  /// What there is now, and how to go back to it.
  Snapshot snapshot() const;
  void restore(const Snapshot& before);

 private:
  friend class SequentialLR;  // which restarts the others
  /// Calls f(schedule, prefix of its names) for this one and those inside.
  template <class Self, class F>
  static void each(Self& self, const F& f, const std::string& prefix = {});

  const char* op_;
  Optimizer& optimizer_;
  std::vector<double> base_;
  std::int64_t position_ = -1;
  List inner_;
};

/// Times gamma every step_size steps.
class StepLR final : public Schedule {
 public:
  explicit StepLR(Optimizer& optimizer, std::int64_t step_size, double gamma = 0.1);

 private:
  double next(std::int64_t t, double lr, double base) const override;
  std::int64_t step_size_;
  double gamma_;
};

/// Times gamma at each of the milestones.
class MultiStepLR final : public Schedule {
 public:
  MultiStepLR(Optimizer& optimizer, std::vector<std::int64_t> milestones, double gamma = 0.1);

 private:
  double next(std::int64_t t, double lr, double base) const override;
  std::vector<std::int64_t> milestones_;
  double gamma_;
};

/// Times gamma in each step.
class ExponentialLR final : public Schedule {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma);

 private:
  double next(std::int64_t t, double lr, double base) const override;
  double gamma_;
};

/// Warm-up: from start_factor to end_factor times the rate within total_iters steps, in a straight line.
class LinearLR final : public Schedule {
 public:
  explicit LinearLR(Optimizer& optimizer, double start_factor = 1. / 3, double end_factor = 1,
                    std::int64_t total_iters = 5);

 private:
  double next(std::int64_t t, double lr, double base) const override;
  double start_, end_;
  std::int64_t total_;
};

/// factor times the rate until total_iters steps have been taken.
class ConstantLR final : public Schedule {
 public:
  explicit ConstantLR(Optimizer& optimizer, double factor = 1. / 3, std::int64_t total_iters = 5);

 private:
  double next(std::int64_t t, double lr, double base) const override;
  double factor_;
  std::int64_t total_;
};

/// base (1 - t / total_iters)^power, and then 0.
class PolynomialLR final : public Schedule {
 public:
  explicit PolynomialLR(Optimizer& optimizer, std::int64_t total_iters = 5, double power = 1);

 private:
  double next(std::int64_t t, double lr, double base) const override;
  std::int64_t total_;
  double power_;
};

/// What a rate is multiplied with at position t.
using LRLambda = std::function<double(std::int64_t t)>;

/// base lr_lambda(t): of one function for all groups, or one each. The functions are not saved.
class LambdaLR final : public Schedule {
 public:
  LambdaLR(Optimizer& optimizer, const LRLambda& lr_lambda);
  LambdaLR(Optimizer& optimizer, std::vector<LRLambda> lr_lambdas);

 private:
  double next_of(std::size_t group, std::int64_t t, double lr, double base) const override;
  std::vector<LRLambda> lambdas_;
};

/// Times lr_lambda(t) in each step.
class MultiplicativeLR final : public Schedule {
 public:
  MultiplicativeLR(Optimizer& optimizer, const LRLambda& lr_lambda);
  MultiplicativeLR(Optimizer& optimizer, std::vector<LRLambda> lr_lambdas);

 private:
  double next_of(std::size_t group, std::int64_t t, double lr, double base) const override;
  std::vector<LRLambda> lambdas_;
};

/// Loshchilov & Hutter 2017, without restarts: eta_min + (base - eta_min) (1 + cos(pi t / T_max)) / 2. It rises again
/// after T_max.
class CosineAnnealingLR final : public Schedule {
 public:
  explicit CosineAnnealingLR(Optimizer& optimizer, std::int64_t T_max, double eta_min = 0);

 private:
  double next(std::int64_t t, double lr, double base) const override;
  std::int64_t period_;
  double low_;
};

/// The same with restarts: from base to eta_min in T_0 steps, then in T_0 T_mult, T_0 T_mult^2 …
class CosineAnnealingWarmRestarts final : public Schedule {
 public:
  explicit CosineAnnealingWarmRestarts(Optimizer& optimizer, std::int64_t T_0, std::int64_t T_mult = 1,
                                       double eta_min = 0);

 private:
  double next(std::int64_t t, double lr, double base) const override;
  std::int64_t first_, factor_;
  double low_;
};

/// Along a half wave, or in a straight line.
enum class Anneal { cos, linear };

/// The options of OneCycleLR.
struct OneCycleOptions {
  FIT_OPTION(double, pct_start) = 0.3;                ///< The fraction of the steps in which the rate rises.
  FIT_OPTION(Anneal, anneal_strategy) = Anneal::cos;  ///< The form of the rise and the fall.
  FIT_OPTION(double, div_factor) = 25;                ///< The first rate is max_lr / div_factor.
  FIT_OPTION(double, final_div_factor) = 1e4;         ///< The last rate is the first / final_div_factor.
  FIT_OPTION(bool, three_phase) = false;              ///< Falls as slowly as it rises, and then to the last rate.
  /// Whether the momentum (or beta1) moves against the rate (PyTorch: true).
  FIT_OPTION(bool, cycle_momentum) = false;
  FIT_OPTION(double, base_momentum) = 0.85;  ///< The momentum at the highest rate.
  FIT_OPTION(double, max_momentum) = 0.95;   ///< The momentum at the first and last rate.
};

/// Smith & Topin 2017: from max_lr / div_factor up to max_lr and down to max_lr / div_factor / final_div_factor; in
/// three phases, down as slowly as up, and then on. The rates that the groups had are not used. With cycle_momentum the
/// momentum falls from max_momentum to base_momentum while the rate rises, and rises again. Throws Error when stepped
/// past total_steps, and if there is to be momentum where the optimiser knows none.
class OneCycleLR final : public Schedule {
 public:
  OneCycleLR(Optimizer& optimizer, double max_lr, std::int64_t total_steps, const OneCycleOptions& options = {});
  void step() override;

 private:
  double next(std::int64_t t, double lr, double base) const override;
  double at(std::int64_t t, double start, double peak, double end) const;
  double max_;
  std::int64_t total_;
  OneCycleOptions options_;
};

/// Vaswani et al. 2017: base d_model^-0.5 min(s^-0.5, s warmup_steps^-1.5) in step s = t + 1. The paper's base is 1.
class NoamLR final : public Schedule {
 public:
  NoamLR(Optimizer& optimizer, std::int64_t d_model, std::int64_t warmup_steps);

 private:
  double next(std::int64_t t, double lr, double base) const override;
  double scale_;
  std::int64_t warmup_;
};

/// One schedule after the other: the second begins, at its position 0, when the first milestone is reached, and so on.
///
///     auto warmup = std::make_shared<optim::LinearLR>(optimizer, 0.01, 1, 100);
///     auto cosine = std::make_shared<optim::CosineAnnealingLR>(optimizer, steps - 100);
///     optim::SequentialLR schedule(optimizer, {warmup, cosine}, {100});
class SequentialLR final : public Schedule {
 public:
  SequentialLR(Optimizer& optimizer, List schedules, std::vector<std::int64_t> milestones);
  void step() override;

 private:
  std::vector<std::int64_t> milestones_;
};

/// All in each step, one after the other: each changes the rate that the one before has left.
class ChainedScheduler final : public Schedule {
 public:
  ChainedScheduler(Optimizer& optimizer, List schedules);
  void step() override;
};

/// The options of ReduceLROnPlateau.
struct PlateauOptions {
  enum class Mode { min, max };       ///< Whether a smaller or a larger number is better.
  enum class Threshold { rel, abs };  ///< Whether the threshold is a fraction of the best number, or added to it.

  FIT_OPTION(Mode, mode) = Mode::min;                      ///< Whether a smaller or a larger number is better.
  FIT_OPTION(double, factor) = 0.1;                        ///< The factor of the rate.
  FIT_OPTION(std::int64_t, patience) = 10;                 ///< The steps without improvement that change nothing.
  FIT_OPTION(double, threshold) = 1e-4;                    ///< A smaller change of the number is no improvement.
  FIT_OPTION(Threshold, threshold_mode) = Threshold::rel;  ///< What the threshold is relative to.
  FIT_OPTION(std::int64_t, cooldown) = 0;                  ///< The steps after a change that are not judged.
  FIT_OPTION(double, min_lr) = 0;                          ///< The lowest rate.
  FIT_OPTION(double, eps) = 1e-8;                          ///< The rate stays if it would change by no more.
};

/// Times factor when a number, mostly the loss of validation, has not improved for patience steps.
class ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options = {});

  /// Takes the number in, and changes the rates if it is time to.
  void step(double metric);
  /// The best number so far.
  double best() const { return best_; }

  /// "lr", "best", "num_bad_epochs" and "cooldown_counter"; as a Schedule's.
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
