#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fit/option.hpp"
#include "fit/state_dict.hpp"
#include "fit/tensor.hpp"

/// Optimisers: they change parameters by their gradients. Formulas, names and defaults are PyTorch's. With the option
/// maximize they go up where they would go down: -g takes the place of g.
///
///     optim::AdamW optimizer(net.named_parameters(), 3e-4);
///     for (…) {
///       optimizer.zero_grad();
///       loss(net(x), y).backward();
///       optimizer.step();
///     }
///
/// Several backward() before one step() sum their gradients up, which makes a large batch of small ones, equally large:
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

/// What is to be trained: net.parameters(), net.named_parameters(), or {w, b}. Those without a name are called by
/// their number, "0", "1" …
class Parameters {
 public:
  Parameters(const std::vector<Tensor>& list);
  Parameters(std::initializer_list<Tensor> list) : Parameters(std::vector<Tensor>(list)) {}
  Parameters(StateDict named) : named_(std::move(named)) {}
  const StateDict& named() const { return named_; }

 private:
  StateDict named_;
};

/// Parameters that have options of their own.
template <class Options>
struct Group {
  Parameters parameters;
  Options options;
};

/// What an optimiser keeps for each parameter under its options, by PyTorch's names.
struct StateSpec {
  static constexpr int max_states = 3;
  const char* states[max_states];  ///< tensors like the parameter
  unsigned mask;                   ///< bit k: states[k] is needed
  const char* scalar;              ///< one number; null if there is none
};

