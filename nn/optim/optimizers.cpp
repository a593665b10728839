#include <cmath>

#include "fit/muon.hpp"
#include "optim/fused_step.hpp"
#include "optim/named.hpp"

// The definition of each optimiser: its name, the names of its averages, and the list of its options. Checking, saving
// and loading follow from the list. The formulas are in core/kernels/optim.hpp.
namespace fit::optim {
namespace {

/// The range of an option.
enum class Range { any, not_negative, below_1 };

/// An option of an optimiser. Its value is a number: a bool is 0 or 1.
template <class O>
struct Listed {
  const char* name;
  double (*get)(const O&);
  void (*set)(O&, double);
  Range range;
};

template <class O>
Listed<O> listed(const char* name, double (*get)(const O&), void (*set)(O&, double), Range range) {
  return {name, get, set, range};
}

#define LISTED(option, range)                                              \
  listed<O>(                                                               \
      #option, [](const O& o) { return static_cast<double>(o.option()); }, \
      [](O& o, double value) { o.option(static_cast<decltype(o.option())>(value)); }, Range::range)
#define ANY(option) LISTED(option, any)
#define NOT_NEGATIVE(option) LISTED(option, not_negative)
#define BELOW_1(option) LISTED(option, below_1)
// Makes options(f), which calls f for each of the options.
#define OPTIONS(...)                                         \
  template <class F>                                         \
  static void options(const F& f) {                          \
    for (const Listed<O>& option : {__VA_ARGS__}) f(option); \
  }

template <class Options>
struct Definition;

// The defaults of a definition. Step: the formula; void if it is no kernel.
template <class Options, class Step = void>
struct DefinitionBase {
  using O = Options;
  static constexpr const char* scalar = nullptr;  // of StepCount: its name in files
  static void check_together(const O&) {}
  static void check_parameter(const O&, const std::string& /*name*/, const Tensor&) {}
  static Step step(const O& o, const kernels::StepCount& count) { return Step(o, count); }
  // Bit k: states[k] is needed.
  static unsigned needed(const O& o) {
    double scalar = 1;
    kernels::StepCount first;
    first.scalar = &scalar;
    return Definition<O>::step(o, first).states();
  }
  static std::optional<Shape> state_shape(const Tensor& parameter, int /*k*/) { return parameter.shape(); }
};

template <>
struct Definition<SGDOptions> : DefinitionBase<SGDOptions, kernels::SgdStep> {
  static constexpr const char *name = "SGD", *states[] = {"momentum_buffer"};
  OPTIONS(NOT_NEGATIVE(lr), NOT_NEGATIVE(momentum), ANY(dampening), NOT_NEGATIVE(weight_decay), ANY(nesterov),
          ANY(maximize))
  static void check_together(const O& o) {
    if (o.nesterov() && (o.momentum() == 0 || o.dampening() != 0))
      check::fail(name, "momentum is ", o.momentum(), ", dampening ", o.dampening(),
                  ": nesterov needs momentum and no dampening");
  }
};

#define ADAM_OPTIONS \
  NOT_NEGATIVE(lr), BELOW_1(beta1), BELOW_1(beta2), NOT_NEGATIVE(eps), NOT_NEGATIVE(weight_decay), ANY(maximize)

template <class O, bool decoupled>
struct AmsgradDefinition : DefinitionBase<O, kernels::AdamStep> {
  static constexpr const char* states[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  OPTIONS(ADAM_OPTIONS, ANY(amsgrad))
  static auto step(const O& o, const kernels::StepCount& count) { return kernels::AdamStep(o, decoupled, count); }
};

template <>
struct Definition<AdamOptions> : AmsgradDefinition<AdamOptions, false> {
  static constexpr const char* name = "Adam";
};

template <>
struct Definition<AdamWOptions> : AmsgradDefinition<AdamWOptions, true> {
  static constexpr const char* name = "AdamW";
};

template <>
struct Definition<NAdamOptions> : DefinitionBase<NAdamOptions, kernels::NAdamStep> {
  static constexpr const char *name = "NAdam", *states[] = {"exp_avg", "exp_avg_sq"}, *scalar = "mu_product";
  OPTIONS(ADAM_OPTIONS, NOT_NEGATIVE(momentum_decay), ANY(decoupled_weight_decay))
};

template <>
struct Definition<RAdamOptions> : DefinitionBase<RAdamOptions, kernels::RAdamStep> {
  static constexpr const char *name = "RAdam", *states[] = {"exp_avg", "exp_avg_sq"};
  OPTIONS(ADAM_OPTIONS, ANY(decoupled_weight_decay))
};

template <>
struct Definition<AdamaxOptions> : DefinitionBase<AdamaxOptions, kernels::AdamaxStep> {
  static constexpr const char *name = "Adamax", *states[] = {"exp_avg", "exp_inf"};
  OPTIONS(ADAM_OPTIONS)
};

template <>
struct Definition<RMSpropOptions> : DefinitionBase<RMSpropOptions, kernels::RmspropStep> {
  static constexpr const char *name = "RMSprop", *states[] = {"square_avg", "grad_avg", "momentum_buffer"};
  OPTIONS(NOT_NEGATIVE(lr), BELOW_1(alpha), NOT_NEGATIVE(eps), NOT_NEGATIVE(weight_decay), NOT_NEGATIVE(momentum),
          ANY(centered), ANY(maximize))
};

template <>
struct Definition<AdagradOptions> : DefinitionBase<AdagradOptions, kernels::AdagradStep> {
  static constexpr const char *name = "Adagrad", *states[] = {"sum"};
  OPTIONS(NOT_NEGATIVE(lr), NOT_NEGATIVE(lr_decay), NOT_NEGATIVE(weight_decay), NOT_NEGATIVE(initial_accumulator_value),
          NOT_NEGATIVE(eps), ANY(maximize))
};

template <>
struct Definition<LionOptions> : DefinitionBase<LionOptions, kernels::LionStep> {
  static constexpr const char *name = "Lion", *states[] = {"exp_avg"};
  OPTIONS(NOT_NEGATIVE(lr), BELOW_1(beta1), BELOW_1(beta2), NOT_NEGATIVE(weight_decay), ANY(maximize))
};

template <>
struct Definition<AdadeltaOptions> : DefinitionBase<AdadeltaOptions, kernels::AdadeltaStep> {
  static constexpr const char *name = "Adadelta", *states[] = {"square_avg", "acc_delta"};
  OPTIONS(NOT_NEGATIVE(lr), BELOW_1(rho), NOT_NEGATIVE(eps), NOT_NEGATIVE(weight_decay), ANY(maximize))
};

// Adafactor's step is not a kernel (see adafactor.cpp).
template <>
struct Definition<AdafactorOptions> : DefinitionBase<AdafactorOptions> {
  static constexpr const char *name = "Adafactor", *states[] = {"row_var", "col_var", "variance"};
  OPTIONS(NOT_NEGATIVE(lr), ANY(beta2_decay), NOT_NEGATIVE(eps1), NOT_NEGATIVE(eps2), NOT_NEGATIVE(d),
          NOT_NEGATIVE(weight_decay), ANY(maximize))
  static void check_together(const O& o) {
    if (o.beta2_decay() > 0) check::fail(name, "beta2_decay is ", o.beta2_decay(), ": it must not be positive");
    if (o.d() < 1) check::fail(name, "d is ", o.d(), ": it must be at least 1");
  }
  static unsigned needed(const O&) { return 7; }
  // Row and column means for parameters with two axes or more, else one value for each element.
  static std::optional<Shape> state_shape(const Tensor& parameter, int k) {
    const Shape& shape = parameter.shape();
    if ((k == 2) != (shape.rank() < 2)) return std::nullopt;
    return k == 2 ? shape : shape.with(shape.rank() - 1 - k, 1);
  }
};

// Muon's step is not a kernel (see muon.cpp).
template <>
struct Definition<MuonOptions> : DefinitionBase<MuonOptions> {
  static constexpr const char *name = "Muon", *states[] = {"momentum_buffer", "exp_avg", "exp_avg_sq"};
  OPTIONS(NOT_NEGATIVE(lr), BELOW_1(momentum), NOT_NEGATIVE(weight_decay), ANY(nesterov), NOT_NEGATIVE(ns_steps),
          NOT_NEGATIVE(eps), ANY(match_rms_adamw), ANY(bfloat16), ANY(maximize), ANY(adamw), BELOW_1(beta1),
          BELOW_1(beta2), NOT_NEGATIVE(adamw_eps))
  static void check_together(const O& o) {
    if (o.ns_steps() > 99) check::fail(name, "ns_steps is ", o.ns_steps(), ": it must be in 0 … 99");
  }
  static unsigned needed(const O& o) { return o.adamw() ? 6 : 1; }
  static void check_parameter(const O& o, const std::string& parameter, const Tensor& p) {
    if (!o.adamw()) check_matrix(parameter, p);
  }
};

#undef ADAM_OPTIONS
#undef OPTIONS
#undef BELOW_1
#undef NOT_NEGATIVE
#undef ANY
#undef LISTED

// ---- what follows from a definition -------------------------------------------------------------------------------

template <class Options>
StateSpec checked_spec(const Options& o) {
  using D = Definition<Options>;
  D::options([&](const Listed<Options>& option) {
    const double value = option.get(o);
    if (option.range == Range::not_negative) check_not_negative(D::name, option.name, value);
    if (option.range == Range::below_1) check_share(D::name, option.name, value);
    if (!std::isfinite(value)) check::fail(D::name, option.name, " is ", value, ": it must be finite");
  });
  D::check_together(o);
  StateSpec spec{{}, D::needed(o), D::scalar};
  std::copy(std::begin(D::states), std::end(D::states), spec.states);
  return spec;
}

template <class Options>
Options options_of(const std::vector<Optimizer::Option>& list) {
  Options o;
  auto next = list.begin();
  Definition<Options>::options([&](const Listed<Options>& option) { option.set(o, (next++)->value); });
  return o;
}

}  // namespace

SGD::SGD(const Parameters& parameters, double lr, double momentum)
    : SGD(parameters, SGDOptions().lr(lr).momentum(momentum)) {}

template <class Options>
struct GroupedOptimizer<Options>::Groups {
  std::vector<Options> options;
};

template <class Options>
GroupedOptimizer<Options>::GroupedOptimizer(const Parameters& parameters, const Options& options)
    : GroupedOptimizer(std::vector<Group<Options>>{{parameters, options}}) {}

template <class Options>
GroupedOptimizer<Options>::GroupedOptimizer(const Parameters& parameters, double lr)
    : GroupedOptimizer(parameters, Options().lr(lr)) {}

template <class Options>
GroupedOptimizer<Options>::GroupedOptimizer(const std::vector<Group<Options>>& groups)
    : Optimizer(Definition<Options>::name), groups_(std::make_unique<Groups>()) {
  std::size_t number = 0;
  for (const Group<Options>& g : groups)
    for (const auto& [name, p] : g.parameters.named())
      Definition<Options>::check_parameter(g.options, name_or_number(name, number++), p);
  for (const Group<Options>& g : groups) add_param_group(g);
  for (const Group<Options>& g : groups)
    for (const auto& [name, p] : g.parameters.named())
      if (p.requires_grad()) return;
  if (!groups.empty()) fail_all_frozen(Definition<Options>::name);
}

template <class Options>
GroupedOptimizer<Options>::~GroupedOptimizer() = default;

template <class Options>
void GroupedOptimizer<Options>::add_param_group(const Group<Options>& group) {
  checked_spec(group.options);
  std::vector<Options>& all = groups_->options;
  all.reserve(all.size() + 1);  // so that nothing fails after add()
  add(group.parameters);
  all.push_back(group.options);
}

template <class Options>
Options& GroupedOptimizer<Options>::options(std::size_t group) {
  std::vector<Options>& all = groups_->options;
  if (group >= all.size())
    check::fail(Definition<Options>::name, "there is no group ", group, ": there are ", all.size());
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
StateSpec GroupedOptimizer<Options>::state_spec(const std::vector<Option>& list) const {
  return checked_spec(options_of<Options>(list));
}

template <class Options>
std::vector<Optimizer::Option> GroupedOptimizer<Options>::option_list(std::size_t group) const {
  std::vector<Option> list;
  Definition<Options>::options([&](const Listed<Options>& option) {
    list.push_back({option.name, option.get(options(group))});
  });
  return list;
}

template <class Options>
void GroupedOptimizer<Options>::set_options(std::size_t group, const std::vector<Option>& list) {
  options(group) = options_of<Options>(list);
}

template <class Options>
std::optional<Shape> GroupedOptimizer<Options>::state_shape(const Tensor& parameter, int k) const {
  return Definition<Options>::state_shape(parameter, k);
}

template <class Options>
void GroupedOptimizer<Options>::step() {
  const NoGrad no_grad;
  FusedStep<decltype(Definition<Options>::step(options(), {}))> fused;
  fused.reserve(parameter_count());
  each_with_gradient([&](Slot& slot) {
    const kernels::StepCount count{slot.steps, slot.is_new, &slot.scalar};
    const Part part = part_of(slot);
    const Options& o = options(slot.group);
    fused.add(slot.parameter, slot.parameter.grad(), slot.state, Definition<Options>::step(o, count), part.begin,
              part.size, o.maximize() ? -1 : 1);
  });
  fused.run();
  exchange_parameters();
}

template <>
void GroupedOptimizer<AdafactorOptions>::step();
template <>
void GroupedOptimizer<MuonOptions>::step();

template class GroupedOptimizer<SGDOptions>;
template class GroupedOptimizer<AdamOptions>;
template class GroupedOptimizer<AdamWOptions>;
template class GroupedOptimizer<NAdamOptions>;
template class GroupedOptimizer<RAdamOptions>;
template class GroupedOptimizer<AdamaxOptions>;
template class GroupedOptimizer<RMSpropOptions>;
template class GroupedOptimizer<AdagradOptions>;
template class GroupedOptimizer<LionOptions>;
template class GroupedOptimizer<AdadeltaOptions>;
template class GroupedOptimizer<AdafactorOptions>;
template class GroupedOptimizer<MuonOptions>;

}  // namespace fit::optim
