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

template <class Options>
struct Definition;

template <>
struct Definition<SGDOptions> {
  using O = SGDOptions;
  static constexpr const char *name = "SGD", *states[] = {"momentum_buffer"}, *scalar = nullptr;
  template <class F>
  static void options(const F& f) {
    f(LISTED(lr, not_negative));
    f(LISTED(momentum, not_negative));
    f(LISTED(dampening, any));
    f(LISTED(weight_decay, not_negative));
    f(LISTED(nesterov, any));
    f(LISTED(maximize, any));
  }
  static void check_together(const SGDOptions& o) {
    if (o.nesterov() && (o.momentum() == 0 || o.dampening() != 0))
      check::fail(name, "momentum is ", o.momentum(), ", dampening ", o.dampening(),
                  ": nesterov needs momentum and no dampening");
  }
  static auto step(const SGDOptions& o, const kernels::StepCount& count) { return kernels::SgdStep(o, count); }
};

// Common parts of Adam and its variants.
template <class O>
struct AdaptiveDefinition {
  static constexpr const char *states[] = {"exp_avg", "exp_avg_sq"}, *scalar = nullptr;
  template <class F>
  static void options(const F& f) {
    f(LISTED(lr, not_negative));
    f(LISTED(beta1, below_1));
    f(LISTED(beta2, below_1));
    f(LISTED(eps, not_negative));
    f(LISTED(weight_decay, not_negative));
    f(LISTED(maximize, any));
  }
  static void check_together(const O&) {}
};

