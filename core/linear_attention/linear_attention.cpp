#include "fit/attention/linear_attention.hpp"

#include <cmath>

#include "fit/ops/ops.hpp"
#include "linear_attention/kernel/kernel.hpp"
#include "ops/common/composed.hpp"
#include "ops/common/precision.hpp"
#include "ops/linalg/flop_counter.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

constexpr const char* op = "linear_attention";

// The inputs of the node. Optional ones may be undefined.
enum Input : std::size_t { Q, K, V, decay, beta, initial_state, count };
using Operands = std::vector<Tensor>;

// ---- the definition, step by step, for higher derivatives ----------------------------------------------------------

std::vector<Tensor> decomposed(const Operands& in, double scale) {
  const auto column = [](const Tensor& x) { return unsqueeze(x, -1); };
  const auto steps = [](const Tensor& x) { return x.defined() ? unbind(x, 2) : std::vector<Tensor>(); };
  const std::vector<Tensor> q = steps(in[Q]), k = steps(in[K]), v = steps(in[V]), log_a = steps(in[decay]),
                            rate = steps(in[beta]);
  Tensor S = in[initial_state];  // [B, H, D, Dv]
  if (!S.defined()) S = zeros({in[Q].size(0), in[Q].size(1), in[Q].size(3), in[V].size(3)}, in[Q].dtype());
  std::vector<Tensor> outputs;
  for (std::size_t t = 0; t < q.size(); ++t) {
    if (in[decay].defined()) {
      const Tensor a = exp(log_a[t]);  // [B, H] or [B, H, D]
      S = S * column(a.rank() == 2 ? column(a) : a);
    }
    Tensor u = v[t];
    if (in[beta].defined()) u = column(rate[t]) * (u - sum(S * column(k[t]), {-2}));
    S = S + column(k[t]) * unsqueeze(u, -2);
    outputs.push_back(sum(S * column(q[t]), {-2}) * scale);
  }
  return {outputs.empty() ? in[V] * 1 : stack(outputs, 2), outputs.empty() ? S * 1 : S};
}

// ---- fused ---------------------------------------------------------------------------------------------------------

template <class T>
kernels::LinearAttention<T> lower(const Operands& in, double scale) {
  const auto data = [](const Tensor& x) { return x.defined() ? x.data<T>().data() : nullptr; };
  kernels::LinearAttention<T> a;
  a.heads = in[Q].size(0) * in[Q].size(1);
  a.steps = in[Q].size(2), a.D = in[Q].size(3), a.Dv = in[V].size(3);
  a.scale = static_cast<T>(scale);
  a.q = data(in[Q]), a.k = data(in[K]), a.v = data(in[V]);
  a.decay = data(in[decay]), a.by_feature = in[decay].defined() && in[decay].rank() == 4;
  a.beta = data(in[beta]), a.initial = data(in[initial_state]);
  return a;
}

// Inputs: Operands. Saved: the states before each chunk, and the errors of the delta rule.
template <class T>
void give_fused(Backward& b, double scale) {
  Operands in;
  for (std::size_t i = 0; i < Input::count; ++i) in.push_back(b.x(static_cast<int>(i)));
  const auto gradient_of = [&](std::size_t i) {
    return in[i].defined() ? Tensor::empty(in[i].shape(), in[i].dtype()) : Tensor();
  };
  const auto a = lower<T>(in, scale);
  const Shape state{in[Q].size(0), in[Q].size(1), a.D, a.Dv};
  Operands d;
  for (std::size_t i = 0; i < Input::count; ++i) d.push_back(gradient_of(i));
  d[initial_state] = Tensor::empty(state, in[Q].dtype());
  const auto out = [](Tensor& x) { return x.defined() ? x.fresh<T>() : nullptr; };
  const Tensor states = b.saved(0), errors = b.saved(1), dstate = b.has_dy(1) ? b.dy(1) : Tensor();
  const Tensor dout = b.has_dy(0) ? b.dy(0) : zeros(in[V].shape(), in[V].dtype());
  kernels::linear_attention_backward<T>(
      a, {states.data<T>().data(), errors.defined() ? errors.data<T>().data() : nullptr}, dout.data<T>().data(),
      dstate.defined() ? dstate.data<T>().data() : nullptr,
      {out(d[Q]), out(d[K]), out(d[V]), out(d[decay]), out(d[beta]), out(d[initial_state])});
  for (std::size_t i = 0; i < Input::count; ++i)
    if (in[i].defined()) b.give(static_cast<int>(i), std::move(d[i]));
}

