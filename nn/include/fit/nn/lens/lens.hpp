#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/layer/layer.hpp"

/// Reads and edits every value inside a run of a model. The model needs no change.
///
///     const nn::Lens lens(gpt);
///     const nn::LensRun run = lens.run(ids);
///     std::cout << run["h.1.attn.weights"];                                         // [B, H, T, T]
///     const Tensor without = lens.with("h.1.attn.z", nn::head(3), nn::zero()).run(ids, {}).output;
///
/// A name is the dotted name of a layer, a point and one of these suffixes. B is the batch, S the positions, C the
/// features of the model, H the heads, D the features of a head. Encoders that skip padding have [N, C] for [B, S, C].
///   * Every layer that returns a tensor: out, its output. Layers with one input: in. The name "out" is the model's
///     output.
///   * Blocks: resid_pre, resid_mid, resid_post, the residual [B, S, C] before, between and after. In a decoder
///     resid_cross, too, after the attention to the memory.
///   * Attention: q, k and v as attention gets them, [B, H, S, D], or [B, Hkv, S, D] of k and v; with rotary positions
///     q_unrotated and k_unrotated, too. z, the output of each head, [B, H, S, D]. head_out, what each head adds to the
///     output, [B, H, S, C]: z of the head times its part of the projection, without the bias.
///   * Attention, outside the graph: scores [B, H, Sq, Sk], with scale and bias, -inf for masked pairs; weights after
///     softmax, before dropout.
///   * Feed-forward layers: pre and post, before and after the activation, [B, S, hidden].
///   * LayerNorm and RMSNorm: scale, the deviation by which they divide, [B, S, 1].
///
/// A layer of your own has these names through the layers that it is made of, and offers more by fit::observed(); an
/// attention of your own that ends with project_heads() has head_out. For a name of TransformerLens, the Error has
/// ours.
namespace fit::nn {

class GPT;

/// The part of a value that an edit replaces. Numbers below 0 count from the end. An empty list stands for all.
struct Where {
  FIT_OPTION(std::vector<std::int64_t>, heads);      ///< The axis -3 of a value with four axes.
  FIT_OPTION(std::vector<std::int64_t>, positions);  ///< The axis -2; the queries, of scores and weights.
  FIT_OPTION(std::vector<std::int64_t>, features);   ///< The axis -1; the keys, of scores and weights.
  FIT_OPTION(std::vector<std::int64_t>, elements);   ///< The batch: the axis 0 of a value with three or four axes.
};
Where head(std::int64_t i);      ///< one head
Where position(std::int64_t i);  ///< one position

/// The values that a run has kept.
class LensRun {
 public:
  Tensor output;  ///< what the model, or the function of run(), returned

  /// The value; the last one if the layer was called several times. Throws Error if there is none of this name.
  const Tensor& operator[](const std::string& name) const { return calls(name).back(); }
  /// The values of all calls, in order.
  const std::vector<Tensor>& calls(const std::string& name) const;
  /// The names in the order of their computation; with a pattern (see Lens::run()), those that match.
  std::vector<std::string> names(const std::string& pattern = "*") const;

 private:
  friend class Lens;
  std::vector<std::pair<std::string, std::vector<Tensor>>> values_;
};

/// The new value of an edit: a function of the old tensor, or of its name and the tensor, or of both and the number of
/// the call in the run, from 0. The result is broadcast to the value's shape.
class LensEdit {
  template <class F, class... A>
  static constexpr bool takes = std::is_invocable_r_v<Tensor, const F&, const A&...>;

 public:
  template <class F, std::enable_if_t<takes<F, Tensor> || takes<F, std::string, Tensor> ||
                                          takes<F, std::string, Tensor, std::size_t>,
                                      int> = 0>
  LensEdit(F f) {
    if constexpr (takes<F, Tensor>)
      f_ = [f = std::move(f)](const std::string&, const Tensor& x, std::size_t) { return f(x); };
    else if constexpr (takes<F, std::string, Tensor>)
      f_ = [f = std::move(f)](const std::string& name, const Tensor& x, std::size_t) { return f(name, x); };
    else
      f_ = std::move(f);
  }
  /// The new value of x, in the call with this number.
  Tensor operator()(const std::string& name, const Tensor& x, std::size_t call = 0) const { return f_(name, x, call); }

 private:
  std::function<Tensor(const std::string&, const Tensor&, std::size_t)> f_;
};

/// 0.
LensEdit zero();
/// The mean of the value of the same name in a run, over its batch and positions; see from() for several calls.
LensEdit mean_of(const LensRun& run);
/// The mean over the batch alone: each position has its own.
LensEdit position_mean_of(const LensRun& run);
/// The value of the same name in a run. Its shape must be the same. This is activation patching. If the run has several
/// calls of a layer, each call gets the value of its number. Throws Error for more calls than the run has.
LensEdit from(const LensRun& run);

/// Runs a model, keeps values, and edits them. A lens is a constant: with() gives another one. It must not outlive the
/// model, and the model must not be moved. Runs may be concurrent.
///
/// A run that edits nothing has the bits of the plain one, whatever it keeps, and attention stays fused. If nothing is
/// kept either, it is the plain run. Edits of scores or weights compute that attention by operations. Gradients flow
/// through all edits. With checkpoint(), call backward() inside the function of run(), as it throws Error without the
/// edits; what it computes again is kept once, and has the number of the layer's last call.
class Lens {
 public:
  /// Throws Error if the model's list of members is incomplete.
  template <class Model>
  explicit Lens(const Model& model) : Lens(model, caller(model)) {}

