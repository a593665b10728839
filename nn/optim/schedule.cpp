#include "fit/nn/optim/schedule.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>

#include "common/load.hpp"
#include "fit/ops/ops.hpp"
#include "optim/rates.hpp"
#include "tensor/check.hpp"

namespace fit::optim {

Schedule::Schedule(const char* op, Optimizer& optimizer, List inner)
    : op_(op), optimizer_(optimizer), inner_(std::move(inner)) {
  for (std::size_t g = 0; g < optimizer.groups(); ++g) base_.push_back(optimizer.initial_lr(g));
  for (std::size_t i = 0; i < inner_.size(); ++i) {
    if (!inner_[i]) check::fail(op, "schedule ", i, " is null");
    if (&inner_[i]->optimizer_ != &optimizer)
      check::fail(op, "schedule ", i, " belongs to another optimiser: all must change the same");
  }
}

void Schedule::start(std::function<double(const At&)> formula, Numbers numbers) {
  numbers_ = std::move(numbers);
  formula_ = std::move(formula);
  begin(next(rates_of(optimizer_)));
}

Schedule::Numbers Schedule::numbers_of(const std::vector<std::int64_t>& milestones) {
  Numbers numbers;
  for (std::size_t i = 0; i < milestones.size(); ++i)
    numbers.emplace_back("milestone_" + std::to_string(i), static_cast<double>(milestones[i]));
  return numbers;
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

// Says that a schedule which multiplies the present rate has nothing to multiply, as after one that ended at 0.
void warn_of_zero(const char* op) {
  std::fprintf(stderr,
               "[%s] the rate was 0 before this schedule, which multiplies it, so it stays 0: call optimizer.set_lr() "
               "before you make the schedule, or join schedules that run together in a ChainedScheduler.\n",
               op);
}

bool all_zero(const std::vector<double>& rates) {
  return std::all_of(rates.begin(), rates.end(), [](double lr) { return lr == 0; });
}

}  // namespace

Schedule::Rates Schedule::formula_rates(std::int64_t t, const Rates& before) const {
  Rates rates;
  for (std::size_t g = 0; g < base_.size(); ++g) {
    const double lr = formula_({g, t, before[g], base_[g]});
    rates.push_back(lr < 0 ? 0 : lr);
  }
  return rates;
}

Schedule::Rates Schedule::next(const Rates& rates) const { return formula_rates(position_ + 1, rates); }

Schedule::Rates Schedule::first() const { return formula_rates(0, base_); }

Schedule::Rates Schedule::own() const {
  if (own_.empty() || own_position_ > position_) own_ = base_, own_position_ = -1;
  for (; own_position_ < position_; ++own_position_) own_ = formula_rates(own_position_ + 1, own_);
  return own_;
}

void Schedule::move() { ++position_; }

void Schedule::restart() { position_ = 0; }

void Schedule::begin(const Rates& rates) {
  optimizer_.keep_initial_lrs();  // not before: a constructor that throws sets no base rates of later schedules
  restart();
  set_rates(optimizer_, rates);
}

void Schedule::check_step() const { next(rates_of(optimizer_)); }

void Schedule::step() {
  if (!optimizer_.has_stepped()) warn_before_optimizer(op_);
  const Rates rates = next(rates_of(optimizer_));
  move();
  set_rates(optimizer_, rates);
  if (position_ == 1 && all_zero(rates) && !all_zero(own())) warn_of_zero(op_);
}

// ---- state --------------------------------------------------------------------------------------------------------

StateDict Schedule::state_dict() const {
  StateDict state = places();
  each(*this, [&](const Schedule& s, const std::string& prefix) {
    for (const auto& [name, value] : s.numbers_) state.emplace_back(prefix + name, full({}, value, float64));
  });
  return state;
}

// The rates and positions.
StateDict Schedule::places() const {
  StateDict state{{"lr", rates_tensor(optimizer_)}};
  each(*this, [&](const Schedule& s, const std::string& prefix) {
    state.emplace_back(prefix + "position", full({}, s.position_, int64));
    state.emplace_back(prefix + "base_lr", tensor(s.base_, {static_cast<std::int64_t>(s.base_.size())}));
  });
  return state;
}

void Schedule::load_state_dict(const StateDict& given) {
  std::map<std::string, double> numbers;
  each(*this, [&](const Schedule& s, const std::string& prefix) {
    for (const auto& [name, value] : s.numbers_) numbers[prefix + name] = value;
  });
  StateDict state;  // without the numbers; a state of before has none
  std::string differ;
  for (const auto& [name, x] : given) {
    const auto mine = numbers.find(name);
    if (mine == numbers.end() || !x.defined() || x.numel() != 1)
      state.emplace_back(name, x);
    else if (const double there = x.to(float64).item(); there != mine->second)
      differ += joined("\n  ", name, " is ", there, " in the state, ", mine->second, " here");
  }
  if (!differ.empty())
    check::fail("load_state_dict", "the state is one of another ", op_, "; nothing was loaded:", differ,
                "\n  give this schedule the same numbers; for a training with others, load the weights alone "
                "(load_from_checkpoint), and begin a new schedule");
  auto loaded = places();         // new tensors that receive the values
  for (auto& [name, x] : loaded)  // of a state from before add_param_group(): the schedule leaves later groups alone
    for (const auto& [saved_name, saved] : state)
      if (saved_name == name && name != "lr" && saved.defined() && saved.rank() == 1 && x.rank() == 1 &&
          saved.numel() < x.numel())
        x = zeros(saved.shape(), float64);
  nn::load_values("load_state_dict", op_, loaded, state);
  for (std::size_t at = 1; at < loaded.size(); at += 2)
    if (const auto position = loaded[at].second.item<std::int64_t>(); position < -1)  // -1: not started
      check::fail("load_state_dict", loaded[at].first, " is ", position,
                  ": it must be at least -1; nothing was loaded");
  set_rates(optimizer_, loaded[0].second.to_vector<double>());
  std::size_t at = 1;
  each(*this, [&](Schedule& s, const std::string&) {
    s.position_ = loaded[at++].second.item<std::int64_t>();
    s.base_ = loaded[at++].second.to_vector<double>();
    s.own_.clear();
  });
}

// ---- several schedules --------------------------------------------------------------------------------------------

SequentialLR::SequentialLR(Optimizer& optimizer, List schedules, std::vector<std::int64_t> milestones)
    : Schedule("SequentialLR", optimizer, std::move(schedules)), milestones_(std::move(milestones)) {
  if (inner().size() != milestones_.size() + 1)
    check::fail(op(), "there are ", inner().size(), " schedules and ", milestones_.size(),
                " milestones: there must be one schedule more");
  for (std::size_t i = 0; i < milestones_.size(); ++i)
    if (milestones_[i] <= (i == 0 ? 0 : milestones_[i - 1]))
      check::fail(op(), "milestone ", i, " is ", milestones_[i], ": they must be positive and grow");
  set_numbers(numbers_of(milestones_));
  begin(first());
}

std::pair<Schedule*, bool> SequentialLR::at(std::int64_t t) const {
  const auto reached = std::upper_bound(milestones_.begin(), milestones_.end(), t);
  return {inner()[reached - milestones_.begin()].get(), reached != milestones_.begin() && reached[-1] == t};
}

Schedule::Rates SequentialLR::next(const Rates& rates) const {
  const auto [schedule, starts] = at(position() + 1);
  return starts ? schedule->first() : schedule->next(rates);
}

Schedule::Rates SequentialLR::first() const { return inner()[0]->first(); }

Schedule::Rates SequentialLR::own() const { return at(position()).first->own(); }

void SequentialLR::move() {
  Schedule::move();
  const auto [schedule, starts] = at(position());
  starts ? schedule->restart() : schedule->move();
}

void SequentialLR::restart() {
  Schedule::restart();
  each(*this, [this](Schedule& s, const std::string&) {
    if (&s != this) s.position_ = -1;
  });
  inner()[0]->restart();
}

const char* SequentialLR::no_factor() const {
  for (const auto& s : inner())
    if (const char* why = s->no_factor()) return why;
  return nullptr;
}

ChainedScheduler::ChainedScheduler(Optimizer& optimizer, List schedules)
    : Schedule("ChainedScheduler", optimizer, std::move(schedules)) {
  if (inner().empty()) check::fail(op(), "there are no schedules to chain");
  for (std::size_t i = 0; i < inner().size(); ++i) {
    if (const char* why = inner()[i]->no_factor(); why && inner().size() > 1)
      check::fail(op(), "schedule ", i, ", ", inner()[i]->op(), ", can't be multiplied with others: ", why);
    if (std::count(inner().begin(), inner().end(), inner()[i]) > 1)
      check::fail(op(), "schedule ", i, " is there twice: make another one");
  }
  begin(first());
}

// The rates of the first inner schedule times the factors, rates / base, of the others.
template <class F>
Schedule::Rates ChainedScheduler::product(const F& rates_of) const {
  Rates all = rates_of(*inner()[0]);
  for (std::size_t i = 1; i < inner().size(); ++i) {
    const Rates rates = rates_of(*inner()[i]), &base = inner()[i]->base();
    for (std::size_t g = 0; g < all.size(); ++g) all[g] *= base[g] == 0 ? 1 : rates[g] / base[g];
  }
  return all;
}

Schedule::Rates ChainedScheduler::next(const Rates& rates) const {
  const Rates before = own();
  Rates all = product([](const Schedule& s) { return s.next(s.own()); });
  for (std::size_t g = 0; g < all.size(); ++g)
    if (rates[g] != before[g] && before[g] > 0) all[g] *= rates[g] / before[g];  // a rate that was set by hand
  return all;
}

Schedule::Rates ChainedScheduler::first() const {
  return product([](const Schedule& s) { return s.first(); });
}

Schedule::Rates ChainedScheduler::own() const {
  return product([](const Schedule& s) { return s.own(); });
}

void ChainedScheduler::move() {
  Schedule::move();
  for (const auto& s : inner()) s->move();
}

void ChainedScheduler::restart() {
  Schedule::restart();
  for (const auto& s : inner()) s->restart();
}

}  // namespace fit::optim