template <class O>
struct AmsgradDefinition : AdaptiveDefinition<O> {
  static constexpr const char* states[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  template <class F>
  static void options(const F& f) {
    AdaptiveDefinition<O>::options(f);
    f(LISTED(amsgrad, any));
  }
};

template <>
struct Definition<AdamOptions> : AmsgradDefinition<AdamOptions> {
  static constexpr const char* name = "Adam";
  static auto step(const AdamOptions& o, const kernels::StepCount& count) { return kernels::AdamStep(o, false, count); }
};

template <>
struct Definition<AdamWOptions> : AmsgradDefinition<AdamWOptions> {
  static constexpr const char* name = "AdamW";
  static auto step(const AdamWOptions& o, const kernels::StepCount& count) { return kernels::AdamStep(o, true, count); }
};

template <>
struct Definition<NAdamOptions> : AdaptiveDefinition<NAdamOptions> {
  using O = NAdamOptions;
  static constexpr const char *name = "NAdam", *scalar = "mu_product";
  template <class F>
  static void options(const F& f) {
    AdaptiveDefinition<O>::options(f);
    f(LISTED(momentum_decay, not_negative));
    f(LISTED(decoupled_weight_decay, any));
  }
  static auto step(const NAdamOptions& o, const kernels::StepCount& count) { return kernels::NAdamStep(o, count); }
};

template <>
struct Definition<RAdamOptions> : AdaptiveDefinition<RAdamOptions> {
  using O = RAdamOptions;
  static constexpr const char* name = "RAdam";
  template <class F>
  static void options(const F& f) {
    AdaptiveDefinition<O>::options(f);
    f(LISTED(decoupled_weight_decay, any));
  }
  static auto step(const RAdamOptions& o, const kernels::StepCount& count) { return kernels::RAdamStep(o, count); }
};

template <>
struct Definition<AdamaxOptions> : AdaptiveDefinition<AdamaxOptions> {
  static constexpr const char *name = "Adamax", *states[] = {"exp_avg", "exp_inf"};
  static auto step(const AdamaxOptions& o, const kernels::StepCount& count) { return kernels::AdamaxStep(o, count); }
};

template <>
struct Definition<RMSpropOptions> {
  using O = RMSpropOptions;
  static constexpr const char *name = "RMSprop", *states[] = {"square_avg", "grad_avg", "momentum_buffer"},
                              *scalar = nullptr;
  template <class F>
  static void options(const F& f) {
    f(LISTED(lr, not_negative));
    f(LISTED(alpha, below_1));
    f(LISTED(eps, not_negative));
    f(LISTED(weight_decay, not_negative));
    f(LISTED(momentum, not_negative));
    f(LISTED(centered, any));
    f(LISTED(maximize, any));
  }
  static void check_together(const RMSpropOptions&) {}
  static auto step(const RMSpropOptions& o, const kernels::StepCount& count) { return kernels::RmspropStep(o, count); }
};

template <>
struct Definition<AdagradOptions> {
  using O = AdagradOptions;
  static constexpr const char *name = "Adagrad", *states[] = {"sum"}, *scalar = nullptr;
  template <class F>
  static void options(const F& f) {
    f(LISTED(lr, not_negative));
    f(LISTED(lr_decay, not_negative));
    f(LISTED(weight_decay, not_negative));
    f(LISTED(initial_accumulator_value, not_negative));
    f(LISTED(eps, not_negative));
    f(LISTED(maximize, any));
  }
  static void check_together(const AdagradOptions&) {}
  static auto step(const AdagradOptions& o, const kernels::StepCount& count) { return kernels::AdagradStep(o, count); }
};

template <>
struct Definition<LionOptions> {
  using O = LionOptions;
  static constexpr const char *name = "Lion", *states[] = {"exp_avg"}, *scalar = nullptr;
  template <class F>
  static void options(const F& f) {
    f(LISTED(lr, not_negative));
    f(LISTED(beta1, below_1));
    f(LISTED(beta2, below_1));
    f(LISTED(weight_decay, not_negative));
    f(LISTED(maximize, any));
  }
  static void check_together(const LionOptions&) {}
  static auto step(const LionOptions& o, const kernels::StepCount& count) { return kernels::LionStep(o, count); }
};

template <>
struct Definition<AdadeltaOptions> {
  using O = AdadeltaOptions;
  static constexpr const char *name = "Adadelta", *states[] = {"square_avg", "acc_delta"}, *scalar = nullptr;
  template <class F>
  static void options(const F& f) {
    f(LISTED(lr, not_negative));
    f(LISTED(rho, below_1));
    f(LISTED(eps, not_negative));
    f(LISTED(weight_decay, not_negative));
    f(LISTED(maximize, any));
  }
  static void check_together(const AdadeltaOptions&) {}
  static auto step(const AdadeltaOptions& o, const kernels::StepCount& count) {
    return kernels::AdadeltaStep(o, count);
  }
};

// Adafactor's step is not a kernel (see adafactor.cpp). Only states() is used here.
template <>
struct Definition<AdafactorOptions> {
  using O = AdafactorOptions;
  static constexpr const char *name = "Adafactor", *states[] = {"row_var", "col_var", "variance"}, *scalar = nullptr;
  template <class F>
  static void options(const F& f) {
    f(LISTED(lr, not_negative));
    f(LISTED(beta2_decay, any));
    f(LISTED(eps1, not_negative));
    f(LISTED(eps2, not_negative));
    f(LISTED(d, not_negative));
    f(LISTED(weight_decay, not_negative));
    f(LISTED(maximize, any));
  }
  static void check_together(const AdafactorOptions& o) {
    if (o.beta2_decay() > 0) check::fail(name, "beta2_decay is ", o.beta2_decay(), ": it must not be positive");
    if (o.d() < 1) check::fail(name, "d is ", o.d(), ": it must be at least 1");
  }
  struct States {
    unsigned states() const { return 7; }
  };
  static States step(const AdafactorOptions&, const kernels::StepCount&) { return {}; }
};

// Muon's step is not a kernel (see muon.cpp). Only states() is used here.
template <>
struct Definition<MuonOptions> {
  using O = MuonOptions;
  static constexpr const char *name = "Muon", *states[] = {"momentum_buffer", "exp_avg", "exp_avg_sq"},
                              *scalar = nullptr;
  template <class F>
  static void options(const F& f) {
    f(LISTED(lr, not_negative));
    f(LISTED(momentum, below_1));
    f(LISTED(weight_decay, not_negative));
    f(LISTED(nesterov, any));
    f(LISTED(ns_steps, not_negative));
    f(LISTED(eps, not_negative));
    f(LISTED(match_rms_adamw, any));
    f(LISTED(bfloat16, any));
    f(LISTED(maximize, any));
    f(LISTED(adamw, any));
    f(LISTED(beta1, below_1));
    f(LISTED(beta2, below_1));
    f(LISTED(adamw_eps, not_negative));
  }
  static void check_together(const MuonOptions& o) {
    if (o.ns_steps() > 99) check::fail(name, "ns_steps is ", o.ns_steps(), ": it must be in 0 … 99");
  }
  struct States {
    unsigned mask;
    unsigned states() const { return mask; }
  };
  static States step(const MuonOptions& o, const kernels::StepCount&) { return {o.adamw() ? 6u : 1u}; }
};

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
  double scalar = 1;
  kernels::StepCount first;
  first.scalar = &scalar;
  StateSpec spec{{}, D::step(o, first).states(), D::scalar};
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
GroupedOptimizer<Options>::GroupedOptimizer(const Parameters& parameters, const Options& options)
    : GroupedOptimizer(std::vector<Group<Options>>{{parameters, options}}) {}

template <class Options>
GroupedOptimizer<Options>::GroupedOptimizer(const Parameters& parameters, double lr)
    : GroupedOptimizer(parameters, Options().lr(lr)) {}

template <class Options>
GroupedOptimizer<Options>::GroupedOptimizer(const std::vector<Group<Options>>& groups)
    : Optimizer(Definition<Options>::name) {
  for (const Group<Options>& g : groups) add_param_group(g);
  for (const Group<Options>& g : groups)
    for (const auto& [name, p] : g.parameters.named())
      if (p.requires_grad()) return;
  if (!groups.empty()) fail_all_frozen(Definition<Options>::name);
}

template <class Options>
void GroupedOptimizer<Options>::add_param_group(const Group<Options>& group) {
  checked_spec(group.options);
  options_.reserve(options_.size() + 1);  // so that nothing fails after add()
  add(group.parameters);
  options_.push_back(group.options);
}

template <class Options>
Options& GroupedOptimizer<Options>::options(std::size_t group) {
  if (group >= options_.size())
    check::fail(Definition<Options>::name, "there is no group ", group, ": there are ", options_.size());
  return options_[group];
}

template <class Options>
const Options& GroupedOptimizer<Options>::options(std::size_t group) const {
  return const_cast<GroupedOptimizer&>(*this).options(group);
}

template <class Options>
StateSpec GroupedOptimizer<Options>::state_spec(std::size_t group) const {
  return checked_spec(options(group));
}

template <class Options>
StateSpec GroupedOptimizer<Options>::state_spec_under(const std::vector<Option>& list) const {
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
  return Optimizer::state_shape(parameter, k);
}

template <class Options>
void GroupedOptimizer<Options>::step() {
  const NoGrad no_grad;
  FusedStep<decltype(Definition<Options>::step(options(), {}))> fused;
  fused.reserve(parameter_count());
  each_with_gradient([&](Slot& slot, std::size_t group) {
    const kernels::StepCount count{slot.steps, slot.is_new, &slot.scalar};
    const Part part = part_of(slot);
    fused.add(slot.parameter, slot.parameter.grad(), slot.state, Definition<Options>::step(options(group), count),
              part.begin, part.size, options(group).maximize() ? -1 : 1);
  });
  fused.run();
  exchange_parameters();
}

template <>
std::optional<Shape> GroupedOptimizer<AdafactorOptions>::state_shape(const Tensor& parameter, int k) const;
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