  /// Calls model(input), or f(), and keeps the values whose names match a pattern, in which * stands for one or more
  /// letters. f calls the model in any way: with masks, with a cache, or for a loss. Throws Error if a pattern, here or
  /// in with(), matches no value.
  LensRun run(const Tensor& input, const std::vector<std::string>& keep = {"*"}) const;
  LensRun run(const std::function<Tensor()>& f, const std::vector<std::string>& keep = {"*"}) const;
  /// The names of all values of such a run, in the order of their computation.
  std::vector<std::string> names(const Tensor& input) const;
  std::vector<std::string> names(const std::function<Tensor()>& f) const;

  /// A lens that also edits the values whose names match the pattern. Later edits get the results of earlier ones. A
  /// run throws Error for a head, position, feature or element that the value does not have, and for a replacement that
  /// can't be broadcast to the value's shape.
  Lens with(const std::string& pattern, const Where& where, LensEdit edit) const;
  Lens with(const std::string& pattern, LensEdit edit) const { return with(pattern, Where(), std::move(edit)); }

  /// An edit of the values whose names match the pattern.
  struct Edit {
    std::string pattern;
    Where where;
    LensEdit what;
  };
  struct State;

 private:
  using Call = std::function<Tensor(const Tensor&)>;
  Lens(const Layer& model, Call call);
  template <class Model>
  static Call caller(const Model& model) {
    if constexpr (std::is_invocable_r_v<Tensor, detail::Forward, const Model&, const Tensor&>)
      return [&model](const Tensor& x) -> Tensor { return model(x); };
    else
      return nullptr;
  }
  std::function<Tensor()> call_of(const Tensor& input) const;
  // The run, and the names of all its values.
  std::pair<LensRun, std::vector<std::string>> observe(const std::function<Tensor()>& f,
                                                       const std::vector<std::string>& keep) const;

  std::shared_ptr<const State> state_;
  std::vector<Edit> edits_;
};

// ---- questions ----------------------------------------------------------------------------------------------------
//
// `measure` calls the model in any way, and returns one number: a loss, or a difference of logits. A "layer" is an
// attention layer, in the order of the computation. Each result is a matrix for plot::heatmap(). NaN stands where a
// layer has fewer heads than another.

/// The value with which ablate_heads() replaces the output of a head.
enum class Ablation {
  zero,
  mean,           ///< the head's mean over the batch and the positions
  position_mean,  ///< the head's mean over the batch, for each position
};

/// [layers, heads] float32: how much the measure changes without the head.
Tensor ablate_heads(const Lens& lens, const std::function<Tensor()>& measure, Ablation ablation = Ablation::zero);

/// [layers, heads] float32: how much the measure changes if the head's output comes from another run, which has kept
/// "*.z".
Tensor patch_heads(const Lens& lens, const LensRun& other, const std::function<Tensor()>& measure);

/// [values, positions] float32: how much the measure changes if one position of a value [B, S, C] comes from another
/// run, which has kept it. The pattern selects the values.
Tensor patch_sweep(const Lens& lens, const LensRun& other, const std::function<Tensor()>& measure,
                   const std::string& pattern = "*.resid_pre");

/// [values, S] float32: the probability of targets [B, S], mean over the batch, if the values of the run that match the
/// pattern were the last of the model. `unembed` makes logits of them (nostalgebraist 2020):
///
///     logit_lens(run, [&](const Tensor& x) { return gpt.head((*gpt.ln_f)(x)); }, targets)
Tensor logit_lens(const LensRun& run, const std::function<Tensor(const Tensor&)>& unembed, const Tensor& targets,
                  const std::string& pattern = "*.resid_post");

/// Terms that sum to a logit.
struct LogitAttribution {
  Tensor heads;           ///< [layers, heads]
  Tensor attention_bias;  ///< [layers]: the bias of the output projections, and of a norm behind them
  Tensor mlps;            ///< [layers]
  double embedding = 0;   ///< the residual before the first block
  double constant = 0;    ///< of the bias of the last norm, and of the head's
  double logit = 0;       ///< what the model computes, before logit_cap
  double sum() const;     ///< of all terms; the logit, except for rounding
};
/// The direct effect of each part of a GPT on the logit of `token` after position `position` of the first sequence of
/// ids [B, T]. The scale of the last norm, and of norms behind attention and MLP, is that of the run (Elhage et al.
/// 2021). Throws Error if the model is in training with dropout, and if the terms don't sum to the logit: then the
/// blocks don't add to the residual. A model that normalises the residual itself, as BERT does, has no such sum: use
/// ablate_heads() or patch_heads().
LogitAttribution logit_attribution(const GPT& model, const Tensor& ids, std::int64_t token, std::int64_t position = -1);

/// [layers, heads] float32 each: mean weights over the queries, from the weights of self-attention. NaN if no query has
/// such a key. (Olsson et al. 2022.)
struct HeadScores {
  Tensor previous;   ///< on the previous position
  Tensor duplicate;  ///< on earlier positions with the query's token
  Tensor induction;  ///< on positions right behind earlier positions with the query's token
};
/// For a run that has kept "*.weights", of ids [B, T].
HeadScores head_scores(const LensRun& run, const Tensor& ids);

/// The attribution of the measure to the elements of a value, in the value's shape: (x - x0) times the mean gradient
/// between x0 and x (Sundararajan et al. 2017), by the midpoint rule. The attributions sum to measure(x) - measure(x0);
/// more steps make the sum more exact. x0 is the baseline, 0 if not given.
Tensor integrated_gradients(const Lens& lens, const std::string& name, const std::function<Tensor()>& measure,
                            const Tensor& baseline = {}, std::int64_t steps = 32);

/// [B, S, S]: how much of position j is in position i after all layers whose weights the run has kept, if each layer is
/// half the mean of its heads and half the residual (Abnar & Zuidema 2020).
Tensor attention_rollout(const LensRun& run, const std::string& pattern = "*.weights");

}  // namespace fit::nn
