#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "base/acc_type.hpp"
#include "common/rollback.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/graph/graph.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/ops/ops.hpp"
#include "optim/fused_step.hpp"
#include "optim/grad_norm.hpp"
#include "optim/named.hpp"
#include "optim/ranges.hpp"

// What follows from the formula of an optimiser (fit/nn/optim/formula.hpp): checking, stepping, saving and loading.
namespace fit::optim {
namespace detail {

double l2_norm(const Tensor& x) { return std::sqrt(sum_of_squares(x)); }

double root_mean_square(const Tensor& x) { return std::sqrt(sum_of_squares(x) / static_cast<double>(x.numel())); }

double rounding_of(const Tensor& x) { return x.dtype() == float32 ? 0x1p-23 : 0x1p-52; }

void refuse(const char* op, std::initializer_list<std::pair<const char*, double>> values, const char* rule) {
  std::ostringstream list;
  const char *separator = "", *is = " is ";
  for (const auto& [name, value] : values) {
    list << separator << name << is << value;
    separator = ", ", is = " ";
  }
  check::fail(op, list.str(), ": ", rule);
}

}  // namespace detail

namespace {

template <class Options>
detail::Formula<Options> formula_with(const Options& options) {
  detail::Formula<Options> formula;
  static_cast<Options&>(formula) = options;
  return formula;
}

enum class Range { any, not_negative, below_1 };

// Calls f(name, value, range) for each option that a formula lists.
template <class F>
class OptionList {
 public:
  explicit OptionList(const F& f) : f_(f) {}
  template <class T>
  OptionList& any(const char* name, T& value) {
    f_(name, value, Range::any);
    return *this;
  }
  template <class T>
  OptionList& not_negative(const char* name, T& value) {
    f_(name, value, Range::not_negative);
    return *this;
  }
  template <class T>
  OptionList& below_1(const char* name, T& value) {
    f_(name, value, Range::below_1);
    return *this;
  }

