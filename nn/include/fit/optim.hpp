#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fit/detail/function.hpp"
#include "fit/detail/owned.hpp"
#include "fit/option.hpp"
#include "fit/state_dict.hpp"
#include "fit/tensor.hpp"

/// Optimisers. They update parameters by their gradients. Formulas, names and defaults are PyTorch's. The option
/// maximize uses -g instead of g.
///
///     optim::AdamW optimizer(net.named_parameters(), 3e-4);
///     for (…) {
///       optimizer.zero_grad();
///       loss(net(x), y).backward();
///       optimizer.step(optim::error_if_nonfinite);
///     }
///
/// To accumulate gradients over several batches of equal size, call backward() several times before step():
///
///     for (int part = 0; part < parts; ++part) (loss(net(x[part]), y[part]) / parts).backward();
///     optimizer.step();
namespace fit::nn {
class Layer;
}
namespace fit::dist {
class World;
}
namespace fit::optim {

/// The parameters to train: net.parameters(), net.named_parameters(), or {w, b}. A parameter without a name gets its
/// number, "0", "1" …
class Parameters {
 public:
  Parameters(const std::vector<Tensor>& list);
  Parameters(std::initializer_list<Tensor> list);
  Parameters(StateDict named);
  Parameters(const nn::Layer&) = delete;  // give layer.named_parameters()
  /// The parameters by name.
  const StateDict& named() const { return named_; }

 private:
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

/// The state that an optimiser keeps for each parameter, with PyTorch's names. It depends on the options.
struct StateSpec {
  static constexpr int max_states = 3;
  const char* states[max_states];  ///< names of tensors like the parameter
  unsigned mask;                   ///< bit k: states[k] is needed
  const char* scalar;              ///< the name of a number; null if there is none
};

/// The base of all optimisers. A step does not change parameters without a gradient, nor their averages. A frozen
/// parameter may have any floating type. A trained one must be float32 or float64: bfloat16 would lose small steps.
class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates the parameters in one pass over memory. Counts as a change of each parameter (Tensor::version). Throws
  /// Error, and changes nothing, for options out of range, for a parameter whose type changed after construction, and
  /// for one that only the optimiser still holds, because its layer was replaced or destroyed.
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

  /// The averages and step counts ("0.weight.exp_avg", "0.weight.step") as live handles, and the options of the groups
  /// ("lr.0", "beta1.0" …; a bool is 0 or 1). Parameters without a step are not listed. If an option was switched on
  /// after the last step, its average still has shape [0].
  StateDict state_dict() const;
  /// Loads the state and the options. To use other options, set them afterwards. Missing options keep their values; lr
  /// must be there. Throws one Error that lists every name that does not fit, and then changes nothing.
  void load_state_dict(const StateDict& state);

  /// Shards the averages among the ranks (ZeRO stage 1: Rajbhandari et al. 2020). Each rank keeps and updates 1 / size
  /// of each parameter. Then the ranks exchange their parts. The results have the same bits as without sharding. All
  /// ranks must call step(), state_dict() and shard(). state_dict() then returns full averages as copies.
  /// load_state_dict() expects full averages, so the number of ranks may change. The world must outlive the optimiser.
  /// Throws Error if the averages are sharded already, and for Adafactor.
  void shard(dist::World& world);
  /// Whether the averages are sharded.
  bool sharded() const { return world_ != nullptr; }

  /// An option by its name.
  struct Option {
    const char* name;
    double value;
  };

 protected:
  /// A parameter and its state.
  struct Slot {
    std::size_t group;
    std::string name;
    Tensor parameter;
    std::int64_t steps = 0;
    Tensor state[StateSpec::max_states] = {};
    double scalar = 1;
    bool is_new = false;  // the states start with this step
  };