LinearAttentionResult recurrence(const Operands& in, double scale) {
  const Tensor& q = in[Q];
  if (q.numel() == 0 || in[V].numel() == 0) {
    const std::vector<Tensor> y = decomposed(in, scale);
    return {y[0], y[1]};
  }
  const bool recorded = detail::wants_record(in);
  Tensor out = Tensor::empty(in[V].shape(), q.dtype()), states, errors;
  Tensor state = Tensor::empty({q.size(0), q.size(1), q.size(3), in[V].size(3)}, q.dtype());
  dispatch_compute_floating(q.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto a = lower<T>(in, scale);
    detail::count_product(a.D, a.Dv, a.heads * a.steps, in[beta].defined() ? 3 : 2);
    kernels::LinearKept<T> kept;
    if (recorded) {
      states = Tensor::empty({a.heads, a.chunks(), a.D, a.Dv}, q.dtype());
      kept.states = states.fresh<T>();
    }
    if (recorded && a.beta) {
      errors = Tensor::empty(in[V].shape(), q.dtype());
      kept.errors = errors.fresh<T>();
    }
    kernels::linear_attention_forward<T>(a, out.fresh<T>(), state.fresh<T>(), kept);
  });
  std::vector<Tensor> y{out, state};
  record(op, in, y, keep::inputs | keep::saved(states, errors), [scale](Backward& b) {
    if (b.recording())
      give_by_decomposition(b, [scale](const Operands& x) { return decomposed(x, scale); });
    else
      dispatch_compute_floating(b.x(0).dtype(), [&](auto zero) { give_fused<decltype(zero)>(b, scale); });
  });
  return {y[0], y[1]};
}

// ---- arguments -----------------------------------------------------------------------------------------------------

// (H), (B, H, T) or (B, H, T, D) as one of the last two.
Tensor check_decay(const Tensor& x, const Shape& q) {
  if (!x.defined()) return x;
  check::floating(op, "decay", x);
  const Shape by_step{q[0], q[1], q[2]};
  if (x.shape() == Shape{q[1]}) return broadcast_to(reshape(x, {1, q[1], 1}), by_step);
  if (x.shape() != by_step && x.shape() != q)
    check::fail(op, "decay is ", x.shape(), ", q (B, H, T, D) is ", q,
                ": decay must be (H), (B, H, T) or (B, H, T, D), for the D features after the feature map");
  return x;
}

}  // namespace

Tensor elu_plus_one(const Tensor& x) {
  check::floating("elu_plus_one", "x", x);
  return with_precision(Precision::rounded, {x}, [](const Tensor& x) { return exp(clamp_max(x, 0)) + relu(x); });
}

LinearAttentionResult linear_attention(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v,
                                       const LinearAttentionOptions& o) {
  Tensor q = given_q, k = given_k, v = given_v;
  check::floating(op, "q", q);
  check::same_dtype(op, "q", q, "k", k);
  check::same_dtype(op, "q", q, "v", v);
  const double scale =
      o.scale().value_or(1 / std::sqrt(static_cast<double>(q.rank() == 4 ? q.size(3) + !q.size(3) : 1)));
  const Autocast exact(float32);
  const DType type = q.dtype() == float64 ? float64 : float32;
  q = q.to(type), k = k.to(type), v = v.to(type);
  if (o.feature_map()) q = o.feature_map()(q), k = o.feature_map()(k);
  if (q.rank() != 4 || k.shape() != q.shape() || v.rank() != 4 || v.shape().with(3, 0) != q.shape().with(3, 0))
    check::fail(op, "q is ", q.shape(), ", k is ", k.shape(), ", v is ", v.shape(),
                ": q and k must be (B, H, T, D), v (B, H, T, Dv)", o.feature_map() ? ", after the feature map" : "");
  if (!std::isfinite(q.dtype() == float64 ? scale : static_cast<float>(scale)))
    check::fail(op, "scale is ", scale, ": it must be finite in ", q.dtype());
  if (o.normalize() && o.beta().defined())
    check::fail(op, "normalize is set, and beta is ", o.beta().shape(),
                ": the delta rule has no weights with a sum; leave out one of them");
  const Tensor log_factor = check_decay(o.decay(), q.shape());
  if (o.beta().defined()) {
    check::floating(op, "beta", o.beta());
    check::shape(op, "beta", o.beta(), {q.size(0), q.size(1), q.size(2)});
  }
  if (o.normalize()) v = cat({v, ones(v.shape().with(3, 1), v.dtype())}, -1);
  if (o.initial_state().defined()) {
    check::floating(op, "initial_state", o.initial_state());
    check::shape(op, "initial_state", o.initial_state(), {q.size(0), q.size(1), q.size(3), v.size(3)});
  }

  Operands in{q, k, v, log_factor, o.beta(), o.initial_state()};
  for (Tensor& x : in)
    if (x.defined()) x = x.to(type);
  auto [output, state] = recurrence(in, scale);
  if (o.normalize()) output = slice(output, -1, 0, v.size(3) - 1) / slice(output, -1, v.size(3) - 1, v.size(3));
  return {output.to(given_q.dtype()), state};
}

}  // namespace fit
