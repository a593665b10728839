#include "fit/schedule.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "common/load.hpp"
#include "common/rollback.hpp"
#include "fit/ops.hpp"
#include "optim/fused_step.hpp"
#include "optim/rates.hpp"

namespace fit::optim {

Schedule::Schedule(const char* op, Optimizer& optimizer, List inner)
    : op_(op), optimizer_(optimizer), base_(optimizer.initial_lrs_), inner_(std::move(inner)) {
  for (std::size_t g = base_.size(); g < optimizer.groups(); ++g) base_.push_back(optimizer.lr(g));
  for (std::size_t i = 0; i < inner_.size(); ++i) {
    if (!inner_[i]) check::fail(op, "schedule ", i, " is null");
    if (&inner_[i]->optimizer_ != &optimizer)
      check::fail(op, "schedule ", i, " belongs to another optimiser: all must change the same");
  }
}

void Schedule::start(std::function<double(const At&)> formula) {
  formula_ = std::move(formula);
  step();
}

template <class Self, class F>
void Schedule::each(Self& self, const F& f, const std::string& prefix) {
  f(self, prefix);
  for (std::size_t i = 0; i < self.inner_.size(); ++i)
    each(static_cast<Self&>(*self.inner_[i]), f, prefix + std::to_string(i) + '.');
}

namespace {

// Says once in a process that the first rate of a schedule is never used.
void warn_before_optimizer(const char* op) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  std::fprintf(
      stderr,
      "[%s] step() was called before the optimiser's first step(), so the rate of position 0 is not used: call "
      "optimizer.step() first, then schedule.step().\n",
      op);
}

}  // namespace

std::vector<double> Schedule::next_rates() const {
  std::vector<double> rates;
  for (std::size_t g = 0; g < base_.size(); ++g) {
    const double lr = formula_({g, position_ + 1, optimizer_.lr(g), base_[g]});
    rates.push_back(lr < 0 ? 0 : lr);
  }
  return rates;
}

void Schedule::check_step() const {
  if (formula_) next_rates();
}

void Schedule::step() {
  if (position_ >= 0 && !optimizer_.has_stepped()) warn_before_optimizer(op_);
  const std::vector<double> rates = next_rates();
  for (std::size_t g = 0; g < base_.size(); ++g) optimizer_.set_lr(g, rates[g]);
  // Set last, so that a constructor that throws does not set the base rates of later schedules.
  if (optimizer_.initial_lrs_.size() < base_.size()) optimizer_.initial_lrs_ = base_;
  count_step();
}

namespace {

template <class Options>
auto momentum_of(Options& options) {
  return std::find_if(options.begin(), options.end(), [](const auto& o) {
    return o.name == std::string("momentum") || o.name == std::string("beta1");
  });
}

}  // namespace

void Schedule::check_momentum() const {
  for (std::size_t g = 0; g < base_.size(); ++g)
    if (const auto options = optimizer_.option_list(g); momentum_of(options) == options.end())
      check::fail(op_, "the optimiser has neither momentum nor beta1: there is none to move");
}

void Schedule::set_momentum(double momentum) {
  for (std::size_t g = 0; g < base_.size(); ++g) {
    auto options = optimizer_.option_list(g);
    momentum_of(options)->value = momentum;
    optimizer_.set_options(g, options);
  }
}

// The values that step() of this schedule and the inner ones may change.
Schedule::Snapshot Schedule::snapshot() const {
  Snapshot before;
  for (std::size_t g = 0; g < optimizer_.groups(); ++g) before.options.push_back(optimizer_.option_list(g));
  each(*this, [&](const Schedule& s, const std::string&) { before.positions.push_back(s.position_); });
  return before;
}

void Schedule::restore(const Snapshot& before) {
  for (std::size_t g = 0; g < before.options.size(); ++g) optimizer_.set_options(g, before.options[g]);
  auto position = before.positions.begin();
  each(*this, [&](Schedule& s, const std::string&) { s.position_ = *position++; });
}

void Schedule::rewind() {
  for (std::size_t g = 0; g < base_.size(); ++g) optimizer_.set_lr(g, base_[g]);
  position_ = -1;
  for (const auto& s : inner_) s->rewind();
}

void Schedule::restart() {
  rewind();
  step();
}

// ---- state --------------------------------------------------------------------------------------------------------

StateDict Schedule::state_dict() const {
  StateDict state{{"lr", rates_of(optimizer_)}};
  each(*this, [&](const Schedule& s, const std::string& prefix) {
    state.emplace_back(prefix + "position", full({}, s.position_, int64));
    state.emplace_back(prefix + "base_lr", tensor(s.base_, {static_cast<std::int64_t>(s.base_.size())}));
  });
  return state;
}

void Schedule::load_state_dict(const StateDict& state) {
  const auto loaded = state_dict();  // new tensors that receive the values
  nn::load_values("load_state_dict", op_, loaded, state);
  for (std::size_t at = 1; at < loaded.size(); at += 2)
    if (const auto position = loaded[at].second.item<std::int64_t>(); position < -1)  // -1: not started
      check::fail("load_state_dict", loaded[at].first, " is ", position,
                  ": it must be at least -1; nothing was loaded");
  set_rates(optimizer_, loaded[0].second);
  std::size_t at = 1;
  each(*this, [&](Schedule& s, const std::string&) {
    s.position_ = loaded[at++].second.item<std::int64_t>();
    s.base_ = loaded[at++].second.to_vector<double>();
  });
}

// ---- several schedules --------------------------------------------------------------------------------------------

SequentialLR::SequentialLR(Optimizer& optimizer, List schedules, std::vector<std::int64_t> milestones)
    : Schedule("SequentialLR", optimizer, std::move(schedules)), milestones_(std::move(milestones)) {
  constexpr const char* op = "SequentialLR";
  if (inner().size() != milestones_.size() + 1)
    check::fail(op, "there are ", inner().size(), " schedules and ", milestones_.size(),
                " milestones: there must be one schedule more");
  for (std::size_t i = 0; i < milestones_.size(); ++i)
    if (milestones_[i] <= (i == 0 ? 0 : milestones_[i - 1]))
      check::fail(op, "milestone ", i, " is ", milestones_[i], ": they must be positive and grow");
  const Rollback untouched([this, before = snapshot()] { restore(before); });
  rewind();
  step();
}

void SequentialLR::step() {
  const Rollback together([this, before = snapshot()] { restore(before); });
  const auto reached = std::upper_bound(milestones_.begin(), milestones_.end(), position() + 1);
  Schedule& current = *inner()[reached - milestones_.begin()];
  if (reached != milestones_.begin() && reached[-1] == position() + 1)
    current.restart();
  else
    current.step();
  count_step();
}

void SequentialLR::check_step() const {
  const auto reached = std::upper_bound(milestones_.begin(), milestones_.end(), position() + 1);
  if (reached == milestones_.begin() || reached[-1] != position() + 1)  // otherwise one starts again
    inner()[reached - milestones_.begin()]->check_step();
}

ChainedScheduler::ChainedScheduler(Optimizer& optimizer, List schedules)
    : Schedule("ChainedScheduler", optimizer, std::move(schedules)) {
  if (inner().empty()) check::fail("ChainedScheduler", "there are no schedules to chain");
  count_step();  // the constructors of the inner schedules made their first step
}

void ChainedScheduler::step() {
  const Rollback together([this, before = snapshot()] { restore(before); });
  for (const auto& s : inner()) s->step();
  count_step();
}

void ChainedScheduler::check_step() const {
  for (const auto& s : inner()) s->check_step();
}

}  // namespace fit::optim
