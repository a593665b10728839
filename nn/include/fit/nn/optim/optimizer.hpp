#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fit/nn/layer/parameter.hpp"
#include "fit/nn/optim/formula.hpp"
#include "fit/tensor/state_dict.hpp"
#include "fit/tensor/tensor.hpp"

namespace fit::nn {
class Layer;
}
namespace fit::dist {
class World;
}

namespace fit::optim {

/// The parameters to train: net.parameters(), net.named_parameters(), {w, b}, or those of several layers,
/// {encoder.parameters(), decoder.parameters(), scale}. A parameter without a name gets its number, "0", "1" …
class Parameters {
  template <class Part>
  static constexpr bool is_part = std::is_convertible_v<const Part&, Parameters> || std::is_base_of_v<Tensor, Part>;

 public:
  Parameters(const std::vector<Tensor>& list);
  Parameters(std::initializer_list<Tensor> list);
  template <class... Parts, class = std::enable_if_t<(sizeof...(Parts) > 1) && (is_part<Parts> && ...)>>
  Parameters(const Parts&... parts) {
    (add(parts), ...);
  }
  Parameters(StateDict named);
  Parameters(const nn::Layer&) = delete;  // give layer.named_parameters()
  /// The parameters by name.
  const StateDict& named() const { return named_; }

 private:
  void add(const Parameters& part);
  void add(const Tensor& parameter);

  StateDict named_;
};

/// Parameters with their own options.
template <class Options>
struct Group {
  Parameters parameters;
  Options options;
};

/// Whether infinities and NaN in gradients throw Error, for a step and for clipping.
enum class ErrorIfNonfinite : bool { no, yes };
inline constexpr ErrorIfNonfinite error_if_nonfinite = ErrorIfNonfinite::yes;

namespace detail {
/// The states that an optimiser with these options keeps for each parameter.
struct StateSpec {
  static constexpr int max_states = detail::max_states;
  const char* states[max_states];  // names of tensors like the parameter
  unsigned mask;                   // bit k: states[k] is needed
  const char* scalar;              // the name of a number; null if there is none
  bool on_tensors;                 // a step needs whole tensors, not element by element
};
}  // namespace detail

/// The base of all optimisers. A step does not change parameters without a gradient, nor their averages. A frozen
/// parameter may have any floating type. A trained one must be float32 or float64: bfloat16 would lose small steps.
class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates the parameters in one pass over memory. Counts as a change of each parameter (Tensor::version). Throws
  /// Error, and changes nothing, for options out of range, for a parameter whose type changed after construction, and
  /// for one that is in no layer any more, because its layer was replaced or destroyed.
  virtual void step() = 0;
  /// The same. With error_if_nonfinite, it first throws Error with the name of a parameter whose gradient holds an
  /// infinity or NaN: the parameters then keep their last good values. It also throws Error if a StepInBackward updates
  /// a parameter, because the gradient is freed then.
  void step(ErrorIfNonfinite nonfinite);
  /// The step of one parameter, as if only this one had a gradient. Throws Error if it is not one of the optimiser's,
  /// and for sharded averages.
  void step(const Tensor& parameter);
  /// Creates the averages of the parameters that are not frozen and have taken no step. The first step would create
  /// them otherwise. Memory that is taken before the first forward pass does not lie among that of its tensors.
  void create_states();
  /// Clears the gradients.
  void zero_grad();
  /// The parameters that are not frozen.
  std::vector<Tensor> trained() const;
  /// All parameters with their names, in the order in which they were given.
  StateDict named_parameters() const;
  /// The name of the first parameter whose gradient holds an infinity or NaN; empty if there is none.
  std::string nonfinite_gradient() const;

  /// The number of parameter groups.
  std::size_t groups() const { return slots_.empty() ? 0 : slots_.back().group + 1; }
  /// The learning rate of a group.
  virtual double lr(std::size_t group = 0) const = 0;
  /// Sets the learning rate of a group.
  virtual void set_lr(std::size_t group, double lr) = 0;
  /// Sets the learning rate of all groups.
  void set_lr(double lr);
  /// The momentum of a group: its option momentum, or else beta1. None if it has neither.
  virtual std::optional<double> momentum(std::size_t group = 0) const = 0;
  /// Sets the momentum of a group. Throws Error if it has none.
  virtual void set_momentum(std::size_t group, double momentum) = 0;
  /// The learning rate of a group before its first schedule, which is the base rate of all its schedules.
  double initial_lr(std::size_t group) const;
  /// Keeps the rates of now as initial_lr() of the groups that had no schedule yet. Schedules call it.
  void keep_initial_lrs();
  /// Whether any parameter has taken a step.
  bool has_stepped() const;

  /// The averages and step counts ("0.weight.exp_avg", "0.weight.step") as live handles, and the options of the groups
  /// ("lr.0", "beta1.0" …; a bool is 0 or 1). Parameters without a step are not listed. If an option was switched on
  /// after the last step, its average still has shape [0]. Averages that are subnormal become 0 each 64 steps, unless
  /// eps is 0.
  StateDict state_dict() const;
  /// Loads the state and the options. To use other options, set them afterwards. Missing options keep their values; lr
  /// must be there. Throws one Error that lists every name that does not fit, and then changes nothing.
  void load_state_dict(const StateDict& state);