/// The base of all optimisers. A parameter without a gradient is left as it is, and so are its averages. A frozen
/// one may have any floating type. A trained one must be float32 or float64: bfloat16 would lose small steps.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Changes the parameters, in one pass over memory. Counts as a change of each (Tensor::version). Throws Error, and
  /// has changed nothing, for options out of range and for a parameter whose type has changed since it was given here.
  virtual void step() = 0;
  /// Forgets the gradients.
  void zero_grad();
  /// The name of the first parameter whose gradient holds an infinity or NaN; empty if there is none.
  std::string nonfinite_gradient() const;

  /// How many groups of parameters there are.
  std::size_t groups() const { return slots_.size(); }
  /// The learning rate of a group.
  virtual double lr(std::size_t group = 0) const = 0;
  /// Changes it.
  virtual void set_lr(std::size_t group, double lr) = 0;
  /// For all groups.
  void set_lr(double lr);

  /// The averages and counts of steps ("0.weight.exp_avg", "0.weight.step") as live handles, and the options of the
  /// groups ("lr.0", "beta1.0" …; a switch is 0 or 1). Parameters that have not been changed yet are not there. Where
  /// an option was switched on after the last step, the average that it needs is still empty: its shape is [0].
  StateDict state_dict() const;
  /// Puts them back, the options too, whatever this optimiser was made with: what should differ is to be set
  /// afterwards. (Those but lr may be missing, and then stay.) Throws one Error that lists every name that does not
  /// fit, and then has changed nothing.
  void load_state_dict(const StateDict& state);

  /// Divides the averages among the ranks: from now on this one keeps 1 / size of those of each parameter, step()
  /// changes that part, and the ranks give each other what they have changed. Every rank has the same bits as without,
  /// and needs that much less memory. step(), state_dict() (whose averages are then whole, and copies) and shard()
  /// itself must be called by all ranks. What is loaded is whole, too: by any number of ranks. The world must outlive
  /// this. Throws Error if they are divided already, and for Adafactor. (ZeRO's first stage: Rajbhandari et al. 2020.)
  void shard(dist::World& world);

  /// An option by its name.
  struct Option {
    const char* name;
    double value;
  };

 protected:
  /// A parameter and what its steps leave behind.
  struct Slot {
    std::string name;
    Tensor parameter;
    std::int64_t steps = 0;
    Tensor state[StateSpec::max_states] = {};
    double scalar = 1;
    bool is_new = false;  // the states begin with this step
  };

  /// `op`: the name in errors.
  explicit Optimizer(const char* op) : op_(op) {}
  /// Adds a group. Throws Error for a parameter that is no leaf of a floating type, or that is there already.
  void add(const Parameters& parameters);
  /// Throws Error for options that are not possible.
  virtual StateSpec state_spec(std::size_t group) const = 0;
  /// A group's options, in the order of their list.
  virtual std::vector<Option> option_list(std::size_t group) const = 0;
  /// The same under other options.
  virtual StateSpec state_spec_under(const std::vector<Option>& options) const = 0;
  /// The shape of states[k] of a parameter; none if it goes without. It is the parameter's, unless an optimiser says.
  virtual std::optional<Shape> state_shape(const Tensor& parameter, int k) const;
  /// Puts options in, in the order of option_list().
  virtual void set_options(std::size_t group, const std::vector<Option>& options) = 0;
  /// Calls f(slot, group) for every parameter that has a gradient, with its step counted and its states there. What can
  /// fail is done before anything is changed; so that a step is taken whole or not at all, f must not throw.
  template <class F>
  void each_with_gradient(const F& f) {
    std::vector<StateSpec> specs;
    for (std::size_t group = 0; group < slots_.size(); ++group) {
      specs.push_back(state_spec(group));
      for (const Slot& slot : slots_[group]) check_step(slot, specs.back());
    }
    std::vector<Tensor> made = new_states(specs);
    auto next = made.begin();
    for (std::size_t group = 0; group < slots_.size(); ++group)
      for (Slot& slot : slots_[group])
        if (begin_step(slot, specs[group], next)) f(slot, group);
  }
  std::size_t parameter_count() const;
  /// The elements of a parameter that this rank keeps averages of.
  struct Part {
    std::int64_t begin, size;
  };
  /// Which of the parameter's elements these are.
  Part part_of(const Slot& slot) const;
  /// After a step: what the ranks have changed, to all.
  void exchange_parameters();

 private:
  friend class Schedule;  // which begins at initial_lrs_
  void check_step(const Slot& slot, const StateSpec& spec) const;
  /// Those that begin with this step, in the order in which begin_step() takes them.
  std::vector<Tensor> new_states(const std::vector<StateSpec>& specs) const;
  bool begin_step(Slot& slot, const StateSpec& spec, std::vector<Tensor>::iterator& next) noexcept;
  bool needs(const Slot& slot, const StateSpec& spec, int k) const;
  Tensor cut(const Slot& slot, const Tensor& whole) const;
  Tensor whole(const Slot& slot, const Tensor& part) const;

  const char* op_;
  std::vector<std::vector<Slot>> slots_;
  dist::World* world_ = nullptr;     // null: this process keeps all averages
  std::vector<double> initial_lrs_;  // as the first schedule found them
};

/// An optimiser whose groups have options of one type. What all of them do with their options (checking, saving,
/// loading, the step) follows from their list in nn/optim/optimizers.cpp.
template <class Options>
class GroupedOptimizer : public Optimizer {
 public:
  explicit GroupedOptimizer(const Parameters& parameters, const Options& options = {});
  GroupedOptimizer(const Parameters& parameters, double lr);
  explicit GroupedOptimizer(const std::vector<Group<Options>>& groups);

  /// The class's formula, for each parameter that has a gradient.
  void step() override;
  /// A further group. Schedules that are there already leave its rate alone.
  void add_param_group(const Group<Options>& group);

  /// They may be changed between steps. Throws Error if there is no such group.
  Options& options(std::size_t group = 0);
  const Options& options(std::size_t group = 0) const;
  /// As Optimizer has it.
  double lr(std::size_t group = 0) const override { return options(group).lr(); }
  /// As Optimizer has it.
  void set_lr(std::size_t group, double lr) override { options(group).lr(lr); }
  using Optimizer::set_lr;

