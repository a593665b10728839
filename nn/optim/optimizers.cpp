#include <cmath>

#include "optim/fused_step.hpp"
#include "optim/named.hpp"

// What each optimiser is made of, beside its formula (core/kernels/optim.hpp): its name, the names of its averages, and
// the one list of its options, from which checking, saving and loading follow.
namespace fit::optim {
namespace {

/// What an option may be.
enum class Range { any, not_negative, below_1 };

template <class Options>
struct Definition;

template <>
struct Definition<SGDOptions> {
  static constexpr const char *name = "SGD", *states[] = {"momentum_buffer"}, *scalar = nullptr;
  template <class O, class F>
  static void options(O& o, const F& f) {
    f("lr", o.lr, Range::not_negative);
    f("momentum", o.momentum, Range::not_negative);
    f("dampening", o.dampening, Range::any);
    f("weight_decay", o.weight_decay, Range::not_negative);
    f("nesterov", o.nesterov, Range::any);
    f("maximize", o.maximize, Range::any);
  }
  static void check_together(const SGDOptions& o) {
    if (o.nesterov && (o.momentum == 0 || o.dampening != 0))
      check::fail(name, "momentum is ", o.momentum, ", dampening ", o.dampening,
                  ": nesterov needs momentum and no dampening");
  }
  static auto step(const SGDOptions& o, const kernels::StepCount& count) { return kernels::SgdStep(o, count); }
};

// Of Adam and its kin.
struct AdaptiveDefinition {
  static constexpr const char *states[] = {"exp_avg", "exp_avg_sq"}, *scalar = nullptr;
  template <class O, class F>
  static void options(O& o, const F& f) {
    f("lr", o.lr, Range::not_negative);
    f("beta1", o.beta1, Range::below_1);
    f("beta2", o.beta2, Range::below_1);
    f("eps", o.eps, Range::not_negative);
    f("weight_decay", o.weight_decay, Range::not_negative);
    f("maximize", o.maximize, Range::any);
  }
  template <class O>
  static void check_together(const O&) {}
};

template <class Options>
struct AmsgradDefinition : AdaptiveDefinition {
  static constexpr const char* states[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  template <class O, class F>
  static void options(O& o, const F& f) {
    AdaptiveDefinition::options(o, f);
    f("amsgrad", o.amsgrad, Range::any);
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
struct Definition<NAdamOptions> : AdaptiveDefinition {
  static constexpr const char *name = "NAdam", *scalar = "mu_product";
  template <class O, class F>
  static void options(O& o, const F& f) {
    AdaptiveDefinition::options(o, f);
    f("momentum_decay", o.momentum_decay, Range::not_negative);
    f("decoupled_weight_decay", o.decoupled_weight_decay, Range::any);
  }
  static auto step(const NAdamOptions& o, const kernels::StepCount& count) { return kernels::NAdamStep(o, count); }
};

template <>
struct Definition<RAdamOptions> : AdaptiveDefinition {
  static constexpr const char* name = "RAdam";
  template <class O, class F>
  static void options(O& o, const F& f) {
    AdaptiveDefinition::options(o, f);
    f("decoupled_weight_decay", o.decoupled_weight_decay, Range::any);
  }
  static auto step(const RAdamOptions& o, const kernels::StepCount& count) { return kernels::RAdamStep(o, count); }
};

template <>
struct Definition<AdamaxOptions> : AdaptiveDefinition {
  static constexpr const char *name = "Adamax", *states[] = {"exp_avg", "exp_inf"};
  static auto step(const AdamaxOptions& o, const kernels::StepCount& count) { return kernels::AdamaxStep(o, count); }
};

template <>
struct Definition<RMSpropOptions> {
  static constexpr const char *name = "RMSprop", *states[] = {"square_avg", "grad_avg", "momentum_buffer"},
                              *scalar = nullptr;
  template <class O, class F>
  static void options(O& o, const F& f) {
    f("lr", o.lr, Range::not_negative);
    f("alpha", o.alpha, Range::below_1);
    f("eps", o.eps, Range::not_negative);
    f("weight_decay", o.weight_decay, Range::not_negative);
    f("momentum", o.momentum, Range::not_negative);
    f("centered", o.centered, Range::any);
    f("maximize", o.maximize, Range::any);
  }
  static void check_together(const RMSpropOptions&) {}
  static auto step(const RMSpropOptions& o, const kernels::StepCount& count) { return kernels::RmspropStep(o, count); }
};

template <>
struct Definition<AdagradOptions> {
  static constexpr const char *name = "Adagrad", *states[] = {"sum"}, *scalar = nullptr;
  template <class O, class F>
  static void options(O& o, const F& f) {
    f("lr", o.lr, Range::not_negative);
    f("lr_decay", o.lr_decay, Range::not_negative);
    f("weight_decay", o.weight_decay, Range::not_negative);
    f("initial_accumulator_value", o.initial_accumulator_value, Range::not_negative);
    f("eps", o.eps, Range::not_negative);
    f("maximize", o.maximize, Range::any);
  }
  static void check_together(const AdagradOptions&) {}
  static auto step(const AdagradOptions& o, const kernels::StepCount& count) { return kernels::AdagradStep(o, count); }
};

template <>
struct Definition<LionOptions> {
  static constexpr const char *name = "Lion", *states[] = {"exp_avg"}, *scalar = nullptr;
  template <class O, class F>
  static void options(O& o, const F& f) {
    f("lr", o.lr, Range::not_negative);
    f("beta1", o.beta1, Range::below_1);
    f("beta2", o.beta2, Range::below_1);
    f("weight_decay", o.weight_decay, Range::not_negative);
    f("maximize", o.maximize, Range::any);
  }
  static void check_together(const LionOptions&) {}
  static auto step(const LionOptions& o, const kernels::StepCount& count) { return kernels::LionStep(o, count); }
};

template <>
struct Definition<AdadeltaOptions> {
  static constexpr const char *name = "Adadelta", *states[] = {"square_avg", "acc_delta"}, *scalar = nullptr;
  template <class O, class F>
  static void options(O& o, const F& f) {
    f("lr", o.lr, Range::not_negative);
    f("rho", o.rho, Range::below_1);
    f("eps", o.eps, Range::not_negative);
    f("weight_decay", o.weight_decay, Range::not_negative);
    f("maximize", o.maximize, Range::any);
  }
  static void check_together(const AdadeltaOptions&) {}
  static auto step(const AdadeltaOptions& o, const kernels::StepCount& count) {
    return kernels::AdadeltaStep(o, count);
  }
};

// Its step is no kernel (adafactor.cpp): all that is asked of it here are its states.
template <>
struct Definition<AdafactorOptions> {
  static constexpr const char *name = "Adafactor", *states[] = {"row_var", "col_var", "variance"}, *scalar = nullptr;
  template <class O, class F>
  static void options(O& o, const F& f) {
    f("lr", o.lr, Range::not_negative);
    f("beta2_decay", o.beta2_decay, Range::any);
    f("eps1", o.eps1, Range::not_negative);
    f("eps2", o.eps2, Range::not_negative);
    f("d", o.d, Range::not_negative);
    f("weight_decay", o.weight_decay, Range::not_negative);
    f("maximize", o.maximize, Range::any);
  }
  static void check_together(const AdafactorOptions& o) {
    if (o.beta2_decay > 0) check::fail(name, "beta2_decay is ", o.beta2_decay, ": it must not be positive");
    if (o.d < 1) check::fail(name, "d is ", o.d, ": it must be at least 1");
  }
  struct States {
    unsigned states() const { return 7; }
  };
  static States step(const AdafactorOptions&, const kernels::StepCount&) { return {}; }
};

// ---- what follows from a definition -------------------------------------------------------------------------------

template <class Options>
StateSpec checked_spec(const Options& o) {
  using D = Definition<Options>;
  D::options(o, [](const char* name, const auto& value, Range range) {
    const auto number = static_cast<double>(value);
    if (range == Range::not_negative) check_not_negative(D::name, name, number);
    if (range == Range::below_1) check_share(D::name, name, number);
    if (!std::isfinite(number)) check::fail(D::name, name, " is ", number, ": it must be finite");
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
  Definition<Options>::options(
      o, [&](const char*, auto& value, Range) { value = static_cast<std::decay_t<decltype(value)>>((next++)->value); });
  return o;
}

template <class Options>
Options with_lr(double lr) {
  Options o;
  o.lr = lr;
  return o;
}

SGDOptions with_momentum(double lr, double momentum) {
  SGDOptions o;
  o.lr = lr, o.momentum = momentum;
  return o;
}

}  // namespace

SGD::SGD(const Parameters& parameters, double lr, double momentum) : SGD(parameters, with_momentum(lr, momentum)) {}

template <class Options>
GroupedOptimizer<Options>::GroupedOptimizer(const Parameters& parameters, const Options& options)
    : GroupedOptimizer(std::vector<Group<Options>>{{parameters, options}}) {}

template <class Options>
GroupedOptimizer<Options>::GroupedOptimizer(const Parameters& parameters, double lr)
    : GroupedOptimizer(parameters, with_lr<Options>(lr)) {}

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
  options_.reserve(options_.size() + 1);  // nothing fails once the parameters are there
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
  Definition<Options>::options(options(group), [&](const char* name, const auto& value, Range) {
    list.push_back({name, static_cast<double>(value)});
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
              part.begin, part.size, options(group).maximize ? -1 : 1);
  });
  fused.run();
  exchange_parameters();
}

template <>
std::optional<Shape> GroupedOptimizer<AdafactorOptions>::state_shape(const Tensor& parameter, int k) const;
template <>
void GroupedOptimizer<AdafactorOptions>::step();

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

}  // namespace fit::optim
