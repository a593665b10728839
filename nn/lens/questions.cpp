// Questions that are asked with a lens.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "attention/token_scores.hpp"
#include "fit/nn/lens/lens.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

double number_of(const char* op, const Tensor& measured) {
  check::defined(op, "the measure", measured);
  if (measured.numel() != 1)
    check::fail(op, "the measure has shape ", measured.shape(), ": it must be one number, such as a loss");
  return measured.item();
}

// [rows, the longest row] float32, filled with NaN.
Tensor matrix_of(const std::vector<std::vector<double>>& rows) {
  std::size_t width = 0;
  for (const auto& row : rows) width = std::max(width, row.size());
  std::vector<float> all;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < width; ++i) all.push_back(static_cast<float>(i < row.size() ? row[i] : none));
  return tensor(all, {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(width)});
}

// The names of the values, or an Error that says what the run must keep.
std::vector<std::string> kept(const char* op, const LensRun& run, const std::string& pattern) {
  std::vector<std::string> names = run.names(pattern);
  if (names.empty()) check::fail(op, "the run has kept no value '", pattern, "': give this name to Lens::run()");
  return names;
}

// The change of the measure for each value and each of its `count` parts. `where` selects a part.
Tensor changes(const char* op, const Lens& lens, const std::vector<std::string>& names, const LensRun& sizes, int axis,
               const std::function<Tensor()>& measure, Where (*where)(std::int64_t), const LensEdit& edit) {
  const NoGrad no_grad;
  const double plain = number_of(op, lens.run(measure, {}).output);
  std::vector<std::vector<double>> rows;
  for (const std::string& name : names) {
    rows.emplace_back();
    for (std::int64_t i = 0; i < sizes[name].size(axis); ++i)
      rows.back().push_back(number_of(op, lens.with(name, where(i), edit).run(measure, {}).output) - plain);
  }
  return matrix_of(rows);
}

}  // namespace

Tensor ablate_heads(const Lens& lens, const std::function<Tensor()>& measure, Ablation ablation) {
  const NoGrad no_grad;
  const LensRun run = lens.run(measure, {"*.z"});
  const LensEdit edit = ablation == Ablation::zero   ? zero()
                        : ablation == Ablation::mean ? mean_of(run)
                                                     : position_mean_of(run);
  return changes("ablate_heads", lens, run.names(), run, 1, measure, head, edit);
}

Tensor patch_heads(const Lens& lens, const LensRun& other, const std::function<Tensor()>& measure) {
  constexpr const char* op = "patch_heads";
  return changes(op, lens, kept(op, other, "*.z"), other, 1, measure, head, from(other));
}

Tensor patch_sweep(const Lens& lens, const LensRun& other, const std::function<Tensor()>& measure,
                   const std::string& pattern) {
  constexpr const char* op = "patch_sweep";
  return changes(op, lens, kept(op, other, pattern), other, -2, measure, position, from(other));
}

Tensor logit_lens(const LensRun& run, const std::function<Tensor(const Tensor&)>& unembed, const Tensor& targets,
                  const std::string& pattern) {
  constexpr const char* op = "logit_lens";
  const NoGrad no_grad;
  std::vector<Tensor> rows;
  for (const std::string& name : kept(op, run, pattern)) {
    const Tensor logits = unembed(run[name]);  // [B, S, V]
    if (logits.rank() != 3 || targets.shape() != Shape{logits.size(0), logits.size(1)})
      check::fail(op, "targets has shape ", targets.shape(), ", the logits of '", name, "' ", logits.shape(),
                  ": they must be [B, S] and [B, S, V]");
    rows.push_back(mean(squeeze(gather(softmax(logits.to(float32)), -1, unsqueeze(targets, -1)), -1), 0));
  }
  return stack(rows);
}

// ---- logit_attribution --------------------------------------------------------------------------------------------

double LogitAttribution::sum() const {
  return fit::sum(heads.to(float64)).item() + fit::sum(attention_bias.to(float64)).item() +
         fit::sum(mlps.to(float64)).item() + embedding + constant;
}