 protected:
  /// What Optimizer asks for, from the list of these options.
  StateSpec state_spec(std::size_t group) const override;
  /// As Optimizer has it.
  StateSpec state_spec_under(const std::vector<Option>& list) const override;
  /// As Optimizer has it.
  std::optional<Shape> state_shape(const Tensor& parameter, int k) const override;
  /// As Optimizer has it.
  std::vector<Option> option_list(std::size_t group) const override;
  /// As Optimizer has it.
  void set_options(std::size_t group, const std::vector<Option>& list) override;

 private:
  std::vector<Options> options_;
};

/// The options of SGD: see its formula.
struct SGDOptions {
  FIT_OPTION(double, lr) = 1e-3;         ///< The learning rate.
  FIT_OPTION(double, momentum) = 0;      ///< The decay of the average of gradients m; 0: no average.
  FIT_OPTION(double, dampening) = 0;     ///< The part of each gradient that does not reach m.
  FIT_OPTION(double, weight_decay) = 0;  ///< The decay of the parameters, added to the gradients.
  FIT_OPTION(bool, nesterov) = false;    ///< Nesterov's momentum: needs momentum, and no dampening.
  FIT_OPTION(bool, maximize) = false;    ///< Goes up instead of down.
};

/// g += weight_decay p;  m = momentum m + (1 - dampening) g, at first g;  p -= lr m, with Nesterov lr (g + momentum m).
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
class Adam final : public GroupedOptimizer<AdamOptions> {
 public:
  using GroupedOptimizer::GroupedOptimizer;
};

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

/// Adam with decay apart from the averages (Loshchilov & Hutter 2019): p *= 1 - lr weight_decay takes the place of
/// g += weight_decay p.
class AdamW final : public GroupedOptimizer<AdamWOptions> {
 public:
  using GroupedOptimizer::GroupedOptimizer;
};

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
class NAdam final : public GroupedOptimizer<NAdamOptions> {
 public:
  using GroupedOptimizer::GroupedOptimizer;
};

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
/// Where r > 5, the variance of v is small enough for
/// p -= lr m / (1 - beta1^t) sqrt(1 - beta2^t) / (sqrt(v) + eps) sqrt((r - 4) (r - 2) R / ((R - 4) (R - 2) r));
/// in the first steps, where it is not, p -= lr m / (1 - beta1^t).
class RAdam final : public GroupedOptimizer<RAdamOptions> {
 public:
  using GroupedOptimizer::GroupedOptimizer;
};

/// The options of Adamax: see its formula.
struct AdamaxOptions {
  FIT_OPTION(double, lr) = 2e-3;         ///< The learning rate.
  FIT_OPTION(double, beta1) = 0.9;       ///< The decay of the average of gradients.
  FIT_OPTION(double, beta2) = 0.999;     ///< The decay of the average of squared gradients.
  FIT_OPTION(double, eps) = 1e-8;        ///< Added to the root in the denominator.
  FIT_OPTION(double, weight_decay) = 0;  ///< The decay of the parameters, added to the gradients.
  FIT_OPTION(bool, maximize) = false;    ///< Goes up instead of down.
};

/// Adam by the largest gradient (Kingma & Ba 2015). m as Adam's; u = max(beta2 u, |g| + eps);
/// p -= lr / (1 - beta1^t) m / u
class Adamax final : public GroupedOptimizer<AdamaxOptions> {
 public:
  using GroupedOptimizer::GroupedOptimizer;
};

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
class RMSprop final : public GroupedOptimizer<RMSpropOptions> {
 public:
  using GroupedOptimizer::GroupedOptimizer;
};

/// The options of Adagrad: see its formula.
struct AdagradOptions {
  FIT_OPTION(double, lr) = 1e-2;                      ///< The learning rate.
  FIT_OPTION(double, lr_decay) = 0;                   ///< How fast the rate falls with the steps.
  FIT_OPTION(double, weight_decay) = 0;               ///< The decay of the parameters, added to the gradients.
  FIT_OPTION(double, initial_accumulator_value) = 0;  ///< Where the sum of squares begins.
  FIT_OPTION(double, eps) = 1e-10;                    ///< Added to the root in the denominator.
  FIT_OPTION(bool, maximize) = false;                 ///< Goes up instead of down.
};

