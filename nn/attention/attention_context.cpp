#include "fit/nn/attention/attention_context.hpp"

#include <algorithm>
#include <utility>

#include "attention/attend.hpp"
#include "attention/keep_padding.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

constexpr const char* context_op = "AttentionContext";

// The term of the layer, or that of the context.
template <class T>
T one_of(const char* name, const T& own, const T& given) {
  if (own.defined() && given.defined())
    check::fail(context_op, name, " is given by the layer and by its call: only one of them can have it");
  return own.defined() ? own : given;
}

// (B, S, heads features) as (B, heads, S, features).
Tensor by_head(const Tensor& joint, std::int64_t heads) {
  return transpose(reshape(joint, {joint.size(0), joint.size(1), heads, joint.size(2) / heads}), 1, 2);
}

// Keys or values (B, kv_heads, past, features) with those of the inputs behind them.
Tensor grown(const Tensor& before, const Heads& now) {
  return cat({before, by_head(fit::detail::features_of(now), before.size(1))}, 2);
}

// The terms of a call: those of the layer and of the context.
AttentionTerms all_terms(const AttentionTerms& own, const AttentionContext& context) {
  const AttentionTerms& terms = context.terms;
  const std::int64_t windows[] = {own.window(), terms.window()};  // 0: none
  return AttentionTerms(combine_masks(own.mask(), terms.mask()))
      .attends(own.attends() & terms.attends())
      .causal(own.causal() || terms.causal() || context.cache || context.past)
      .window(windows[0] == 0 || windows[1] == 0 ? windows[0] + windows[1] : std::min(windows[0], windows[1]))
      .bias(one_of("a bias", own.bias(), terms.bias()))
      .alibi(one_of("alibi", own.alibi(), terms.alibi()))
      .sink(one_of("a sink", own.sink(), terms.sink()))
      .score(one_of("a score", own.score(), terms.score()));
}

}  // namespace

Tensor AttentionContext::attend(const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& own) const {
  if (own.weights() || own.lse())
    check::fail(context_op, "the options ask for ", own.weights() ? "weights" : "lse",
                ": the output alone is returned; set AttentionContext::weights, or call fit::attend()");
  if (past && (cache || weights))
    check::fail(context_op, "past keys and ", cache ? "a cache" : "a list of weights", " are given: give one of them");
  if (own.cache() && cache) check::fail(context_op, "a cache is given by the layer and by its call: give one of them");
  AttentionOptions all = own;
  static_cast<AttentionTerms&>(all) = all_terms(own, *this);
  all.weights(weights != nullptr);
  if (cache) all.cache(*cache);
  if (past) {
    *past = {grown(past->keys, k), grown(past->values, v)};
    const Tensor joint = fit::detail::features_of(q), all_q = by_head(joint, joint.size(2) / past->keys.size(3));
    const Heads keys = heads_first(past->keys), values = heads_first(past->values);
    const Tensor y =
        fit::detail::attend("attend", heads_first(all_q), keys, values, all).output;  // (B, H, S, features)
    return reshape(transpose(y, 1, 2), {y.size(0), y.size(2), y.size(1) * y.size(3)});
  }
  const AttentionResult r = fit::detail::attend("attend", q, k, v, all);
  if (weights) weights->push_back(r.weights);
  return r.output;
}

AttentionContext AttentionContext::of_memory() const {
  AttentionContext c(memory.terms);
  c.weights = memory.weights;
  c.projected = memory.projected;
  return c;
}

AttentionContext without_padding(const Tensor& mask, const Tensor& x) {
  AttentionContext c(mask);
  c.padding = Unpadding::of(mask, x.shape());
  return c;
}

// ---- Unpadding -----------------------------------------------------------------------------------------------------

namespace {
thread_local bool keeps_padding = false;
}  // namespace

KeepPadding::KeepPadding() noexcept : before_(std::exchange(keeps_padding, true)) {}
KeepPadding::~KeepPadding() { keeps_padding = before_; }

std::optional<Unpadding> Unpadding::of(const Tensor& mask, const Shape& sequences) {
  if (keeps_padding || !mask.defined() || sequences.rank() != 3) return std::nullopt;
  const std::int64_t batch = sequences[0], length = sequences[1];
  if (mask.shape() != Shape{batch, 1, length} && mask.shape() != Shape{batch, 1, 1, length}) return std::nullopt;
  Unpadding u;
  u.visible_ = ne(mask.detach(), 0).reshape({batch, length, 1});
  u.rows_ = nonzero(u.visible_.reshape({-1})).reshape({-1});
  if (u.rows_.numel() == batch * length) return std::nullopt;
  if (u.rows_.numel() == 0) u.rows_ = zeros({1}, int64);  // no token: the first place stands for all
  u.places_ = clamp_min(cumsum(u.visible_.reshape({-1}).to(int64), 0) - 1, 0);
  return u;
}

Tensor Unpadding::remove(const Tensor& x) const { return index_select(x.reshape({-1, x.size(2)}), 0, rows_); }

Tensor Unpadding::restore(const Tensor& x) const {
  return index_select(x, 0, places_).reshape({visible_.size(0), visible_.size(1), x.size(1)});
}

Tensor Unpadding::zero_padding(const Tensor& x) const { return where(visible_, x, 0); }

}  // namespace fit::nn
