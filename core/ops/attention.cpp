#include "ops/attention.hpp"

#include <cmath>

#include "fit/ops.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace detail {
namespace {

// k or v with each head repeated for the query heads that share it.
Tensor repeat_heads(const Tensor& x, std::int64_t count, Heads heads) {
  const int axis = heads == Heads::first ? 1 : 2;
  if (x.size(axis) == count) return x;
  const Shape groups = x.shape().inserted(axis + 1, count / x.size(axis));
  return reshape(broadcast_to(unsqueeze(x, axis + 1), groups), x.shape().with(axis, count));
}

// Which pairs may attend; undefined where all may.
Tensor visible_pairs(const AttentionCall& call, std::int64_t queries, std::int64_t keys) {
  Tensor visible = call.mask;
  const auto restrict_to = [&](const Tensor& m) { visible = visible.defined() ? logical_and(visible, m) : m; };
  if (call.causal) restrict_to(causal_mask(queries, keys));
  if (call.window > 0) restrict_to(window_mask(queries, keys, call.window));
  return visible;
}

}  // namespace

AttentionResult composed_attention(const Tensor& q, const Tensor& k, const Tensor& v, Heads heads,
                                   const AttentionCall& call) {
  const int sequence = heads == Heads::first ? 2 : 1;
  const std::int64_t count = q.size(3 - sequence);
  const Tensor visible = visible_pairs(call, q.size(sequence), k.size(sequence));

  Tensor scores = visible_scores(q, repeat_heads(k, count, heads), visible, heads) * call.scale;
  if (call.bias.defined()) scores = scores + call.bias;
  Tensor weights;
  if (visible.defined()) {
    // Of a row without a visible key the softmax is NaN. The second fill makes that 0, and lets no gradient into it.
    const Tensor hidden = logical_not(visible);
    weights = masked_fill(softmax(masked_fill(scores, hidden, -INFINITY)), hidden, 0);
  } else {
    weights = softmax(scores);
  }
  Tensor dropped = weights;
  if (call.dropout > 0) {
    Generator replay;
    replay.set_state(call.seed, call.number);
    dropped = dropout(weights, call.dropout, replay);
  }
  return {visible_to_queries(dropped, repeat_heads(v, count, heads), visible, heads), weights};
}

}  // namespace detail

namespace {

using detail::AttentionCall;
using detail::Heads;

AttentionResult attend(const Tensor& q, const Tensor& k, const Tensor& v, Heads heads, const AttentionCall& call,
                       bool weights) {
  if (auto fused = detail::fused_attention(q, k, v, heads, call, weights)) return *fused;
  return detail::composed_attention(q, k, v, heads, call);
}

// Inputs with heads first, all of the rank that q has.
AttentionResult heads_first(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                            bool weights) {
  constexpr const char* op = "scaled_dot_product_attention";
  check::defined(op, "q", q, "k", k, "v", v);
  const int rank = q.rank();
  if (rank < 2 || rank > 4 || k.rank() != rank || v.rank() != rank)
    check::fail(op, "q is ", q.shape(), ", k is ", k.shape(), ", v is ", v.shape(),
                ": all must be (B, H, S, D), (B, S, D) or (S, D)");
  const auto four = [rank](const Tensor& x) {
    if (rank == 4) return x;
    return reshape(x, rank == 3 ? Shape{x.size(0), 1, x.size(1), x.size(2)} : Shape{1, 1, x.size(0), x.size(1)});
  };
  const Tensor q4 = four(q), k4 = four(k), v4 = four(v);
  const AttentionCall call = detail::check_attention(op, q4, k4, v4, Heads::first, options);
  AttentionResult r = attend(q4, k4, v4, Heads::first, call, weights);
  if (rank == 4) return r;
  const auto back = [&](const Tensor& y) {
    return reshape(y, rank == 3 ? y.shape().erased(1) : y.shape().erased(0).erased(0));
  };
  return {back(r.output), weights ? back(r.weights) : Tensor()};
}

// Inputs [B, S, heads * features].
AttentionResult heads_last(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t num_heads,
                           const AttentionOptions& options, bool weights) {
  constexpr const char* op = "multi_head_attention";
  check::defined(op, "q", q, "k", k, "v", v);
  if (q.rank() != 3 || k.rank() != 3 || v.rank() != 3)
    check::fail(op, "q is ", q.shape(), ", k is ", k.shape(), ", v is ", v.shape(),
                ": all must be (B, S, heads * features)");
  if (num_heads < 1 || q.size(2) % num_heads != 0 || q.size(2) == 0)
    check::fail(op, "q is ", q.shape(), ", num_heads ", num_heads,
                ": the last axis must be num_heads times the features of a head, at least 1");
  const std::int64_t features = q.size(2) / num_heads, kv_heads = k.size(2) / features;
  if (kv_heads == 0 || k.size(2) % features != 0)
    check::fail(op, "k is ", k.shape(), ", q is ", q.shape(), " in ", num_heads, " heads of ", features,
                " features: the last axis of k must be a multiple of ", features);
  if (v.size(2) % kv_heads != 0)
    check::fail(op, "v is ", v.shape(), ", k is ", k.shape(), " in ", kv_heads, " heads of ", features,
                " features: the last axis of v must be a multiple of ", kv_heads);
  const auto split = [](const Tensor& x, std::int64_t heads) {
    return reshape(x, Shape{x.size(0), x.size(1), heads, x.size(2) / heads});
  };
  const Tensor q4 = split(q, num_heads), k4 = split(k, kv_heads), v4 = split(v, kv_heads);
  const AttentionCall call = detail::check_attention(op, q4, k4, v4, Heads::last, options);
  AttentionResult r = attend(q4, k4, v4, Heads::last, call, weights);
  const Shape& s = r.output.shape();
  return {reshape(r.output, Shape{s[0], s[1], s[2] * s[3]}), r.weights};
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  return heads_first(q, k, v, options, false).output;
}

AttentionResult scaled_dot_product_attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                                          const AttentionOptions& options) {
  return heads_first(q, k, v, options, true);
}

Tensor multi_head_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t num_heads,
                            const AttentionOptions& options) {
  return heads_last(q, k, v, num_heads, options, false).output;
}

AttentionResult multi_head_attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                                  std::int64_t num_heads, const AttentionOptions& options) {
  return heads_last(q, k, v, num_heads, options, true);
}

}  // namespace fit