  /// `op` is the name in errors.
  explicit Optimizer(const char* op);
  /// Adds a group. Throws Error for a parameter that is not a floating leaf, or that was added before.
  void add(const Parameters& parameters);
  /// A group's options, in the order of their list.
  virtual std::vector<Option> option_list(std::size_t group) const = 0;
  /// The states that these options need. Throws Error for invalid options.
  virtual StateSpec state_spec(const std::vector<Option>& options) const = 0;
  /// The shape of states[k] of a parameter; none if there is no such state.
  virtual std::optional<Shape> state_shape(const Tensor& parameter, int k) const = 0;
  /// Sets a group's options, in the order of option_list().
  virtual void set_options(std::size_t group, const std::vector<Option>& options) = 0;
  /// Calls f(slot) for every parameter with a gradient, after counting its step and creating its states. All checks and
  /// allocations come first, and f must not throw: so a step is complete or does nothing.
  template <class F>
  void each_with_gradient(const F& f) {
    each_with_gradient(&f, [](const void* body, Slot& slot) { (*static_cast<const F*>(body))(slot); });
  }
  void each_with_gradient(const void* f, void (*call)(const void* f, Slot& slot));
  /// A new value of a parameter or a state.
  struct Change {
    Tensor to, value;
  };
  /// For a formula that consists of operations. f(slot, changes) computes new values, and may throw. They are written
  /// when all are there. So a step is complete or does nothing.
  void each_change(const std::function<void(Slot&, std::vector<Change>&)>& f);
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
  friend class Schedule;  // reads and sets initial_lrs_
  bool has_stepped() const;
  bool takes_step(const Slot& slot) const;
  void check_step(const Slot& slot, const StateSpec& spec) const;
  bool needs(const Slot& slot, const StateSpec& spec, int k) const;
  std::array<Tensor, StateSpec::max_states> missing_states(const Slot& slot, const StateSpec& spec) const;
  Tensor cut(const Slot& slot, const Tensor& whole) const;
  Tensor whole(const Slot& slot, const Tensor& part) const;

  const char* op_;
  std::vector<Slot> slots_;          // in the order of their groups; no group is empty
  dist::World* world_ = nullptr;     // null: not sharded
  const void* only_ = nullptr;       // the parameter of step(parameter); null: all
  std::vector<double> initial_lrs_;  // the rates before the first schedule
};

/// The base of optimisers with one type of options. Checking, saving, loading and the step follow from the list of
/// options in nn/optim/optimizers.cpp.
template <class Options>
class GroupedOptimizer : public Optimizer {
 public:
  explicit GroupedOptimizer(const Parameters& parameters, const Options& options = {});
  GroupedOptimizer(const Parameters& parameters, double lr);
  explicit GroupedOptimizer(const std::vector<Group<Options>>& groups);
  ~GroupedOptimizer() override;

  /// Applies the class's formula to each parameter with a gradient.
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

 protected:
  /// See Optimizer.
  std::vector<Option> option_list(std::size_t group) const override;
  /// See Optimizer.
  StateSpec state_spec(const std::vector<Option>& list) const override;
  /// See Optimizer.
  std::optional<Shape> state_shape(const Tensor& parameter, int k) const override;
  /// See Optimizer.
  void set_options(std::size_t group, const std::vector<Option>& list) override;