 private:
  const F& f_;
};

template <class Formula, class F>
void each_option(Formula& formula, const F& f) {
  OptionList<F> list(f);
  formula.options(list);
}

// Throws Error for options that are out of range.
template <class Formula>
void check_options(Formula& formula) {
  each_option(formula, [](const char* name, auto value, Range range) {
    const double number = static_cast<double>(value);
    if (range == Range::not_negative) check_not_negative(Formula::name, name, number);
    if (range == Range::below_1) check_share(Formula::name, name, number);
    if (!std::isfinite(number)) check::fail(Formula::name, name, " is ", number, ": it must be finite");
  });
  formula.check();
}

template <class Options, class = void>
struct HasMomentum : std::false_type {};
template <class Options>
struct HasMomentum<Options, std::void_t<decltype(std::declval<const Options&>().momentum())>> : std::true_type {};
template <class Options, class = void>
struct HasBeta1 : std::false_type {};
template <class Options>
struct HasBeta1<Options, std::void_t<decltype(std::declval<const Options&>().beta1())>> : std::true_type {};

template <class Options, class = void>
struct HasEps : std::false_type {};
template <class Options>
struct HasEps<Options, std::void_t<decltype(std::declval<const Options&>().eps())>> : std::true_type {};

// Whether states become 0 in this step where they are subnormal. Averages of a gradient that stays 0 would stay there,
// and processors take ten times as long for them. In each step this would cost some percent. Without eps, an update is
// a quotient of two such averages.
template <class Options>
bool settles([[maybe_unused]] const Options& options, std::int64_t step) {
  if (step % 64 != 0) return false;
  if constexpr (HasEps<Options>::value)
    return options.eps() > 0;
  else
    return true;
}

// In place of FusedStep, for optimisers without a kernel.
struct NoKernel {
  void reserve(std::size_t) {}
  void run() const {}
};

}  // namespace

template <class Options>
struct GroupedOptimizer<Options>::Groups {
  std::vector<detail::Formula<Options>> formulas;  // with the options of each group
};

template <class Options>
GroupedOptimizer<Options>::GroupedOptimizer(const Parameters& parameters, const Options& options)
    : GroupedOptimizer(std::vector<Group<Options>>{{parameters, options}}) {}

template <class Options>
GroupedOptimizer<Options>::GroupedOptimizer(const Parameters& parameters, double lr)
    : GroupedOptimizer(parameters, Options().lr(lr)) {}

template <class Options>
GroupedOptimizer<Options>::GroupedOptimizer(const std::vector<Group<Options>>& groups)
    : Optimizer(detail::Formula<Options>::name), groups_(std::make_unique<Groups>()) {
  for (const Group<Options>& g : groups) add_param_group(g);
  for (const Group<Options>& g : groups)
    for (const auto& [name, p] : g.parameters.named())
      if (p.requires_grad()) return;
  if (!groups.empty()) fail_all_frozen(detail::Formula<Options>::name);
}

template <class Options>
GroupedOptimizer<Options>::~GroupedOptimizer() = default;

template <class Options>
void GroupedOptimizer<Options>::add_param_group(const Group<Options>& group) {
  auto formula = formula_with(group.options);
  check_options(formula);
  std::size_t number = parameter_count();
  for (const auto& [name, p] : group.parameters.named()) formula.check_parameter(name_or_number(name, number++), p);
  groups_->formulas.reserve(groups_->formulas.size() + 1);  // so that nothing fails after add()
  add(group.parameters);
  groups_->formulas.push_back(formula);
}

// ---- a step -------------------------------------------------------------------------------------------------------

template <class Options>
void GroupedOptimizer<Options>::step() {
  using Formula = detail::Formula<Options>;
  using Kernel = typename Formula::Kernel;
  const NoGrad no_grad;
  std::conditional_t<std::is_void_v<Kernel>, NoKernel, FusedStep<Kernel>> fused;
  fused.reserve(parameter_count());
  const std::vector<Slot*> slots = begin_step();
  if constexpr (Formula::on_tensors) change_tensors<Formula>(slots);
  if constexpr (!std::is_void_v<Kernel>)
    for (Slot* slot : slots) {
      const Formula& formula = groups_->formulas[slot->group];
      if (!formula.has_kernel()) continue;
      Kernel kernel = formula.kernel();
      kernel.begin({slot->steps, slot->is_new(), &slot->scalar});
      const Part part = part_of(*slot);
      fused.add(slot->parameter, slot->parameter.grad(), slot->state + Formula::first_kernel_state, kernel, part.begin,
                part.size, kernel.maximize() ? -1 : 1, settles(kernel, slot->steps));
    }
  fused.run();
  exchange_parameters();
}

// The steps of formulas that consist of operations. They may throw: the new values are written when all are there.
template <class Options>
template <class Formula>
void GroupedOptimizer<Options>::change_tensors(const std::vector<Slot*>& slots) {
  const Rollback undo([&]() noexcept { undo_step(slots); });
  const Autocast off(float32);
  struct Change {
    Tensor to, value;
  };
  std::vector<Change> changes;
  for (Slot* slot : slots) {
    Formula formula = groups_->formulas[slot->group];
    const Tensor& before = slot->parameter;
    if (formula.has_kernel()) continue;
    formula.check_parameter(slot->name, before);
    if (before.numel() == 0) continue;
    formula.begin({slot->steps, slot->is_new(), &slot->scalar});
    Tensor p = before, s[StateSpec::max_states];
    std::copy(std::begin(slot->state), std::end(slot->state), s);
    formula.template update<0>(p, formula.maximize() ? -before.grad() : before.grad(), s);
    if constexpr (HasMomentum<Options>::value || HasBeta1<Options>::value)  // Adafactor's states divide
      if (settles(formula, slot->steps))
        for (Tensor& x : s)
          if (x.defined()) x = where(abs(x) < smallest_normal(x.dtype()), 0, x);
    changes.push_back({before, p});
    for (int k = 0; k < StateSpec::max_states; ++k)
      if (s[k].impl() != slot->state[k].impl()) changes.push_back({slot->state[k], s[k]});
  }
  for (Change& c : changes) {
    c.to.before_write("step");
    std::memcpy(c.to.template fresh<void>(), c.value.raw(),
                static_cast<std::size_t>(c.to.numel()) * size_of(c.to.dtype()));
  }
}

// ---- options ------------------------------------------------------------------------------------------------------

template <class Options>
Options& GroupedOptimizer<Options>::options(std::size_t group) {
  auto& all = groups_->formulas;
  if (group >= all.size())
    check::fail(detail::Formula<Options>::name, "there is no group ", group, ": there are ", all.size());
  return all[group];
}

template <class Options>
const Options& GroupedOptimizer<Options>::options(std::size_t group) const {
  return const_cast<GroupedOptimizer&>(*this).options(group);
}

template <class Options>
double GroupedOptimizer<Options>::lr(std::size_t group) const {
  return options(group).lr();
}

template <class Options>
void GroupedOptimizer<Options>::set_lr(std::size_t group, double lr) {
  options(group).lr(lr);
}

template <class Options>
std::optional<double> GroupedOptimizer<Options>::momentum([[maybe_unused]] std::size_t group) const {
  if constexpr (HasMomentum<Options>::value)
    return options(group).momentum();
  else if constexpr (HasBeta1<Options>::value)
    return options(group).beta1();
  else
    return std::nullopt;
}

template <class Options>
void GroupedOptimizer<Options>::set_momentum([[maybe_unused]] std::size_t group, [[maybe_unused]] double momentum) {
  if constexpr (HasMomentum<Options>::value)
    options(group).momentum(momentum);
  else if constexpr (HasBeta1<Options>::value)
    options(group).beta1(momentum);
  else
    check::fail(detail::Formula<Options>::name, "the optimiser has neither momentum nor beta1: there is none to set");
}

template <class Options>
detail::StateSpec GroupedOptimizer<Options>::state_spec(std::size_t group) const {
  using Formula = detail::Formula<Options>;
  Formula& formula = groups_->formulas[group];
  check_options(formula);
  StateSpec spec{{}, formula.states(), Formula::scalar, Formula::on_tensors};
  std::copy(std::begin(Formula::state_names), std::end(Formula::state_names), spec.states);
  return spec;
}

template <class Options>
std::optional<Shape> GroupedOptimizer<Options>::state_shape(const Slot& slot, int k) const {
  return groups_->formulas[slot.group].state_shape(slot.parameter.shape(), k);
}

template <class Options>
std::vector<Optimizer::Option> GroupedOptimizer<Options>::option_list(std::size_t group) const {
  std::vector<Option> list;
  each_option(groups_->formulas[group], [&](const char* name, auto value, Range) {
    list.push_back({name, static_cast<double>(value)});
  });
  return list;
}

template <class Options>
void GroupedOptimizer<Options>::set_options(std::size_t group, const std::vector<Option>& list) {
  auto next = list.begin();
  each_option(groups_->formulas[group], [&](const char* name, auto& value, Range) {
    using T = std::decay_t<decltype(value)>;
    const double number = (next++)->value;
    if (!std::is_floating_point_v<T> && !std::isfinite(number))
      check::fail(detail::Formula<Options>::name, name, " is ", number, ": it must be finite");
    value = static_cast<T>(number);
  });
}

#define INSTANTIATE(NAME) template class GroupedOptimizer<NAME##Options>;
FIT_OPTIMIZERS(INSTANTIATE, INSTANTIATE)
#undef INSTANTIATE

}  // namespace fit::optim