/// Duchi et al. 2011. With g += weight_decay p first: s += g^2, from initial_accumulator_value on;
/// p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps)
class Adagrad final : public GroupedOptimizer<AdagradOptions> {
 public:
  using GroupedOptimizer::GroupedOptimizer;
};

/// The options of Lion: see its formula.
struct LionOptions {
  FIT_OPTION(double, lr) = 1e-4;         ///< The learning rate.
  FIT_OPTION(double, beta1) = 0.9;       ///< The decay of the average of gradients.
  FIT_OPTION(double, beta2) = 0.99;      ///< The decay of the average of squared gradients.
  FIT_OPTION(double, weight_decay) = 0;  ///< The decay of the parameters, beside the gradients.
  FIT_OPTION(bool, maximize) = false;    ///< Goes up instead of down.
};

/// Chen et al. 2023: p -= lr (sign(beta1 m + (1 - beta1) g) + weight_decay p);  m = beta2 m + (1 - beta2) g.
/// It wants a learning rate 3 to 10 times smaller than AdamW's, and a weight decay larger by as much.
class Lion final : public GroupedOptimizer<LionOptions> {
 public:
  using GroupedOptimizer::GroupedOptimizer;
};

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
class Adadelta final : public GroupedOptimizer<AdadeltaOptions> {
 public:
  using GroupedOptimizer::GroupedOptimizer;
};

/// The options of Adafactor: see its formula.
struct AdafactorOptions {
  FIT_OPTION(double, lr) = 1e-2;           ///< The learning rate.
  FIT_OPTION(double, beta2_decay) = -0.8;  ///< The exponent of the averages' decay.
  /// The least mean square of a gradient; 0: the eps of the parameter's type (PyTorch: None).
  FIT_OPTION(double, eps1) = 0;
  FIT_OPTION(double, eps2) = 1e-3;       ///< The least root mean square of a parameter, as the rate's factor.
  FIT_OPTION(double, d) = 1;             ///< The root mean square above which an update is clipped.
  FIT_OPTION(double, weight_decay) = 0;  ///< The decay of the parameters, beside the gradients.
  FIT_OPTION(bool, maximize) = false;    ///< Goes up instead of down.
};

/// Shazeer & Stern 2018: of a matrix' squared gradients it keeps the means of rows and columns, a sum of sizes in place
/// of their product. In step t, with b = t^beta2_decay: r += b (mean(g^2, -1) - r);  c += b (mean(g^2, -2) - c);
/// v = r c / max(mean(r, -2), eps1); of a parameter with less than two axes, v += b (g^2 - v).
/// p *= 1 - lr weight_decay;  u = g / sqrt(max(v, eps1^2));
/// p -= min(lr, 1 / sqrt(t)) max(eps2, rms(p)) u / max(1, rms(u) / d), with the p before its decay in rms(p).
/// It can't be divided among ranks: there is next to nothing to divide.
class Adafactor final : public GroupedOptimizer<AdafactorOptions> {
 public:
  using GroupedOptimizer::GroupedOptimizer;
};

/// All that there are but LBFGS (fit/lbfgs.hpp): the tests go through them.
using AllOptimizers = std::tuple<SGD, Adam, AdamW, NAdam, RAdam, Adamax, RMSprop, Adagrad, Lion, Adadelta, Adafactor>;

// ---- groups -------------------------------------------------------------------------------------------------------

/// The parameters of a net that weight decay should pull at, and the others. First the matrices (two axes or more),
/// then the biases and norms, and on request the embeddings. A matrix that an embedding shares with another layer
/// counts as an embedding.
enum class DecayEmbeddings : bool { no, yes };
std::pair<Parameters, Parameters> split_by_decay(const nn::Layer& net,
                                                 DecayEmbeddings embeddings = DecayEmbeddings::yes);