namespace {

constexpr const char* attribution = "logit_attribution";

// A norm with a fixed deviation. It is then linear: a part of the input x [C] gives the part (part - mean) /
// deviation · weight of the output.
struct FrozenNorm {
  Tensor weight = ones({1}, float64), bias;  // bias: undefined if there is none
  double scale = 1;
  bool centred = false;

  FrozenNorm() = default;  // of a model without one
  FrozenNorm(const Layer& norm, const Tensor& x, const Tensor& output) {
    if (const auto* layer = dynamic_cast<const LayerNorm*>(&norm)) {
      if (layer->weight.original().defined()) weight = layer->weight.value().to(float64);
      centred = true;
      if (layer->bias.original().defined()) bias = layer->bias.value().to(float64);
    } else if (const auto* rms = dynamic_cast<const RMSNorm*>(&norm)) {
      weight = rms->weight.value().to(float64);
    } else {
      check::fail(attribution, "a norm is a ", norm.name(), ": it must be a LayerNorm or an RMSNorm");
    }
    const Tensor part = (centred ? x - mean(x) : x) * weight;  // the norm is this times a number
    const Tensor y = output - (bias.defined() ? bias : zeros({1}, float64));
    const double size = fit::sum(part * part).item();
    scale = size > 0 ? fit::sum(part * y).item() / size : 0;
  }
  // Maps parts [..., C] of the input to their parts of the output.
  Tensor of(const Tensor& parts) const {
    return (centred ? parts - mean(parts, -1, keepdims) : parts) * weight * scale;
  }
};

std::string parent(const std::string& name) { return name.substr(0, name.rfind('.')); }

// The values of a run at one position, and their effects on the logit of a token.
class LogitEffects {
 public:
  LogitEffects(const GPT& model, const LensRun& run, std::int64_t position, std::int64_t token)
      : run_(run), at_(position), direction_(unsqueeze(model.head.weight.value()[token].to(float64), -1)) {
    for (const auto& [name, layer] : model.named_layers()) layers_[name] = layer;
    if (model.ln_f) last_ = FrozenNorm(*model.ln_f, value(run.names("*.resid_post").back()), value("ln_f.out"));
  }

  Tensor value(const std::string& name) const {
    const Tensor x = run_[name][0];  // [S, C] or [H, S, C]
    return squeeze(slice(x, x.rank() - 2, at_, at_ + 1), -2).to(float64);
  }
  // Of parts [..., C] of the last residual.
  Tensor of(const Tensor& parts) const { return matmul(last_.of(parts), direction_).squeeze(-1); }
  double of_norm_bias() const { return last_.bias.defined() ? matmul(last_.bias, direction_).item() : 0; }
  // What a branch adds to the residual, its output or that of the norm behind it: in all, and of each of `parts`.
  std::pair<Tensor, Tensor> added(const std::string& branch, const char* behind, const Tensor& parts) const {
    const auto norm = layers_.find(parent(branch) + '.' + behind);
    const Tensor all = value((norm == layers_.end() ? branch : norm->first) + ".out");
    if (norm == layers_.end()) return {all, parts};
    return {all, FrozenNorm(*norm->second, value(branch + ".out"), all).of(parts)};
  }

 private:
  const LensRun& run_;
  std::int64_t at_;
  Tensor direction_;
  std::map<std::string, const Layer*> layers_;
  FrozenNorm last_;
};

}  // namespace

