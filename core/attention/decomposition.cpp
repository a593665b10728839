// Attention made of operations: the definition. Higher derivatives differentiate it.
#include <cmath>

#include "attention/attend.hpp"
#include "attention/masked_matmul.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/graph/named_values.hpp"
#include "fit/ops/ops.hpp"
#include "ops/common/precision.hpp"
#include "ops/elementwise/dropout.hpp"

namespace fit::detail {
namespace {

// The first `length` positions of split_heads(), in float32 or float64. Each head is repeated for the query heads that
// share it: `count` in all.
Tensor shared_heads(const Heads& h, std::int64_t length, std::int64_t count) {
  const Tensor all = split_heads(h);
  const Tensor four = to_float32(all.size(2) > length ? slice(all, 2, 0, length) : all);
  if (h.heads == count) return four;
  const Shape groups = four.shape().inserted(2, count / h.heads);
  return reshape(broadcast_to(unsqueeze(four, 2), groups), four.shape().with(1, count));
}

// The softmax of a fully masked row is NaN. This makes it 0, and lets no gradient into the row.
Tensor cleared(const Tensor& weights, const Tensor& masked) {
  return masked.defined() ? masked_fill(weights, masked, 0) : weights;
}

// The pairs that attend, (B|1, H|1, 1|Sq, Sk); undefined if all do.
Tensor attending_pairs(const AttentionCall& call) {
  const kernels::Attention<>& a = call.a;
  if (!a.causal && a.window == 0) return call.plan.mask(a.Sq, a.Sk);
  const Tensor& tiles = call.plan.tiles;
  return tiles.defined() ? pairs_mask(a, tiles.size(0), tiles.size(1)) : pairs_mask(a);
}

// The scores [B, H, Sq, Sk]. Those of masked pairs are arbitrary.
Tensor scores_of(const AttentionCall& call, const Tensor& attends) {
  const kernels::Attention<>& a = call.a;
  const Tensor Q = shared_heads(call.q(), a.Sq, a.H), K = shared_heads(call.k(), a.Sk, a.H);
  Tensor scores = masked_qk(Q, K, attends) * a.scale;
  if (call.bias.defined()) scores = scores + call.bias;
  if (call.alibi.defined()) scores = scores + alibi_bias(call.alibi, a.Sq, a.Sk, scores.dtype());
  if (!call.score) return scores;
  const Expression& f = *call.score;
  const Tensor masked = attends.defined() ? logical_not(attends) : Tensor();
  return broadcast_to(f.methods->evaluate(f, scores, f.tables, masked, scores.shape(), {}).to(scores.dtype()),
                      scores.shape());
}

// The softmax of scores, -inf where `masked`: its weights and lse [B, H, Sq].
std::pair<Tensor, Tensor> softmax_of(const AttentionCall& call, const Tensor& scores, const Tensor& masked) {
  const kernels::Attention<>& a = call.a;
  Tensor logits = scores;
  if (call.sink.defined())  // one more column, without a value
    logits = cat({logits, broadcast_to(reshape(call.sink, {1, a.H, 1, 1}), {a.B, a.H, a.Sq, 1})}, -1);
  const Tensor all = softmax(logits), weights = call.sink.defined() ? slice(all, -1, 0, a.Sk) : all;
  const Tensor lse = logits.size(-1) > 0 ? logsumexp(logits, {-1}) : full({a.B, a.H, a.Sq}, -INFINITY, logits.dtype());
  return {cleared(weights, masked), lse};
}

}  // namespace

AttentionResult decomposed_attention(const AttentionCall& call, const AttentionInfo* edits) {
  const kernels::Attention<>& a = call.a;
  const DType of_weights = result_dtype(Precision::float32, call.q().x.dtype());
  const Autocast off(float32);  // nothing here is rounded
  const Tensor V = shared_heads(call.v(), a.Sk, a.H), attends = attending_pairs(call);
  Tensor scores = scores_of(call, attends);
  const Tensor masked = attends.defined() ? logical_not(attends) : Tensor();
  if (edits) {  // masked scores are 1 there: no derivative is infinite or NaN, so that 0 times it is 0
    if (masked.defined()) scores = masked_fill(scores, masked, 1);
    scores = edited_attention(*edits, "the scores", &Observer::edit_scores, scores);
  }
  if (masked.defined()) scores = masked_fill(scores, masked, -INFINITY);
  auto [weights, lse] = softmax_of(call, scores, masked);
  if (edits) {
    weights = cleared(edited_attention(*edits, "the weights", &Observer::edit_weights, weights), masked);
    notify_attention(*edits, [shown = weights.detach()](std::int64_t first, std::int64_t count) {
      return slice(shown, 0, first, first + count);
    });
    observed("scores", scores.detach());
  }
  Tensor after_dropout = weights;
  if (a.dropout.p > 0)  // a product, not a choice: a NaN shows even if it is dropped
    after_dropout = weights * dropped(ones_like(weights), a.dropout);
  Tensor output = masked_pv(after_dropout, Transpose::no, V, attends);
  if (edits) output = edited_attention(*edits, "the output", &Observer::edit_output, output);
  if (call.q().layout != HeadLayout::first) output = transpose(output, 1, 2);
  output = reshape(output, call.output_shape()).to(call.dtype());
  weights = reshape(weights, call.weights_shape());
  const Tensor shaped_lse = reshape(lse, weights.shape().erased(weights.rank() - 1));
  return {output, weights.to(of_weights), shaped_lse};
}

Tensor features_of(const Heads& h) {
  return h.layout == HeadLayout::part ? slice(h.x, 2, h.offset, h.offset + h.heads * h.features) : h.x;
}

Tensor split_heads(const Heads& h) {
  const Shape& s = h.x.shape();
  if (h.layout == HeadLayout::first)
    return reshape(h.x, {s.rank() > 2 ? s[0] : 1, h.heads, s[s.rank() - 2], h.features});
  return transpose(reshape(features_of(h), {s[0], s[1], h.heads, h.features}), 1, 2);
}

Tensor attention_scores(const AttentionCall& call) {
  const NoGrad no_grad;
  const Autocast off(float32);
  const Tensor attends = attending_pairs(call), scores = scores_of(call, attends);
  return attends.defined() ? masked_fill(scores, logical_not(attends), -INFINITY) : scores;
}

Tensor alibi_bias(const Tensor& slopes, std::int64_t queries, std::int64_t keys, DType dtype) {
  const Tensor i = reshape(arange(queries).to(float64) + static_cast<double>(keys - queries), {queries, 1});
  const Tensor distance = abs(i - arange(keys).to(float64));  // [Sq, Sk]
  return (reshape(slopes.to(float64), {1, slopes.numel(), 1, 1}) * neg(distance)).to(dtype);
}

}  // namespace fit::detail
