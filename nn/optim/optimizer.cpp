#include "fit/nn/optim/optimizer.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <unordered_map>
#include <unordered_set>

#include "common/lent.hpp"
#include "common/load.hpp"
#include "common/rollback.hpp"
#include "dist/launched.hpp"
#include "fit/ops/ops.hpp"
#include "optim/grad_norm.hpp"
#include "optim/named.hpp"
#include "tensor/check.hpp"

namespace fit::optim {

namespace {

bool has_step(const Tensor& parameter) { return parameter.requires_grad() && parameter.has_grad(); }

}  // namespace

void fail_all_frozen(const char* op) {
  check::fail(
      op,
      "all parameters are frozen: there is nothing to train; unfreeze() some layers, requires_grad_() tensors of your "
      "own or, in a quantised model, nn::add_lora() some");
}

void check_once(const char* op, const std::string& name, const Tensor& p, std::unordered_set<const void*>& seen) {
  if (!seen.insert(p.impl()).second)
    check::fail(op, "the parameter ", name, " of shape ", p.shape(), " is there twice: it would count twice");
}

void check_trainable(const char* op, const std::string& name, const Tensor& p) {
  if (!p.requires_grad()) return;
  if (p.dtype() == bfloat16)
    check::fail(op, "the parameter ", name,
                " is bfloat16, in which small steps are lost: train float32 parameters "
                "under Autocast(bfloat16), or freeze it");
  if (!p.is_leaf())
    check::fail(op, "the parameter ", name, " is the result of ", p.grad_fn(), ": only a leaf can be trained");
}

Parameters::Parameters(StateDict named) : named_(std::move(named)) {}

Parameters::Parameters(std::initializer_list<Tensor> list) : Parameters(std::vector<Tensor>(list)) {}

Parameters::Parameters(const std::vector<Tensor>& list) {
  for (const Tensor& p : list) add(p);
}

void Parameters::add(const Parameters& part) { named_.insert(named_.end(), part.named_.begin(), part.named_.end()); }

void Parameters::add(const Tensor& parameter) { named_.emplace_back(std::string(), parameter); }

StateDict checked_parameters(const char* op, const Parameters& parameters, const StateDict& before) {
  std::unordered_set<const void*> tensors;
  std::unordered_set<std::string> names;
  for (const auto& [name, p] : before) tensors.insert(p.impl()), names.insert(name);
  StateDict checked;
  for (const auto& [given, p] : parameters.named()) {
    const std::string name = name_or_number(given, names.size());
    if (!p.defined()) check::fail(op, "the parameter ", name, " is undefined");
    check::floating(op, name.c_str(), p);
    check_trainable(op, name, p);
    check_once(op, name, p, tensors);
    if (!names.insert(name).second)
      check::fail(op, "the name ", name,
                  " is there twice: it must be unique. Give each name a prefix, or parameters() without names");
    checked.emplace_back(name, p);
  }
  return checked;
}

void Optimizer::add(const Parameters& parameters) {
  if (parameters.named().empty()) check::fail(op_, "group ", groups(), " has no parameters: there is nothing to train");
  StateDict before;
  for (const Slot& slot : slots_) before.emplace_back(slot.name, slot.parameter);
  std::vector<Slot> slots = slots_;
  const StateDict added = checked_parameters(op_, parameters, before);
  for (const auto& [name, p] : added) slots.push_back(Slot{groups(), name, p});
  held_.add(added);
  slots_ = std::move(slots);
}

void Optimizer::zero_grad() {
  for (Slot& slot : slots_) slot.parameter.zero_grad();
}

std::vector<Tensor> Optimizer::trained() const {
  std::vector<Tensor> all;
  for (const Slot& slot : slots_)
    if (slot.parameter.requires_grad()) all.push_back(slot.parameter);
  return all;
}

StateDict Optimizer::named_parameters() const {
  StateDict all;
  for (const Slot& slot : slots_) all.emplace_back(slot.name, slot.parameter);
  return all;
}

std::string Optimizer::nonfinite_gradient() const {
  for (const Slot& slot : slots_)
    if (has_step(slot.parameter) && !all_finite(slot.parameter.grad())) return slot.name;
  return {};
}

void Optimizer::set_lr(double lr) {
  for (std::size_t group = 0; group < groups(); ++group) set_lr(group, lr);
}

bool Optimizer::takes_step(const Slot& slot) const {
  return (!only_ || slot.parameter.impl() == only_) && has_step(slot.parameter);
}

Optimizer::Optimizer(const char* op) : op_(op) {}

Optimizer::~Optimizer() = default;

void Optimizer::step(ErrorIfNonfinite nonfinite) {
  if (nonfinite == ErrorIfNonfinite::yes) {
    for (const Slot& slot : slots_)
      expect_gradient_kept(op_, slot.name, slot.parameter,
                           "check. Call step() without error_if_nonfinite, and check the loss before backward()");
    if (const std::string name = nonfinite_gradient(); !name.empty())
      check::fail(op_, "the gradient of ", name, " holds an infinity or NaN: nothing was changed. DetectAnomaly finds ",
                  "the operation it comes from; clip_grad_norm_() keeps gradients small");
  }
  step();
}

void Optimizer::step(const Tensor& parameter) {
  if (world_) check::fail(op_, "its averages are divided among the ranks: all parameters must take a step together");
  const auto mine = [&](const Slot& slot) { return slot.parameter.impl() == parameter.impl(); };
  if (!parameter.defined() || std::none_of(slots_.begin(), slots_.end(), mine))
    check::fail(op_, "the parameter of step() is not one of the optimiser's");
  struct Only {
    const void*& only;
    ~Only() { only = nullptr; }
  } const guard{only_};
  only_ = parameter.impl();
  step();
}

double Optimizer::initial_lr(std::size_t group) const {
  return group < initial_lrs_.size() ? initial_lrs_[group] : lr(group);
}

void Optimizer::keep_initial_lrs() {
  for (std::size_t group = initial_lrs_.size(); group < groups(); ++group) initial_lrs_.push_back(lr(group));
}

bool Optimizer::has_stepped() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.steps > 0; });
}