LogitAttribution logit_attribution(const GPT& model, const Tensor& ids, std::int64_t token, std::int64_t position) {
  constexpr const char* op = attribution;
  if (model.training() && model.options().dropout() > 0)
    check::fail(op, "the model has dropout and is in training: call its eval() first");
  const NoGrad no_grad;
  const LensRun run = Lens(model).run(ids, {"*.resid_pre", "*.resid_post", "*.head_out", "*.out"});
  const std::int64_t T = ids.size(1), vocab = run.output.size(-1), at = position < 0 ? position + T : position;
  if (at < 0 || at >= T) check::fail(op, "position is ", position, ", ids has shape ", ids.shape(), ": there are ", T);
  if (token < 0 || token >= vocab) check::fail(op, "token is ", token, ": it must be in 0 … ", vocab - 1);
  const LogitEffects effects(model, run, at, token);
  LogitAttribution result;
  std::vector<Tensor> heads, biases, mlps;
  for (const std::string& name : run.names("*.head_out")) {
    const auto [all, parts] = effects.added(parent(name), "post_ln_1", effects.value(name));
    heads.push_back(effects.of(parts));
    biases.push_back(effects.of(all - sum(parts, 0)));
  }
  for (const std::string& name : run.names("*.mlp.out"))
    mlps.push_back(effects.of(effects.added(parent(name), "post_ln_2", effects.value(name)).first));
  result.heads = stack(heads).to(float32);
  result.attention_bias = stack(biases).to(float32);
  result.mlps = mlps.empty() ? zeros({0}) : stack(mlps).to(float32);
  result.embedding = effects.of(effects.value(run.names("*.resid_pre").front())).item();
  result.constant = effects.of_norm_bias();
  if (model.head.bias.original().defined()) result.constant += model.head.bias.value()[token].item();
  result.logit = run["head.out"][{0, at, token}].item();
  if (!(std::abs(result.sum() - result.logit) <= 1e-3 * (1 + std::abs(result.logit))))
    check::fail(op, "the terms sum to ", result.sum(), ", the logit is ", result.logit,
                ": the blocks must add to the residual, as GPTBlock does; ablate_heads() needs no such sum");
  return result;
}

// ---- heads --------------------------------------------------------------------------------------------------------

HeadScores head_scores(const LensRun& run, const Tensor& ids) {
  constexpr const char* op = "head_scores";
  check::dtype(op, "ids", ids, int64);
  std::vector<std::vector<double>> previous, duplicate, induction;
  for (const std::string& name : kept(op, run, "*.weights")) {
    const Tensor weights = run[name].to(float32);
    const std::int64_t B = weights.size(0), T = weights.size(2);
    if (ids.shape() != Shape{B, T} || weights.size(3) != T)
      check::fail(op, "ids has shape ", ids.shape(), ", '", name, "' ", weights.shape(),
                  ": they must be [B, T] and [B, H, T, T]");
    for (auto* const rows : {&previous, &duplicate, &induction}) rows->emplace_back();
    for (const TokenScores& head : token_scores(weights, ids.to_vector<std::int64_t>())) {
      previous.back().push_back(head.previous);
      duplicate.back().push_back(head.duplicate);
      induction.back().push_back(head.induction);
    }
  }
  return {matrix_of(previous), matrix_of(duplicate), matrix_of(induction)};
}

Tensor attention_rollout(const LensRun& run, const std::string& pattern) {
  constexpr const char* op = "attention_rollout";
  const NoGrad no_grad;
  Tensor rollout;
  for (const std::string& name : kept(op, run, pattern)) {
    const Tensor weights = run[name].to(float32);
    if (weights.size(2) != weights.size(3) || (rollout.defined() && rollout.size(1) != weights.size(2)))
      check::fail(op, "'", name, "' is ", weights.shape(), ": it must be [B, H, S, S], with one S for all layers");
    const Tensor layer = (mean(weights, 1) + eye(weights.size(2))) / 2;
    rollout = rollout.defined() ? matmul(layer, rollout) : layer;
  }
  return rollout;
}

// ---- integrated_gradients -----------------------------------------------------------------------------------------

Tensor integrated_gradients(const Lens& lens, const std::string& name, const std::function<Tensor()>& measure,
                            const Tensor& baseline, std::int64_t steps) {
  constexpr const char* op = "integrated_gradients";
  if (steps < 1) check::fail(op, "steps is ", steps, ": it must be positive");
  const Tensor x = lens.run(measure, {name})[name].detach();
  const Tensor x0 = baseline.defined() ? broadcast_to(baseline.detach().to(x.dtype()), x.shape()) : zeros_like(x);
  Tensor total = zeros_like(x);
  for (std::int64_t i = 0; i < steps; ++i) {
    const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(steps);
    Tensor between = (x0 + (x - x0) * share).detach().requires_grad_();
    const Tensor measured = lens.with(name, [&](const Tensor&) { return between; }).run(measure, {}).output;
    number_of(op, measured);
    total = total + grad(sum(measured), {between})[0];
  }
  return (x - x0) * total / static_cast<double>(steps);
}

}  // namespace fit::nn
