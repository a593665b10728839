// Attention in tiles: the fast form of composed_attention(), for what it can serve.
#include "dispatch.hpp"
#include "fit/ops.hpp"
#include "kernels/attention.hpp"
#include "ops/attention.hpp"

namespace fit::detail {
namespace {

template <class T>
kernels::Heads<T> lay_out(T* data, const Shape& s, Heads heads) {
  return heads == Heads::first ? kernels::Heads<T>{data, s[1] * s[2] * s[3], s[2] * s[3], s[3]}
                               : kernels::Heads<T>{data, s[1] * s[2] * s[3], s[3], s[2] * s[3]};
}

// (B|1, H|1, 1|Sq, Sk) with strides of 0 where it broadcasts.
template <class T>
kernels::Heads<const T> over_scores(const Tensor& x) {
  if (!x.defined()) return {};
  const Shape& s = x.shape();
  return {static_cast<const T*>(x.raw()), s[0] == 1 ? 0 : s[1] * s[2] * s[3], s[1] == 1 ? 0 : s[2] * s[3],
          s[2] == 1 ? 0 : s[3]};
}

template <class T>
kernels::Attention<T> arguments(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                                const Tensor& bias, const FusedAttention& f) {
  const int sequence = f.heads == Heads::first ? 2 : 1, head = 3 - sequence;
  kernels::Attention<T> a;
  a.B = q.size(0), a.H = q.size(head), a.kv_heads = k.size(head);
  a.Sq = q.size(sequence), a.Sk = k.size(sequence);
  a.D = q.size(3), a.Dv = v.size(3);
  a.scale = static_cast<T>(f.scale);
  a.causal = f.causal;
  a.q = lay_out(static_cast<const T*>(q.raw()), q.shape(), f.heads);
  a.k = lay_out(static_cast<const T*>(k.raw()), k.shape(), f.heads);
  a.v = lay_out(static_cast<const T*>(v.raw()), v.shape(), f.heads);
  a.mask = over_scores<bool>(mask);
  a.bias = over_scores<T>(bias);
  a.dropout = f.dropout;
  a.key = {f.seed, f.number};
  return a;
}

// A tensor that computes no further back than to x: what a derivative by x is taken of, within another one.
Tensor stand_in(const Tensor& x) {
  return record("identity", {x}, x.alias(x.shape()), keep::nothing, [](Backward& b) { b.give(0, b.dy()); });
}

// The gradient by way of the composed form: it can be differentiated again, and knows the gradient of the weights.
void give_composed(Backward& b, const FusedAttention& f) {
  const bool again = b.recording();
  const GradMode record_composed(true);
  std::vector<Tensor> inputs;
  for (int i = 0; i < 3; ++i) {
    Tensor x = again ? stand_in(b.x(i)) : b.x(i).detach();
    if (!x.requires_grad()) x.requires_grad_();
    inputs.push_back(std::move(x));
  }
  const AttentionCall call{b.saved(1), b.saved(2), f.causal, f.scale, f.dropout, f.seed, f.number};
  const AttentionResult r = composed_attention(inputs[0], inputs[1], inputs[2], f.heads, call);
  std::vector<Tensor> outputs, seeds;
  for (int i = 0; i < (f.weights ? 2 : 1); ++i)
    if (b.has_dy(i)) {
      outputs.push_back(i == 0 ? r.output : r.weights);
      seeds.push_back(b.dy(i));
    }
  const std::vector<Tensor> d = grad(outputs, inputs, seeds, again, again, true);
  const GradMode as_before(again);
  for (int i = 0; i < 3; ++i)
    if (d[static_cast<std::size_t>(i)].defined()) b.give(i, d[static_cast<std::size_t>(i)]);
}

void give_fused(Backward& b, const FusedAttention& f) {
  const Tensor q = b.x(0), k = b.x(1), v = b.x(2), out = b.y(0), lse = b.saved(0), dout = b.dy(0);
  Tensor dq = Tensor::empty(q.shape(), q.dtype()), dk = Tensor::empty(k.shape(), k.dtype()),
         dv = Tensor::empty(v.shape(), v.dtype());
  dispatch_floating(q.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto at = [&](const Tensor& x) { return lay_out(static_cast<const T*>(x.raw()), x.shape(), f.heads); };
    const auto to = [&](Tensor& x) { return lay_out(x.fresh<T>(), x.shape(), f.heads); };
    kernels::attention_backward<T>(arguments<T>(q, k, v, b.saved(1), b.saved(2), f), at(out), lse.data<T>().data(),
                                   at(dout), to(dq), to(dk), to(dv));
  });
  b.give(0, std::move(dq));
  b.give(1, std::move(dk));
  b.give(2, std::move(dv));
}

}  // namespace

std::optional<AttentionResult> fused_attention(const Tensor& q, const Tensor& k, const Tensor& v, Heads heads,
                                               const AttentionCall& call, bool weights) {
  if (call.bias.defined() && call.bias.requires_grad()) return std::nullopt;  // its gradient is the scores', in full
  const FusedAttention f{heads, call.causal, weights, call.scale, call.dropout, call.seed, call.number};
  const int sequence = heads == Heads::first ? 2 : 1;
  const Shape& s = q.shape();
  const std::int64_t count = s[3 - sequence], queries = s[sequence], keys = k.size(sequence);
  std::vector<Tensor> results{Tensor::empty(s.with(3, v.size(3)), q.dtype())};
  if (weights) results.push_back(Tensor::empty({s[0], count, queries, keys}, q.dtype()));
  Tensor lse = Tensor::empty({s[0], count, queries}, q.dtype());
  bool served = false;
  dispatch_floating(q.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const kernels::Attention<T> a = arguments<T>(q, k, v, call.mask, call.bias, f);
    served =
        kernels::attention_forward<T>(a, lay_out(results[0].fresh<T>(), results[0].shape(), heads), lse.fresh<T>());
    if (served && weights) kernels::attention_weights<T>(a, lse.fresh<T>(), results[1].fresh<T>());
  });
  if (!served) return std::nullopt;
  record("attention", {q, k, v}, results, keep::inputs | keep::output | keep::saved(lse, call.mask, call.bias),
         [f](Backward& b) {
           if (b.recording() || (f.weights && b.has_dy(1)))
             give_composed(b, f);
           else
             give_fused(b, f);
         });
  return AttentionResult{results[0], weights ? results[1] : Tensor()};
}

}  // namespace fit::detail