 private:
  struct Groups;  // in the source, as each class would compile a std::vector of its own
  detail::Owned<Groups> groups_;
};

/// The options of SGD: see its formula.
struct SGDOptions {
  FIT_OPTION(double, lr) = 1e-3;         ///< The learning rate.
  FIT_OPTION(double, momentum) = 0;      ///< The decay of the average of gradients m; 0: no average.
  FIT_OPTION(double, dampening) = 0;     ///< The fraction of each gradient that is not added to m.
  FIT_OPTION(double, weight_decay) = 0;  ///< The decay of the parameters, added to the gradients.
  FIT_OPTION(bool, nesterov) = false;    ///< Nesterov's momentum: needs momentum, and no dampening.
  FIT_OPTION(bool, maximize) = false;    ///< Goes up instead of down.
};

/// g += weight_decay p;  m = momentum m + (1 - dampening) g (first step: m = g);
/// p -= lr m, with nesterov p -= lr (g + momentum m).
class SGD final : public GroupedOptimizer<SGDOptions> {
 public:
  using GroupedOptimizer::GroupedOptimizer;
  SGD(const Parameters& parameters, double lr, double momentum);
};

/// The options of Adam: see its formula.
struct AdamOptions {
  FIT_OPTION(double, lr) = 1e-3;         ///< The learning rate.
  FIT_OPTION(double, beta1) = 0.9;       ///< The decay of the average of gradients.
  FIT_OPTION(double, beta2) = 0.999;     ///< The decay of the average of squared gradients.
  FIT_OPTION(double, eps) = 1e-8;        ///< Added to the root in the denominator.
  FIT_OPTION(double, weight_decay) = 0;  ///< The decay of the parameters, added to the gradients.
  FIT_OPTION(bool, amsgrad) = false;     ///< Divides by the largest average of squares so far.
  FIT_OPTION(bool, maximize) = false;    ///< Goes up instead of down.
};

/// Kingma & Ba 2015; AMSGrad: Reddi et al. 2018. In step t, with g += weight_decay p first:
/// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  w = amsgrad ? max(w, v) : v
/// p -= lr / (1 - beta1^t) m / (sqrt(w / (1 - beta2^t)) + eps)
using Adam = GroupedOptimizer<AdamOptions>;

/// The options of AdamW: see its formula.
struct AdamWOptions {
  FIT_OPTION(double, lr) = 1e-3;            ///< The learning rate.
  FIT_OPTION(double, beta1) = 0.9;          ///< The decay of the average of gradients.
  FIT_OPTION(double, beta2) = 0.999;        ///< The decay of the average of squared gradients.
  FIT_OPTION(double, eps) = 1e-8;           ///< Added to the root in the denominator.
  FIT_OPTION(double, weight_decay) = 1e-2;  ///< The decay of the parameters, beside the gradients.
  FIT_OPTION(bool, amsgrad) = false;        ///< Divides by the largest average of squares so far.
  FIT_OPTION(bool, maximize) = false;       ///< Goes up instead of down.
};

/// Adam with decoupled weight decay (Loshchilov & Hutter 2019): p *= 1 - lr weight_decay instead of
/// g += weight_decay p.
using AdamW = GroupedOptimizer<AdamWOptions>;

/// The options of NAdam: see its formula.
struct NAdamOptions {
  FIT_OPTION(double, lr) = 2e-3;                     ///< The learning rate.
  FIT_OPTION(double, beta1) = 0.9;                   ///< The decay of the average of gradients.
  FIT_OPTION(double, beta2) = 0.999;                 ///< The decay of the average of squared gradients.
  FIT_OPTION(double, eps) = 1e-8;                    ///< Added to the root in the denominator.
  FIT_OPTION(double, weight_decay) = 0;              ///< The decay of the parameters, added to the gradients.
  FIT_OPTION(double, momentum_decay) = 4e-3;         ///< How fast the momentum of the formula rises to beta1.
  FIT_OPTION(bool, decoupled_weight_decay) = false;  ///< Applies weight_decay as AdamW does.
  FIT_OPTION(bool, maximize) = false;                ///< Goes up instead of down.
};

/// Adam with Nesterov's momentum (Dozat 2016). m and v as Adam's, mu(t) = beta1 (1 - 0.96^(t momentum_decay) / 2):
/// p -= lr ((1 - mu(t)) / (1 - mu(1) … mu(t)) g + mu(t + 1) / (1 - mu(1) … mu(t + 1)) m)
///      / (sqrt(v / (1 - beta2^t)) + eps)
using NAdam = GroupedOptimizer<NAdamOptions>;

/// The options of RAdam: see its formula.
struct RAdamOptions {
  FIT_OPTION(double, lr) = 1e-3;                     ///< The learning rate.
  FIT_OPTION(double, beta1) = 0.9;                   ///< The decay of the average of gradients.
  FIT_OPTION(double, beta2) = 0.999;                 ///< The decay of the average of squared gradients.
  FIT_OPTION(double, eps) = 1e-8;                    ///< Added to the root in the denominator.
  FIT_OPTION(double, weight_decay) = 0;              ///< The decay of the parameters, added to the gradients.
  FIT_OPTION(bool, decoupled_weight_decay) = false;  ///< Applies weight_decay as AdamW does.
  FIT_OPTION(bool, maximize) = false;                ///< Goes up instead of down.
};

/// Rectified Adam (Liu et al. 2020). m and v as Adam's; R = 2 / (1 - beta2) - 1, r = R - 2 t beta2^t / (1 - beta2^t).
/// If r > 5, the variance of v is small enough for
/// p -= lr m / (1 - beta1^t) sqrt(1 - beta2^t) / (sqrt(v) + eps) sqrt((r - 4) (r - 2) R / ((R - 4) (R - 2) r)).
/// Otherwise (in the first steps) p -= lr m / (1 - beta1^t).
using RAdam = GroupedOptimizer<RAdamOptions>;

/// The options of Adamax: see its formula.
struct AdamaxOptions {
  FIT_OPTION(double, lr) = 2e-3;         ///< The learning rate.
  FIT_OPTION(double, beta1) = 0.9;       ///< The decay of the average of gradients.
  FIT_OPTION(double, beta2) = 0.999;     ///< The decay of the average of squared gradients.
  FIT_OPTION(double, eps) = 1e-8;        ///< Added to the root in the denominator.
  FIT_OPTION(double, weight_decay) = 0;  ///< The decay of the parameters, added to the gradients.
  FIT_OPTION(bool, maximize) = false;    ///< Goes up instead of down.
};

/// Adam with the infinity norm (Kingma & Ba 2015). m as Adam's; u = max(beta2 u, |g| + eps);
/// p -= lr / (1 - beta1^t) m / u
using Adamax = GroupedOptimizer<AdamaxOptions>;

/// The options of RMSprop: see its formula.
struct RMSpropOptions {
  FIT_OPTION(double, lr) = 1e-2;         ///< The learning rate.
  FIT_OPTION(double, alpha) = 0.99;      ///< The decay of the average of squared gradients.
  FIT_OPTION(double, eps) = 1e-8;        ///< Added to the root in the denominator.
  FIT_OPTION(double, weight_decay) = 0;  ///< The decay of the parameters, added to the gradients.
  FIT_OPTION(double, momentum) = 0;      ///< The decay of the average of gradients m; 0: no average.
  FIT_OPTION(bool, centered) = false;    ///< Subtracts the squared average of gradients from that of squares.
  FIT_OPTION(bool, maximize) = false;    ///< Goes up instead of down.
};

/// Hinton 2012; centred: Graves 2013. With g += weight_decay p first: v = alpha v + (1 - alpha) g^2;
/// a = centered ? alpha a + (1 - alpha) g : 0;  d = g / (sqrt(v - a^2) + eps);  b = momentum b + d;  p -= lr b
using RMSprop = GroupedOptimizer<RMSpropOptions>;

/// The options of Adagrad: see its formula.
struct AdagradOptions {
  FIT_OPTION(double, lr) = 1e-2;                      ///< The learning rate.
  FIT_OPTION(double, lr_decay) = 0;                   ///< How fast the rate falls with the steps.
  FIT_OPTION(double, weight_decay) = 0;               ///< The decay of the parameters, added to the gradients.
  FIT_OPTION(double, initial_accumulator_value) = 0;  ///< The initial sum of squares.
  FIT_OPTION(double, eps) = 1e-10;                    ///< Added to the root in the denominator.
  FIT_OPTION(bool, maximize) = false;                 ///< Goes up instead of down.
};

/// Duchi et al. 2011. With g += weight_decay p first: s += g^2, starting at initial_accumulator_value;
/// p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps)
using Adagrad = GroupedOptimizer<AdagradOptions>;

/// The options of Lion: see its formula.
struct LionOptions {
  FIT_OPTION(double, lr) = 1e-4;         ///< The learning rate.
  FIT_OPTION(double, beta1) = 0.9;       ///< The decay of the average of gradients.
  FIT_OPTION(double, beta2) = 0.99;      ///< The decay of the average of squared gradients.
  FIT_OPTION(double, weight_decay) = 0;  ///< The decay of the parameters, beside the gradients.
  FIT_OPTION(bool, maximize) = false;    ///< Goes up instead of down.
};

/// Chen et al. 2023: p -= lr (sign(beta1 m + (1 - beta1) g) + weight_decay p);  m = beta2 m + (1 - beta2) g.
/// Use a learning rate 3 to 10 times smaller than AdamW's, and a weight decay larger by the same factor.
using Lion = GroupedOptimizer<LionOptions>;

/// The options of Adadelta: see its formula.
struct AdadeltaOptions {
  FIT_OPTION(double, lr) = 1;            ///< The learning rate.
  FIT_OPTION(double, rho) = 0.9;         ///< The decay of both averages.
  FIT_OPTION(double, eps) = 1e-6;        ///< Added to the root in the denominator.
  FIT_OPTION(double, weight_decay) = 0;  ///< The decay of the parameters, added to the gradients.
  FIT_OPTION(bool, maximize) = false;    ///< Goes up instead of down.
};

/// Zeiler 2012. With g += weight_decay p first: v = rho v + (1 - rho) g^2;  d = sqrt(u + eps) / sqrt(v + eps) g;
/// u = rho u + (1 - rho) d^2;  p -= lr d
using Adadelta = GroupedOptimizer<AdadeltaOptions>;

/// The options of Adafactor: see its formula.
struct AdafactorOptions {
  FIT_OPTION(double, lr) = 1e-2;           ///< The learning rate.
  FIT_OPTION(double, beta2_decay) = -0.8;  ///< The exponent of the averages' decay.
  /// The min mean square of a gradient; 0: the eps of the parameter's type (PyTorch: None).
  FIT_OPTION(double, eps1) = 0;
  FIT_OPTION(double, eps2) = 1e-3;       ///< The min root mean square of a parameter, as the rate's factor.
  FIT_OPTION(double, d) = 1;             ///< The root mean square above which an update is clipped.
  FIT_OPTION(double, weight_decay) = 0;  ///< The decay of the parameters, beside the gradients.
  FIT_OPTION(bool, maximize) = false;    ///< Goes up instead of down.
};

/// Shazeer & Stern 2018: for a matrix [m, n] it keeps only the row and column means of squared gradients, m + n numbers
/// instead of m n. In step t, with b = t^beta2_decay: r += b (mean(g^2, -1) - r);  c += b (mean(g^2, -2) - c);
/// v = r c / max(mean(r, -2), eps1). For a parameter with less than two axes, v += b (g^2 - v).
/// p *= 1 - lr weight_decay;  u = g / sqrt(max(v, eps1^2));
/// p -= min(lr, 1 / sqrt(t)) max(eps2, rms(p)) u / max(1, rms(u) / d), where rms(p) is of p before the decay.
/// It does not support shard(): its state is small.
using Adafactor = GroupedOptimizer<AdafactorOptions>;

/// All optimisers except LBFGS (fit/lbfgs.hpp). The tests iterate over them.
using AllOptimizers = std::tuple<SGD, Adam, AdamW, NAdam, RAdam, Adamax, RMSprop, Adagrad, Lion, Adadelta, Adafactor>;

// ---- groups -------------------------------------------------------------------------------------------------------

/// The parameters of a net with weight decay, and those without. Matrices (two axes or more) have decay; biases and
/// norms have none. With DecayEmbeddings::no, embeddings have none either. A matrix that an embedding shares with
/// another layer counts as an embedding.
enum class DecayEmbeddings : bool { no, yes };
std::pair<Parameters, Parameters> split_by_decay(const nn::Layer& net,
                                                 DecayEmbeddings embeddings = DecayEmbeddings::yes);

/// The same as groups for an optimiser, the second with weight_decay(0). An empty group is left out.
///
///     optim::AdamW optimizer(optim::decay_groups(net, optim::AdamWOptions().lr(3e-4)));
template <class Options>
std::vector<Group<Options>> decay_groups(const nn::Layer& net, const Options& options,
                                         DecayEmbeddings embeddings = DecayEmbeddings::yes) {
  const auto [decayed, others] = split_by_decay(net, embeddings);
  std::vector<Group<Options>> groups;
  if (!decayed.named().empty()) groups.push_back({decayed, options});
  if (!others.named().empty()) groups.push_back({others, options}), groups.back().options.weight_decay(0);
  return groups;
}

/// Splits the parameters of each group by the first pattern that their names match: `result[group][pattern]`. The last
/// entry has the parameters without a match. `*` matches one or more characters, also dots. If a pattern matches no
/// name of any group, throws Error with the most similar name.
std::vector<std::vector<StateDict>> split_by_name(const std::vector<StateDict>& groups,
                                                  const std::vector<std::string>& patterns);

/// Splits groups by learning rates for parameter names. Parameters that match no pattern keep the rate of their group.
/// Other options stay. If several patterns match, the first counts.
///
///     optim::AdamW optimizer(optim::with_rates(optim::decay_groups(net, options), {{"head.*", 1e-3}, {"h.0.*",
///     1e-5}}));
template <class Options>
std::vector<Group<Options>> with_rates(const std::vector<Group<Options>>& groups,
                                       const std::vector<std::pair<std::string, double>>& rates) {
  std::vector<StateDict> named;
  for (const Group<Options>& group : groups) named.push_back(group.parameters.named());
  std::vector<std::string> patterns;
  for (const auto& rate : rates) patterns.push_back(rate.first);
  const auto parts = split_by_name(named, patterns);
  std::vector<Group<Options>> divided;
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (std::size_t i = 0; i < parts[g].size(); ++i) {
      if (parts[g][i].empty()) continue;
      divided.push_back({parts[g][i], groups[g].options});
      if (i < rates.size()) divided.back().options.lr(rates[i].second);
    }
  return divided;
}

// ---- averages of weights ------------------------------------------------------------------------------------------

/// The exponential moving average of weights, which often generalises better than the weights. It starts at their
/// values. Call update() after each step: average = decay average + (1 - decay) weight. The average of a bfloat16
/// parameter is float32, because bfloat16 has too few digits for the steps. apply() rounds it.
///
///     optim::ExponentialMovingAverage average(net.named_parameters(), 0.999);
///     …  optimizer.step();  average.update();
///     { const auto scope = average.apply();  validate(net); }
class ExponentialMovingAverage {
 public:
  explicit ExponentialMovingAverage(const Parameters& parameters, double decay = 0.999);
  ExponentialMovingAverage(const ExponentialMovingAverage&) = delete;
  ExponentialMovingAverage& operator=(const ExponentialMovingAverage&) = delete;

