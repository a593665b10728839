// Attention made of operations: the definition. Higher derivatives differentiate it.
#include <cmath>

#include "attention/attend.hpp"
#include "attention/masked_matmul.hpp"
#include "fit/autocast.hpp"
#include "fit/named_values.hpp"
#include "fit/ops.hpp"
#include "fit/parallel.hpp"
#include "ops/dropout.hpp"
#include "ops/precision.hpp"

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

// The pairs that attend; undefined if all do.
Tensor attending_pairs(const kernels::Attention<>& a, const Terms& terms) {
  const Tensor attends = terms.attends ? evaluate_mask(*terms.attends, {a.B, a.H, a.Sq, a.Sk}) : Tensor();
  const Tensor allowed = combine_masks(terms.mask, attends);
  return a.causal || a.window > 0 ? combine_masks(allowed, pairs_mask(a)) : allowed;
}

// The scores [B, H, Sq, Sk]. Those of masked pairs are arbitrary.
Tensor scores_of(const Heads& q, const Heads& k, const kernels::Attention<>& a, const Terms& terms,
                 const Tensor& attends) {
  const Tensor Q = shared_heads(q, a.Sq, a.H), K = shared_heads(k, a.Sk, a.H);
  Tensor scores = masked_qk(Q, K, attends) * a.scale;
  if (terms.bias.defined()) scores = scores + terms.bias;
  if (terms.alibi.defined()) scores = scores + alibi_bias(terms.alibi, a.Sq, a.Sk, scores.dtype());
  if (!terms.score) return scores;
  const Expression& f = *terms.score;
  const Tensor masked = attends.defined() ? logical_not(attends) : Tensor();
  return broadcast_to(f.methods->evaluate(f, scores, f.tables, masked, scores.shape(), {}).to(scores.dtype()),
                      scores.shape());
}

}  // namespace

AttentionResult decomposed_attention(const Heads& q, const Heads& k, const Heads& v, const kernels::Attention<>& a,
                                     const Terms& terms, const AttentionInfo* edits) {
  const bool rounds_weights = is_bfloat16(q.x) && autocast_dtype() != bfloat16;
  const Autocast off(float32);  // nothing here is rounded
  const Tensor V = shared_heads(v, a.Sk, a.H);
  const Tensor attends = attending_pairs(a, terms);  // (B|1, H|1, 1|Sq, Sk)

  Tensor scores = scores_of(q, k, a, terms, attends);
  const Tensor masked = attends.defined() ? logical_not(attends) : Tensor();
  if (edits) {  // masked scores are 1 there: no derivative is infinite or NaN, so that 0 times it is 0
    if (masked.defined()) scores = masked_fill(scores, masked, 1);
    scores = edited_attention(*edits, "the scores", &Observer::edit_scores, scores);
  }
  if (masked.defined()) scores = masked_fill(scores, masked, -INFINITY);
  // The softmax of a fully masked row is NaN. The second fill makes it 0, and lets no gradient into the row.
  const auto cleared = [&](const Tensor& w) { return masked.defined() ? masked_fill(w, masked, 0) : w; };
  Tensor logits = scores;
  if (terms.sink.defined())  // one more column, without a value
    logits = cat({logits, broadcast_to(reshape(terms.sink, {1, a.H, 1, 1}), {a.B, a.H, a.Sq, 1})}, -1);
  Tensor weights = softmax(logits);
  weights = cleared(terms.sink.defined() ? slice(weights, -1, 0, a.Sk) : weights);
  if (edits) {
    weights = cleared(edited_attention(*edits, "the weights", &Observer::edit_weights, weights));
    notify_attention(*edits, [shown = weights.detach()](std::int64_t first, std::int64_t count) {
      return slice(shown, 0, first, first + count);
    });
    observed("scores", scores.detach());
  }
  Tensor dropped = weights;
  if (a.dropout > 0)  // a product, not a choice: a NaN shows even if it is dropped
    dropped = weights * dropout_at(ones_like(weights), a.dropout, a.key.seed, a.key.call, a.first_weight);
  Tensor output = masked_pv(dropped, Transpose::no, V, attends);
  if (edits) output = edited_attention(*edits, "the output", &Observer::edit_output, output);
  if (q.layout != HeadLayout::first) output = transpose(output, 1, 2);
  const Tensor lse = logits.size(-1) > 0 ? logsumexp(logits, {-1}) : full({a.B, a.H, a.Sq}, -INFINITY, logits.dtype());
  output = reshape(output, output_shape(q, a)).to(q.x.dtype());
  weights = reshape(weights, weights_shape(q, a));
  const Tensor shaped_lse = reshape(lse, weights.shape().erased(weights.rank() - 1));
  return {output, rounds_weights ? to_bfloat16(weights) : weights, shaped_lse};
}

Tensor split_heads(const Heads& h) {
  const Shape& s = h.x.shape();
  if (h.layout == HeadLayout::first)
    return reshape(h.x, {s.rank() > 2 ? s[0] : 1, h.heads, s[s.rank() - 2], h.features});
  const std::int64_t end = h.offset + h.heads * h.features;
  const Tensor last = h.layout == HeadLayout::part ? slice(h.x, 2, h.offset, end) : h.x;
  return transpose(reshape(last, {s[0], s[1], h.heads, h.features}), 1, 2);
}

Tensor attention_scores(const Heads& q, const Heads& k, const kernels::Attention<>& a, const Terms& terms) {
  const NoGrad no_grad;
  const Autocast off(float32);
  const Tensor attends = attending_pairs(a, terms);
  const Tensor scores = scores_of(q, k, a, terms, attends);
  return attends.defined() ? masked_fill(scores, logical_not(attends), -INFINITY) : scores;
}

Tensor pairs_mask(const kernels::Visibility& v, std::int64_t B, std::int64_t H) {
  Tensor mask = Tensor::empty({B, H, v.Sq, v.Sk}, boolean);
  bool* const to = mask.fresh<bool>();
  const std::int64_t grain = (std::int64_t{1} << 13) / (v.Sk + 1) + 1;
  parallel_for(B * H * v.Sq, grain, [&](std::int64_t begin, std::int64_t end) {
    const kernels::Visibility pairs = v;  // a copy: no store changes it, so a row computes its range once
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t j = 0; j < pairs.Sk; ++j)
        to[r * pairs.Sk + j] = pairs.attends(r / pairs.Sq / H, r / pairs.Sq % H, r % pairs.Sq, j);
  });
  return mask;
}

Tensor alibi_bias(const Tensor& slopes, std::int64_t queries, std::int64_t keys, DType dtype) {
  const Tensor i = reshape(arange(queries).to(float64) + static_cast<double>(keys - queries), {queries, 1});
  const Tensor distance = abs(i - arange(keys).to(float64));  // [Sq, Sk]
  return (reshape(slopes.to(float64), {1, slopes.numel(), 1, 1}) * neg(distance)).to(dtype);
}

}  // namespace fit::detail
