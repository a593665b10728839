// The definition of attention, made of operations. It is what the tiles are checked against, and what derivatives of
// higher order are taken of.
#include <cmath>

#include "fit/ops.hpp"
#include "ops/attention.hpp"
#include "ops/attention_event.hpp"
#include "ops/dropout.hpp"
#include "ops/precision.hpp"

namespace fit::detail {
namespace {

// k or v with each head repeated for the query heads that share it.
Tensor repeat_heads(const Tensor& x, std::int64_t count, HeadLayout heads) {
  const int axis = heads == HeadLayout::first ? 1 : 2;
  if (x.size(axis) == count) return x;
  const Shape groups = x.shape().inserted(axis + 1, count / x.size(axis));
  return reshape(broadcast_to(unsqueeze(x, axis + 1), groups), x.shape().with(axis, count));
}

// Which pairs may attend; undefined where all may.
Tensor visible_pairs(const AttentionCall& c, const Tensor& mask) {
  Tensor visible = mask;
  const auto restrict_to = [&](const Tensor& m) { visible = visible.defined() ? logical_and(visible, m) : m; };
  if (c.causal) restrict_to(causal_mask(c.Sq, c.Sk));
  if (c.window > 0) restrict_to(window_mask(c.Sq, c.Sk, c.window));
  return visible;
}

// What dropout multiplies the weights by.
Tensor dropout_factors(const AttentionCall& c, const Tensor& weights) {
  const NoGrad no_grad;
  return dropout_at(ones_like(weights), c.dropout, c.key.seed, c.key.call, c.first_weight);
}

struct Heads {
  Tensor q, k, v;  // with four axes, and as many heads each
};

Heads split_heads(const AttentionCall& c, const std::vector<Tensor>& x) {
  const bool first = c.layout == HeadLayout::first;
  const auto four = [&](const Tensor& t, std::int64_t S, std::int64_t heads, std::int64_t features) {
    return reshape(t, first ? Shape{c.B, heads, S, features} : Shape{c.B, S, heads, features});
  };
  const auto all = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return Heads{four(q, c.Sq, c.H, c.D), repeat_heads(four(k, c.Sk, c.kv_heads, c.D), c.H, c.layout),
                 repeat_heads(four(v, c.Sk, c.kv_heads, c.Dv), c.H, c.layout)};
  };
  if (c.layout != HeadLayout::packed) return all(x[0], x[1], x[2]);
  const std::int64_t k_at = c.H * c.D, v_at = k_at + c.kv_heads * c.D;
  return all(slice(x[0], 2, 0, k_at), slice(x[0], 2, k_at, v_at), slice(x[0], 2, v_at, x[0].size(2)));
}

// While Autocast would round what the operations here hand on.
AttentionResult in_float32(const AttentionCall& c, const std::vector<Tensor>& operands, const ScoreTerms& terms,
                           const AttentionEdits* edits) {
  const Autocast off(float32);
  return composed_attention(c, operands, terms, edits);
}

}  // namespace

AttentionResult composed_attention(const AttentionCall& c, const std::vector<Tensor>& operands, const ScoreTerms& terms,
                                   const AttentionEdits* edits) {
  if (is_narrow(operands[0])) {
    std::vector<Tensor> wide;
    wide.reserve(operands.size());
    for (const Tensor& x : operands) wide.push_back(widened(x));
    const AttentionResult r = in_float32(c, wide, terms, edits);
    return {r.output.to(bfloat16), narrowed(r.weights)};
  }
  const HeadLayout layout = c.layout == HeadLayout::first ? HeadLayout::first : HeadLayout::last;
  const Heads x = split_heads(c, operands);             // q [B, H, Sq, D], k [B, H, Sk, D], v [B, H, Sk, Dv]
  const Tensor visible = visible_pairs(c, terms.mask);  // (B|1, H|1, 1|Sq, Sk)

  Tensor scores = masked_qk(x.q, x.k, visible, layout) * c.scale;  // [B, H, Sq, Sk]
  if (terms.bias.defined()) scores = scores + terms.bias;
  if (terms.alibi.defined()) scores = scores + alibi_bias(terms.alibi, c.Sq, c.Sk, scores.dtype());
  if (edits) scores = edits->scores(scores);
  const Tensor hidden = visible.defined() ? logical_not(visible) : Tensor();
  // The softmax of a fully masked row is NaN. The second fill makes it 0, and lets no gradient into the row.
  const auto cleared = [&](const Tensor& w) { return hidden.defined() ? masked_fill(w, hidden, 0) : w; };
  Tensor weights = cleared(softmax(hidden.defined() ? masked_fill(scores, hidden, -INFINITY) : scores));  // as scores
  if (edits) weights = cleared(edits->weights(weights)), edits->tell(weights);
  // Multiplied, not chosen: a NaN shows where it is dropped, too.
  const Tensor dropped = c.dropout > 0 ? weights * dropout_factors(c, weights) : weights;  // [B, H, Sq, Sk]
  Tensor output = masked_pv(dropped, x.v, visible, layout);  // [B, H, Sq, Dv] as the operands lie
  if (edits) output = edits->output(output, layout);
  return {reshape(output, c.output), reshape(weights, c.weights)};
}

}  // namespace fit::detail
