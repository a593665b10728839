#pragma once
#include <ostream>

#include "attention/attend.hpp"
#include "attention/kernel/reference.hpp"
#include "fit/ops/ops.hpp"

// The attention reference (attention/kernel/reference.hpp) for tensors, in double.
namespace fit::test {

struct AttentionSizes {
  std::int64_t B, H, Sq, Sk, D, Dv;
  friend std::ostream& operator<<(std::ostream& out, const AttentionSizes& s) {
    return out << "B " << s.B << " H " << s.H << " Sq " << s.Sq << " Sk " << s.Sk << " D " << s.D << " Dv " << s.Dv;
  }
};

struct AttentionReference {
  Tensor output, weights;           // float64
  Tensor dq, dk, dv, dbias, dsink;  // for the cotangents d_output and d_weights
};

/// q is (B, H, Sq, D), k and v are (B, kv_heads, Sk, D | Dv). `factor` is dropout's factor for each weight,
/// (B, H, Sq, Sk). Mask and bias may be undefined or broadcast. `weights`, if given, replace the softmax.
inline AttentionReference reference_attention(const AttentionSizes& n, const Tensor& q, const Tensor& k,
                                              const Tensor& v, const AttentionOptions& o, double scale,
                                              const Tensor& factor, const Tensor& d_output, const Tensor& d_weights,
                                              const Tensor& weights = {}) {
  const NoGrad no_grad;
  const auto exact = [](const Tensor& x) { return x.defined() ? x.to(float64) : Tensor(); };
  const auto four_axes = [](const Tensor& x) {
    if (!x.defined() || x.rank() == 4) return x;
    const Shape& s = x.shape();
    return reshape(x, s.rank() == 2 ? Shape{1, 1, s[0], s[1]} : Shape{s[0], 1, s[1], s[2]});
  };
  const auto heads = [](const Tensor& x) {
    return detail::view(Heads{x, HeadLayout::first, x.size(1), x.size(3)}, x.data<double>().data());
  };
  const auto edit_heads = [](Tensor& x) {
    return detail::view(Heads{x, HeadLayout::first, x.size(1), x.size(3)}, x.fresh<double>());
  };
  const Tensor q64 = exact(q), k64 = exact(k), v64 = exact(v), F = exact(factor), dO = exact(d_output),
               dW = exact(d_weights), slopes = exact(o.alibi()), sink = exact(o.sink()),
               bias = four_axes(exact(o.bias()));
  Tensor mask = o.mask().defined() ? four_axes(o.mask().to(boolean)) : Tensor();
  if (o.attends().defined()) mask = combine_masks(mask, to_tensor(o.attends(), n.B, n.H, n.Sq, n.Sk));

  kernels::Attention<double> a;
  a.B = n.B, a.H = n.H, a.kv_heads = k.size(1), a.Sq = n.Sq, a.Sk = n.Sk, a.D = n.D, a.Dv = n.Dv;
  a.scale = scale, a.causal = o.causal(), a.window = o.window();
  a.q = heads(q64), a.k = heads(k64), a.v = heads(v64);
  const detail::TilePlan plan = detail::plan_tiles("reference", a, n.B, n.H, mask);
  plan.apply(a);
  if (bias.defined()) a.bias = detail::view_scores(bias.data<double>().data(), bias);
  if (slopes.defined()) a.alibi = slopes.data<double>().data();
  if (sink.defined()) a.sink = sink.data<double>().data();

  AttentionReference r{zeros({n.B, n.H, n.Sq, n.Dv}, float64),
                       weights.defined() ? weights.to(float64).clone() : zeros({n.B, n.H, n.Sq, n.Sk}, float64),
                       zeros(q.shape(), float64),
                       zeros(k.shape(), float64),
                       zeros(v.shape(), float64),
                       bias.defined() ? zeros(bias.shape(), float64) : Tensor(),
                       sink.defined() ? zeros(sink.shape(), float64) : Tensor()};
  if (n.H == 0) return r;
  double* const P = r.weights.fresh<double>();
  if (!weights.defined()) kernels::reference::attention_weights(a, P);
  kernels::reference::attention_forward(a, P, F.data<double>().data(), edit_heads(r.output));
  kernels::AttentionGradients<double> to{edit_heads(r.dq), edit_heads(r.dk), edit_heads(r.dv), {}, nullptr};
  if (bias.defined()) to.dbias = detail::view_scores(r.dbias.fresh<double>(), r.dbias);
  if (sink.defined()) to.dsink = r.dsink.fresh<double>();
  kernels::reference::attention_backward(a, P, F.data<double>().data(), heads(dO), dW.data<double>().data(), to);
  if (bias.defined()) r.dbias = reshape(r.dbias, o.bias().shape());
  return r;
}

}  // namespace fit::test