/// The same as groups for an optimiser, the second with weight_decay(0). One that would be empty is left out.
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

/// The parameters of each group, divided by their names: those that match patterns[0], those of the others that match
/// patterns[1] …, and behind them those that match none. In patterns `*` stands for one or more letters, dots too.
/// Throws Error, with the most similar name, for a pattern that no name of any group matches.
std::vector<std::vector<StateDict>> split_by_name(const std::vector<StateDict>& groups,
                                                  const std::vector<std::string>& patterns);

/// Groups whose parameters have rates of their own by their names; those that match no pattern keep their group's, and
/// all other options stay. Of several patterns that match, the first counts.
///
///     optim::AdamW optimizer(optim::with_rates(optim::decay_groups(net, options), {{"head.*", 1e-3}, {"h.0.*",
///     1e-5}}));
template <class Options>
std::vector<Group<Options>> with_rates(const std::vector<Group<Options>>& groups,
                                       const std::vector<std::pair<std::string, double>>& rates) {
  std::vector<std::string> patterns;
  patterns.reserve(rates.size());
  for (const auto& [pattern, lr] : rates) patterns.push_back(pattern);
  std::vector<StateDict> named;
  named.reserve(groups.size());
  for (const Group<Options>& group : groups) named.push_back(group.parameters.named());
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

/// The exponential moving average of weights, which often generalises better than the weights themselves. It begins at
/// their values; update(), after each step, makes it average = decay average + (1 - decay) weight. The average of a
/// bfloat16 parameter is float32: bfloat16 has too few digits for the steps. apply() rounds it.
///
///     optim::ExponentialMovingAverage average(net.named_parameters(), 0.999);
///     …  optimizer.step();  average.update();
///     { const auto scope = average.apply();  validate(net); }
class ExponentialMovingAverage {
 public:
  explicit ExponentialMovingAverage(const Parameters& parameters, double decay = 0.999);
  ExponentialMovingAverage(const ExponentialMovingAverage&) = delete;
  ExponentialMovingAverage& operator=(const ExponentialMovingAverage&) = delete;

  /// Throws Error while the averages are applied: they would be averaged with themselves.
  void update();

  /// While it lives, the parameters have the averages' values; then they get their own back.
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
  /// Throws Error if they are applied already. The average must outlive the scope.
  [[nodiscard]] Applied apply() { return Applied(*this); }

  /// The averages under the parameters' names, as live handles.
  StateDict state_dict() const { return averages_; }
  /// Copies them in. Throws one Error that lists every name that does not fit, and then has changed nothing.
  void load_state_dict(const StateDict& state);

 private:
  StateDict parameters_, averages_;
  double decay_;
  bool applied_ = false;
};

// ---- clipping -----------------------------------------------------------------------------------------------------

/// Scales all gradients together so that their norm (the root of the sum of all squares) is at most max_norm, and
/// returns what it was before. Parameters without a gradient count for nothing. A norm that is NaN makes all gradients
/// NaN, an infinite one makes them NaN where they are infinite and 0 elsewhere, as in PyTorch; or, with
/// error_if_nonfinite, it throws Error and changes nothing.
enum class ErrorIfNonfinite : bool { no, yes };
inline constexpr ErrorIfNonfinite error_if_nonfinite = ErrorIfNonfinite::yes;
double clip_grad_norm_(const Parameters& parameters, double max_norm, ErrorIfNonfinite = ErrorIfNonfinite::no);
/// The same by another norm: the sum of all |g|^norm_type to the power of 1 / norm_type; the largest |g| if norm_type
/// is infinite. Throws Error unless norm_type is positive.
double clip_grad_norm_(const Parameters& parameters, double max_norm, double norm_type,
                       ErrorIfNonfinite = ErrorIfNonfinite::no);
/// Cuts every element of the gradients off to -limit … limit.
void clip_grad_value_(const Parameters& parameters, double limit);

}  // namespace fit::optim
