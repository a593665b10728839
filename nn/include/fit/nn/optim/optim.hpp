#pragma once
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fit/nn/optim/all.hpp"
#include "fit/nn/optim/optimizer.hpp"

/// Optimisers. They update parameters by their gradients. Formulas, names and defaults are PyTorch's. The option
/// maximize uses -g instead of g. Each is one file in fit/optim/.
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
namespace fit::optim {

namespace detail {
template <class, class... Optimizers>
struct AfterFirst {
  using Type = std::tuple<Optimizers...>;
};
}  // namespace detail

#define FIT_COMMA_NAME_(NAME) , NAME
/// The types of the list. The tests iterate over them.
using AllOptimizers = detail::AfterFirst<void FIT_OPTIMIZERS(FIT_COMMA_NAME_, FIT_COMMA_NAME_)>::Type;
#undef FIT_COMMA_NAME_

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

/// The matrices of a net's Linear layers with `muon`, all else with `adamw`. A matrix that an embedding shares counts
/// as an embedding. So do the matrices that match a pattern of `others`; a pattern may match nothing. Throws Error for
/// an adamw with amsgrad, which these groups don't have.
std::vector<Group<MuonOptions>> muon_groups(const nn::Layer& net, const MuonOptions& muon, const AdamWOptions& adamw,
                                            const std::vector<std::string>& others = {"head.weight"});

/// Splits the parameters of each group by the first pattern that their names match: `result[group][pattern]`. The last
/// entry has the parameters without a match. `*` matches one or more characters, also dots. If a pattern matches no
/// name of any group, throws Error with the most similar name.
std::vector<std::vector<StateDict>> split_by_name(const std::vector<StateDict>& groups,
                                                  const std::vector<std::string>& patterns);

/// Splits groups by parameter names, and changes the options of those that match a pattern. Parameters that match none
/// keep the options of their group. If several patterns match, the first counts.
///
///     groups = optim::with_options(groups, {{"*.qkv.weight", [](optim::MuonOptions& o) { o.matrices(3); }}});
template <class Options>
using OptionEdits = std::vector<std::pair<std::string, std::function<void(Options&)>>>;
template <class Options>
std::vector<Group<Options>> with_options(const std::vector<Group<Options>>& groups, const OptionEdits<Options>& edits) {
  std::vector<StateDict> named;
  for (const Group<Options>& group : groups) named.push_back(group.parameters.named());
  std::vector<std::string> patterns;
  for (const auto& edit : edits) patterns.push_back(edit.first);
  const auto parts = split_by_name(named, patterns);
  std::vector<Group<Options>> divided;
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (std::size_t i = 0; i < parts[g].size(); ++i) {
      if (parts[g][i].empty()) continue;
      divided.push_back({parts[g][i], groups[g].options});
      if (i < edits.size()) edits[i].second(divided.back().options);
    }
  return divided;
}

/// The same for learning rates.
///
///     optim::AdamW optimizer(optim::with_rates(optim::decay_groups(net, options), {{"head.*", 1e-3}, {"h.0.*",
///     1e-5}}));
template <class Options>
std::vector<Group<Options>> with_rates(const std::vector<Group<Options>>& groups,
                                       const std::vector<std::pair<std::string, double>>& rates) {
  OptionEdits<Options> edits;
  for (const auto& [pattern, rate] : rates) edits.emplace_back(pattern, [lr = rate](Options& o) { o.lr(lr); });
  return with_options(groups, edits);
}

// ---- averages of weights ------------------------------------------------------------------------------------------

/// The exponential moving average of weights, which often generalises better than the weights. It starts at their
/// values. Call update() after each step: average = decay average + (1 - decay) weight. The average of a bfloat16
/// parameter is float32, because bfloat16 has too few digits for the steps. apply() rounds it. Buffers are not
/// averaged: BatchNorm keeps the running statistics of the weights. update() and apply() throw Error if the layer of a
/// parameter was replaced or destroyed.
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
  /// step() and shard(), quantize_(), vector_to_parameters(), and loading or merging LoRA. nn::save_weights() writes
  /// the averages, and clone() makes a model of them.
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
  nn::detail::HeldByLayers held_;
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