  /// Shards the averages among the ranks (ZeRO stage 1: Rajbhandari et al. 2020). Each rank keeps and updates 1 / size
  /// of each parameter. Then the ranks exchange their parts. The results have the same bits as without sharding. All
  /// ranks must call step(), state_dict() and shard(). state_dict() then returns full averages as copies.
  /// load_state_dict() expects full averages, so the number of ranks may change. The world must outlive the optimiser.
  /// Throws Error if the averages are sharded already, and for Adafactor, LAMB and Muon, which need whole tensors.
  void shard(dist::World& world);
  /// Whether the averages are sharded.
  bool sharded() const { return world_ != nullptr; }

  /// An option by its name.
  struct Option {
    const char* name;
    double value;
  };

 protected:
  using StateSpec = detail::StateSpec;
  /// A parameter and its state.
  struct Slot {
    std::size_t group;
    std::string name;
    Tensor parameter;
    std::int64_t steps = 0;
    Tensor state[StateSpec::max_states] = {};
    double scalar = 1;
    unsigned created = 0;  // bit k: this step created states[k]
    /// Whether the states start with this step.
    bool is_new() const { return steps == 1 || created != 0; }
  };

  /// `op` is the name in errors.
  explicit Optimizer(const char* op);
  /// Adds a group. Throws Error for a parameter that is not a floating leaf, or that was added before.
  void add(const Parameters& parameters);
  /// A group's options by name, in the order of their list: for saving.
  virtual std::vector<Option> option_list(std::size_t group) const = 0;
  /// Sets a group's options, in the order of option_list(): for loading.
  virtual void set_options(std::size_t group, const std::vector<Option>& options) = 0;
  /// The states that a group's options need. Throws Error for invalid options.
  virtual StateSpec state_spec(std::size_t group) const = 0;
  /// The shape of states[k] of a slot; none if there is no such state.
  virtual std::optional<Shape> state_shape(const Slot& slot, int k) const = 0;
  /// Begins a step: the parameters with a gradient, their steps counted and their states created. All checks and
  /// allocations are done then, so a formula that can't throw completes the step.
  std::vector<Slot*> begin_step();
  /// Takes back begin_step().
  static void undo_step(const std::vector<Slot*>& slots) noexcept;
  std::size_t parameter_count() const { return slots_.size(); }
  /// The range of a parameter's elements for which this rank keeps averages.
  struct Part {
    std::int64_t begin, size;
  };
  /// The range of this parameter.
  Part part_of(const Slot& slot) const;
  /// Exchanges the updated parts of all ranks after a step.
  void exchange_parameters();

 private:
  struct Loading;
  bool takes_step(const Slot& slot) const;
  void check_step(const Slot& slot, const StateSpec& spec) const;
  bool needs(const Slot& slot, const StateSpec& spec, int k) const;
  void create_states(Slot& slot, const StateSpec& spec) const;
  Tensor cut(const Slot& slot, const Tensor& whole) const;
  Tensor whole(const Slot& slot, const Tensor& part) const;

  const char* op_;
  std::vector<Slot> slots_;  // in the order of their groups; no group is empty
  nn::detail::HeldByLayers held_;
  dist::World* world_ = nullptr;     // null: not sharded
  const void* only_ = nullptr;       // the parameter of step(parameter); null: all
  std::vector<double> initial_lrs_;  // of the first groups
};

/// An optimiser with these options. Its file in fit/optim/ holds its options, the names of its states and its formula
/// (detail::Formula); all else follows from them in nn/optim/optimizers.cpp.
template <class Options>
class GroupedOptimizer : public Optimizer {
 public:
  explicit GroupedOptimizer(const Parameters& parameters, const Options& options = {});
  GroupedOptimizer(const Parameters& parameters, double lr);
  explicit GroupedOptimizer(const std::vector<Group<Options>>& groups);
  /// For optimisers with the option momentum.
  template <class O = Options, class = decltype(std::declval<const O&>().momentum())>
  GroupedOptimizer(const Parameters& parameters, double lr, double momentum)
      : GroupedOptimizer(parameters, O().lr(lr).momentum(momentum)) {}
  ~GroupedOptimizer() override;

  /// Applies the formula to each parameter with a gradient.
  void step() override;
  using Optimizer::step;
  /// Adds a group. Existing schedules do not change its rate.
  void add_param_group(const Group<Options>& group);

  /// The options of a group. They may be changed between steps. Throws Error if there is no such group.
  Options& options(std::size_t group = 0);
  const Options& options(std::size_t group = 0) const;
  /// See Optimizer.
  double lr(std::size_t group = 0) const override;
  /// See Optimizer.
  void set_lr(std::size_t group, double lr) override;
  using Optimizer::set_lr;
  /// See Optimizer.
  std::optional<double> momentum(std::size_t group = 0) const override;
  /// See Optimizer.
  void set_momentum(std::size_t group, double momentum) override;

 protected:
  /// See Optimizer.
  std::vector<Option> option_list(std::size_t group) const override;
  /// See Optimizer.
  void set_options(std::size_t group, const std::vector<Option>& list) override;
  /// See Optimizer.
  StateSpec state_spec(std::size_t group) const override;
  /// See Optimizer.
  std::optional<Shape> state_shape(const Optimizer::Slot& slot, int k) const override;

 private:
  using Slot = Optimizer::Slot;
  template <class Formula>
  void change_tensors(const std::vector<Slot*>& slots);
  struct Groups;  // in the source, as each class would compile a std::vector of its own
  std::unique_ptr<Groups> groups_;
};

}  // namespace fit::optim