  /// Updates the averages. Throws Error while they are applied: each would be averaged with itself.
  void update();

  /// Gives the parameters the values of the averages during its lifetime. The destructor restores the weights. Until
  /// then, what would be lost throws an Error: Checkpoint::save(), load_state_dict(), load_weights(), an optimiser's
  /// step() and shard(), and quantize_(). nn::save_weights() writes the averages, and clone() makes a model of them.
  class Applied {
   public:
    explicit Applied(ExponentialMovingAverage& average);
    ~Applied();
    Applied(const Applied&) = delete;
    Applied& operator=(const Applied&) = delete;

   private:
    ExponentialMovingAverage& average_;
    std::vector<Tensor> weights_;
  };
  /// Applies the averages. Throws Error if they are applied already. The average must outlive the scope.
  [[nodiscard]] Applied apply() { return Applied(*this); }

  /// The averages under the parameters' names, as live handles.
  StateDict state_dict() const;
  /// Loads the averages. Throws one Error that lists every name that does not fit, and then changes nothing.
  /// Throws Error while they are applied.
  void load_state_dict(const StateDict& state);

 private:
  StateDict parameters_, averages_;
  double decay_;
  bool applied_ = false;
};

// ---- norms and clipping of gradients -------------------------------------------------------------------------------

/// The joint norm of all gradients: (sum |g|^p)^(1/p) with p = norm_type, or max |g| for infinite p. It changes
/// nothing. Finite gradients neither overflow nor underflow on the way. Parameters without a gradient do not count.
/// Throws Error unless norm_type is positive, for a parameter that is there twice, and for those of a StepInBackward.
/// (PyTorch: get_total_norm.)
double grad_norm(const Parameters& parameters, double norm_type = 2);

/// Scales all gradients by one factor so that their joint 2-norm is at most max_norm. Returns the norm before, that of
/// grad_norm(). A finite max_norm and a NaN norm make all gradients NaN; an infinite norm makes infinite gradients NaN
/// and others 0, as in PyTorch. With error_if_nonfinite, both throw Error and change nothing. An infinite max_norm
/// never changes anything. Throws Error for a parameter that is there twice.
double clip_grad_norm_(const Parameters& parameters, double max_norm, ErrorIfNonfinite = ErrorIfNonfinite::no);
/// The same with the p-norm for p = norm_type. Throws Error unless norm_type is positive.
double clip_grad_norm_(const Parameters& parameters, double max_norm, double norm_type,
                       ErrorIfNonfinite = ErrorIfNonfinite::no);
/// Clamps every element of the gradients to -limit … limit. An infinite limit changes nothing. Throws Error for a
/// parameter that is there twice.
void clip_grad_value_(const Parameters& parameters, double limit);

}  // namespace fit::optim
