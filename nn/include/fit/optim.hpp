#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "fit/tensor.hpp"

/// Optimisers: they change parameters by their gradients. Formulas, names and defaults are PyTorch's.
///
///     optim::AdamW optimizer(net.named_parameters(), 3e-4);
///     for (…) {
///       optimizer.zero_grad();
///       loss(net(x), y).backward();
///       optimizer.step();
///     }
namespace fit::optim {

/// What is to be trained: net.parameters(), net.named_parameters(), or {w, b}. Those without a name are called by
/// their number, "0", "1" …
class Parameters {
 public:
  Parameters(const std::vector<Tensor>& list);
  Parameters(std::initializer_list<Tensor> list) : Parameters(std::vector<Tensor>(list)) {}
  Parameters(std::vector<std::pair<std::string, Tensor>> named) : named_(std::move(named)) {}
  const std::vector<std::pair<std::string, Tensor>>& named() const { return named_; }

 private:
  std::vector<std::pair<std::string, Tensor>> named_;
};

/// Parameters that have options of their own.
template <class Options>
struct Group {
  Parameters parameters;
  Options options;
};

/// The base of all optimisers. A parameter without a gradient is left as it is, and so are its averages.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Changes the parameters, in one pass over memory. Counts as a change of each (Tensor::version).
  virtual void step() = 0;
  /// Forgets the gradients.
  void zero_grad();

  std::size_t groups() const { return slots_.size(); }
  virtual double lr(std::size_t group = 0) const = 0;
  virtual void set_lr(std::size_t group, double lr) = 0;
  /// For all groups.
  void set_lr(double lr);

  /// The averages and counts of steps ("0.weight.exp_avg", "0.weight.step") as live handles, and the learning rates
  /// ("lr.0"). Parameters that have not been changed yet are not there.
  std::vector<std::pair<std::string, Tensor>> state_dict() const;
  /// Puts them back. Throws one Error that lists every name that does not fit, and then has changed nothing.
  void load_state_dict(const std::vector<std::pair<std::string, Tensor>>& state);

 protected:
  static constexpr int max_states = 3;
  /// A parameter and what its steps leave behind.
  struct Slot {
    std::string name;
    Tensor parameter;
    std::int64_t steps = 0;
    Tensor state[max_states] = {};
    bool fresh = false;  // the states begin with this step
  };

  /// `op`: the name in errors. The names of the states are in the order of Slot::state.
  Optimizer(const char* op, std::vector<std::string> state_names) : op_(op), state_names_(std::move(state_names)) {}
  /// Adds a group. Throws Error for a parameter that is no leaf of a floating type, or that is there already.
  void add(const Parameters& parameters);
  /// How many of the states are kept under the group's options.
  virtual int states(std::size_t group) const = 0;
  /// Calls f(slot, group) for every parameter that has a gradient, with its step counted and its states there.
  template <class F>
  void each_with_gradient(const F& f) {
    for (std::size_t group = 0; group < slots_.size(); ++group)
      for (Slot& slot : slots_[group])
        if (begin_step(slot, states(group))) f(slot, group);
  }

  const char* op_;

 private:
  bool begin_step(Slot& slot, int states);

  std::vector<std::string> state_names_;
  std::vector<std::vector<Slot>> slots_;
};

/// An optimiser whose groups have options of one type.
template <class Options>
class GroupedOptimizer : public Optimizer {
 public:
  /// They may be changed between steps. Throws std::out_of_range if there is no such group.
  Options& options(std::size_t group = 0) { return options_.at(group); }
  const Options& options(std::size_t group = 0) const { return options_.at(group); }
  double lr(std::size_t group = 0) const override { return options(group).lr; }
  void set_lr(std::size_t group, double lr) override { options(group).lr = lr; }
  using Optimizer::set_lr;

 protected:
  GroupedOptimizer(const char* op, std::vector<std::string> state_names, const std::vector<Group<Options>>& groups)
      : Optimizer(op, std::move(state_names)) {
    for (const Group<Options>& g : groups) {
      add(g.parameters);
      options_.push_back(g.options);
    }
  }

 private:
  std::vector<Options> options_;
};

struct SGDOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;  ///< needs momentum, and no dampening
};

/// g += weight_decay p;  m = momentum m + (1 - dampening) g, at first g;  p -= lr m, with Nesterov lr (g + momentum m).
class SGD final : public GroupedOptimizer<SGDOptions> {
 public:
  explicit SGD(const Parameters& parameters, const SGDOptions& options = {}) : SGD({{parameters, options}}) {}
  SGD(const Parameters& parameters, double lr, double momentum = 0) : SGD(parameters, SGDOptions{lr, momentum}) {}
  explicit SGD(const std::vector<Group<SGDOptions>>& groups);
  void step() override;

 private:
  int states(std::size_t group) const override { return options(group).momentum != 0; }
};

struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool amsgrad = false;
};

/// Kingma & Ba 2015; AMSGrad: Reddi et al. 2018. In step t, with g += weight_decay p first:
/// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  w = amsgrad ? max(w, v) : v
/// p -= lr / (1 - beta1^t) m / (sqrt(w / (1 - beta2^t)) + eps)
class Adam final : public GroupedOptimizer<AdamOptions> {
 public:
  explicit Adam(const Parameters& parameters, const AdamOptions& options = {}) : Adam({{parameters, options}}) {}
  Adam(const Parameters& parameters, double lr) : Adam(parameters, AdamOptions{lr}) {}
  explicit Adam(const std::vector<Group<AdamOptions>>& groups);
  void step() override;

 private:
  int states(std::size_t group) const override { return options(group).amsgrad ? 3 : 2; }
};

struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2;
  bool amsgrad = false;
};

/// Adam with decay apart from the averages (Loshchilov & Hutter 2019): p *= 1 - lr weight_decay takes the place of
/// g += weight_decay p.
class AdamW final : public GroupedOptimizer<AdamWOptions> {
 public:
  explicit AdamW(const Parameters& parameters, const AdamWOptions& options = {}) : AdamW({{parameters, options}}) {}
  AdamW(const Parameters& parameters, double lr) : AdamW(parameters, AdamWOptions{lr}) {}
  explicit AdamW(const std::vector<Group<AdamWOptions>>& groups);
  void step() override;

 private:
  int states(std::size_t group) const override { return options(group).amsgrad ? 3 : 2; }
};

/// Scales all gradients together so that their norm (the root of the sum of all squares) is at most max_norm, and
/// returns what it was before. Parameters without a gradient count for nothing. A norm that is infinite or NaN makes
/// the gradients NaN, as in PyTorch, unless error_if_nonfinite, where it throws Error and changes nothing.
double clip_grad_norm_(const Parameters& parameters, double max_norm, bool error_if_nonfinite = false);
/// Cuts every element of the gradients off to -limit … limit.
void clip_grad_value_(const Parameters& parameters, double limit);

}  // namespace fit::optim