// Whether the options and the parameter need states[k].
bool Optimizer::needs(const Slot& slot, const StateSpec& spec, int k) const {
  return (spec.mask >> k & 1) != 0 && state_shape(slot, k).has_value();
}

// Creates the states that the slot needs and does not have.
void Optimizer::create_states(Slot& slot, const StateSpec& spec) const {
  slot.created = 0;
  for (int k = 0; k < StateSpec::max_states; ++k) {
    if (!needs(slot, spec, k) || slot.state[k].defined()) continue;
    slot.state[k] = zeros(world_ ? Shape{part_of(slot).size} : *state_shape(slot, k), slot.parameter.dtype());
    slot.created |= 1u << k;
  }
}

void Optimizer::create_states() {
  for (Slot& slot : slots_)
    if (slot.parameter.requires_grad() && slot.steps == 0) create_states(slot, state_spec(slot.group));
}

// Checks everything before any parameter takes its step.
void Optimizer::check_step(const Slot& slot, const StateSpec& spec) const {
  const Tensor& p = slot.parameter;
  for (int k = 0; k < StateSpec::max_states; ++k)
    if (const Tensor& s = slot.state[k];
        needs(slot, spec, k) && s.defined() && s.dtype() != p.dtype() && takes_step(slot))
      check::fail(op_, "the parameter ", slot.name, " is ", p.dtype(), ", its ", spec.states[k], " ", s.dtype(),
                  ": make the optimiser after the layer has been converted");
  if (!takes_step(slot)) return;
  check_trainable(op_, slot.name, p);  // it may have been unfrozen
  nn::check_not_lent(op_, slot.name, p, "would undo the step");
}

namespace {

// Says once in a process that a step changes nothing.
template <class Slots>
void warn_without_gradient(const char* op, const Slots& slots) {
  static std::atomic<bool> said{false};
  if (said.load(std::memory_order_relaxed)) return;
  for (const auto& slot : slots)
    if (has_step(slot.parameter) || steps_in_backward(slot.parameter)) return;
  if (said.exchange(true)) return;
  const bool frozen =
      std::none_of(slots.begin(), slots.end(), [](const auto& slot) { return slot.parameter.requires_grad(); });
  std::fprintf(stderr, "[%s] step() changes nothing: %s\n", op,
               frozen
                   ? "all its parameters are frozen. Call unfreeze(), or make the optimiser after the parameters that "
                     "are trained have been added, as by add_lora()."
                   : "no parameter has a gradient. Call backward() on a loss that was computed from them, before "
                     "step() and after zero_grad().");
}

}  // namespace

std::vector<Optimizer::Slot*> Optimizer::begin_step() {
  held_.expect(op_, "optimiser");
  std::vector<StateSpec> specs;
  for (std::size_t group = 0; group < groups(); ++group) specs.push_back(state_spec(group));
  for (const Slot& slot : slots_) check_step(slot, specs[slot.group]);
  dist::warn_if_apart();
  warn_without_gradient(op_, slots_);
  std::vector<Slot*> begun;
  begun.reserve(slots_.size());
  const Rollback undo([&]() noexcept { undo_step(begun); });
  for (Slot& slot : slots_) {
    if (!takes_step(slot)) continue;
    begun.push_back(&slot);
    ++slot.steps;
    create_states(slot, specs[slot.group]);
  }
  return begun;
}

void Optimizer::undo_step(const std::vector<Slot*>& slots) noexcept {
  for (Slot* slot : slots) {
    --slot->steps;
    for (int k = 0; k < StateSpec::max_states; ++k)
      if (slot->created >> k & 1) slot->state[k] = Tensor();
  }
}

// ---- state --------------------------------------------------------------------------------------------------------

namespace {

// The placeholder for a state that an option needs before its first step.
Tensor not_begun(const Tensor& parameter) { return zeros({0}, parameter.dtype()); }

std::string option_name(const char* option, std::size_t group) {
  return std::string(option) + '.' + std::to_string(group);
}

}  // namespace

StateDict Optimizer::state_dict() const {
  StateDict state;
  auto next = slots_.begin();
  for (std::size_t group = 0; group < groups(); ++group) {
    const StateSpec spec = state_spec(group);
    for (const Option& o : option_list(group))
      state.emplace_back(option_name(o.name, group), full({}, o.value, float64));
    for (; next != slots_.end() && next->group == group; ++next) {
      const Slot& slot = *next;
      if (slot.steps == 0) continue;
      state.emplace_back(slot.name + ".step", full({}, slot.steps, int64));
      if (spec.scalar) state.emplace_back(slot.name + '.' + spec.scalar, full({}, slot.scalar, float64));
      for (int k = 0; k < StateSpec::max_states; ++k) {
        const Tensor& s = slot.state[k];
        if (s.defined() || needs(slot, spec, k))
          state.emplace_back(slot.name + '.' + spec.states[k],
                             s.defined() ? whole(slot, s) : not_begun(slot.parameter));
      }
    }
  }
  return state;
}

// A state that is read into new tensors. They replace the old ones after all checks.
struct Optimizer::Loading {
  explicit Loading(const StateDict& state) : given(state.begin(), state.end()) {}

  // A state without any group is told of by read_values().
  void expect_groups(const char* op, std::size_t groups) const {
    std::size_t saved = 0;
    while (given.count(option_name("lr", saved)) != 0) ++saved;
    if (saved != 0 && saved != groups)
      check::fail("load_state_dict", "the number of groups of parameters is ", saved, " in the state and ", groups,
                  " in this ", op, ": give it those of the other (add_param_group() adds one); nothing was loaded");
  }
  // The options of a group; those that the state does not name keep their values.
  void read_options(std::vector<Option>& options, std::size_t group) {
    for (Option& o : options) {
      const std::string name = option_name(o.name, group);
      const auto at = given.find(name);
      if (at != given.end() || name == option_name("lr", group)) mine.emplace_back(name, zeros({}, float64));
      if (at != given.end() && at->second.defined() && at->second.numel() == 1) o.value = at->second.to(float64).item();
    }
  }
  void expect(const Optimizer& optimizer, Slot& slot, const StateSpec& spec) {
    slot.steps = 0;
    slot.scalar = 1;
    for (Tensor& s : slot.state) s = Tensor();
    if (given.count(slot.name + ".step") == 0) return;
    const Counts& c = counts.emplace_back(Counts{&slot, zeros({}, int64), ones({}, float64)});
    mine.emplace_back(slot.name + ".step", c.steps);
    if (spec.scalar) mine.emplace_back(slot.name + '.' + spec.scalar, c.scalar);
    for (int k = 0; k < StateSpec::max_states && spec.states[k]; ++k) {
      const std::string name = slot.name + '.' + spec.states[k];
      const auto at = given.find(name);
      const std::optional<Shape> shape = optimizer.state_shape(slot, k);
      if (!shape || (at == given.end() && !(spec.mask >> k & 1))) continue;
      const Tensor none = not_begun(slot.parameter);
      const bool begun = at == given.end() || !at->second.defined() || at->second.shape() != none.shape();
      mine.emplace_back(name, begun ? slot.state[k] = zeros(*shape, slot.parameter.dtype()) : none);
    }
  }
  void read_values(const char* op, const StateDict& state) {
    nn::load_values("load_state_dict", op, mine, state);
    for (const Counts& c : counts) {
      c.slot->steps = c.steps.item<std::int64_t>();
      c.slot->scalar = c.scalar.item();
      if (c.slot->steps < 0)
        check::fail("load_state_dict", "the state has step ", c.slot->steps, " for ", c.slot->name,
                    ": a count of steps can't be negative; nothing was loaded");
    }
  }

  struct Counts {
    Slot* slot;
    Tensor steps, scalar;
  };
  const std::unordered_map<std::string, Tensor> given;
  StateDict mine;
  std::vector<Counts> counts;
};

void Optimizer::load_state_dict(const StateDict& state) {
  Loading loading(state);
  loading.expect_groups(op_, groups());
  std::vector<Slot> loaded = slots_;
  std::vector<std::vector<Option>> before;
  for (std::size_t group = 0; group < groups(); ++group) before.push_back(option_list(group));
  const Rollback undo([&]() noexcept {
    for (std::size_t group = 0; group < groups(); ++group) set_options(group, before[group]);
  });
  auto next = loaded.begin();
  for (std::size_t group = 0; group < groups(); ++group) {
    std::vector<Option> options = before[group];
    loading.read_options(options, group);
    set_options(group, options);
    const StateSpec spec = state_spec(group);
    for (; next != loaded.end() && next->group == group; ++next) loading.expect(*this, *next, spec);
  }
  loading.read_values(op_, state);
  for (Slot& slot : loaded)
    for (Tensor& s : slot.state)
      if (s.defined()) s = cut(slot, s);
  slots_ = std::move(loaded);
}

}  // namespace fit::optim
