// Attention in tiles: the fast form of composed_attention(), for what it can serve.
#include "fit/ops.hpp"
#include "ops/attention.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace detail {
namespace {

// [B, H, S, D], [B, S, H, D], or one tensor [B, S, (H + 2 Hkv) D] with queries, keys and values side by side.
enum class Layout { first, last, packed };

// A call in plain values, for an adjoint to hold.
struct Fused {
  Layout layout;
  std::int64_t B, H, kv_heads, Sq, Sk, D, Dv;
  bool causal, weights;
  std::int64_t window;
  double scale, dropout;
  std::uint64_t seed, number;

  int tensors() const { return layout == Layout::packed ? 1 : 3; }
  int bias() const { return tensors(); }  // the input after these, which may be undefined
};

template <class T>
kernels::Heads<T> lay_out(T* data, Layout layout, std::int64_t H, std::int64_t S, std::int64_t D) {
  return layout == Layout::first ? kernels::Heads<T>{data, H * S * D, S * D, D}
                                 : kernels::Heads<T>{data, S * H * D, D, H * D};
}

template <class T>
kernels::Heads<T> output_at(const Fused& f, T* data) {
  return lay_out(data, f.layout, f.H, f.Sq, f.Dv);
}

template <class T>
struct Operands {
  kernels::Heads<T> q, k, v;
};

template <class T>
Operands<T> operands_at(const Fused& f, T* const (&data)[3]) {
  if (f.layout != Layout::packed)
    return {lay_out(data[0], f.layout, f.H, f.Sq, f.D), lay_out(data[1], f.layout, f.kv_heads, f.Sk, f.D),
            lay_out(data[2], f.layout, f.kv_heads, f.Sk, f.Dv)};
  const std::int64_t row = (f.H + f.kv_heads) * f.D + f.kv_heads * f.Dv;
  T* const k = data[0] + f.H * f.D;
  T* const v = k + f.kv_heads * f.D;
  return {{data[0], f.Sq * row, f.D, row}, {k, f.Sk * row, f.D, row}, {v, f.Sk * row, f.Dv, row}};
}

template <class T>
kernels::Attention<T> arguments(const Fused& f, const Inputs& inputs, const Tensor& mask) {
  const T* data[3] = {};
  for (int i = 0; i < f.tensors(); ++i) data[i] = static_cast<const T*>(inputs[i].raw());
  const Operands<const T> x = operands_at(f, data);
  kernels::Attention<T> a;
  a.B = f.B, a.H = f.H, a.kv_heads = f.kv_heads, a.Sq = f.Sq, a.Sk = f.Sk, a.D = f.D, a.Dv = f.Dv;
  a.scale = static_cast<T>(f.scale);
  a.causal = f.causal;
  a.window = f.window;
  a.q = x.q, a.k = x.k, a.v = x.v;
  a.mask = over_scores<bool>(mask);
  a.bias = over_scores<T>(inputs[f.bias()]);
  a.dropout = f.dropout;
  a.key = {f.seed, f.number};
  return a;
}

AttentionResult composed(const Fused& f, const std::vector<Tensor>& x, const Tensor& mask) {
  const AttentionCall call{mask, x.back(), f.causal, f.window, f.scale, f.dropout, f.seed, f.number};
  if (f.layout != Layout::packed)
    return composed_attention(x[0], x[1], x[2], f.layout == Layout::first ? Heads::first : Heads::last, call);
  const auto part = [&](std::int64_t from, std::int64_t heads, std::int64_t features) {
    return reshape(slice(x[0], 2, from, from + heads * features), Shape{f.B, f.Sq, heads, features});
  };
  const std::int64_t keys_at = f.H * f.D, values_at = keys_at + f.kv_heads * f.D;
  AttentionResult r = composed_attention(part(0, f.H, f.D), part(keys_at, f.kv_heads, f.D),
                                         part(values_at, f.kv_heads, f.Dv), Heads::last, call);
  r.output = reshape(r.output, Shape{f.B, f.Sq, f.H * f.Dv});
  return r;
}

// A tensor that leads no further back than to x: what a derivative by x is taken of while another one is under way.
Tensor stand_in(const Tensor& x) {
  return record("identity", {x}, x.alias(x.shape()), keep::nothing, [](Backward& b) { b.give(0, b.dy()); });
}

// The gradient by way of the composed form: it can be differentiated again, and knows the gradient of the weights.
void give_composed(Backward& b, const Fused& f) {
  const bool again = b.recording();
  std::vector<int> wanted;
  std::vector<Tensor> x, inputs, outputs, seeds, gradients;
  {
    const EnableGrad on;
    for (int i = 0; i <= f.bias(); ++i) {
      x.push_back(b.x(i));
      if (!again && x.back().defined()) x.back() = x.back().detach();
      if (!b.wants(i)) continue;
      if (again)
        x.back() = stand_in(x.back());
      else
        x.back().requires_grad_();
      wanted.push_back(i);
      inputs.push_back(x.back());
    }
    const AttentionResult r = composed(f, x, b.saved(1));
    for (int i = 0; i < (f.weights ? 2 : 1); ++i) {
      const Tensor& y = i == 0 ? r.output : r.weights;
      if (!b.has_dy(i) || !y.requires_grad()) continue;  // weights don't depend on the values
      outputs.push_back(y);
      seeds.push_back(b.dy(i));
    }
    if (outputs.empty()) return;
    gradients = grad(outputs, inputs, seeds, again ? allow_unused | create_graph : allow_unused);
  }
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (gradients[i].defined()) b.give(wanted[i], std::move(gradients[i]));
}

// Whether the tiles could serve.
bool give_fused(Backward& b, const Fused& f) {
  std::vector<Tensor> x, dx;
  for (int i = 0; i <= f.bias(); ++i) {
    x.push_back(b.x(i));
    if (i < f.bias()) dx.push_back(Tensor::empty(x.back().shape(), x.back().dtype()));
  }
  const bool bias_too = b.wants(f.bias());
  if (bias_too) dx.push_back(zeros(x.back().shape(), x.back().dtype()));
  const Tensor out = b.y(0), lse = b.saved(0), dout = b.dy(0);
  bool served = false;
  dispatch_floating(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* data[3] = {};
    for (int i = 0; i < f.tensors(); ++i) data[i] = dx[static_cast<std::size_t>(i)].fresh<T>();
    const Operands<T> d = operands_at(f, data);
    kernels::AttentionGradients<T> to{d.q, d.k, d.v, {}};
    if (bias_too) to.dbias = over_scores(dx.back().fresh<T>(), dx.back());
    served =
        kernels::attention_backward<T>(arguments<T>(f, x, b.saved(1)), output_at(f, static_cast<const T*>(out.raw())),
                                       lse.data<T>().data(), output_at(f, static_cast<const T*>(dout.raw())), to);
  });
  for (std::size_t i = 0; i < dx.size() && served; ++i) b.give(static_cast<int>(i), std::move(dx[i]));
  return served;
}

// The output is of the shape given. Without a value where the composed form has to serve.
std::optional<AttentionResult> attend(const Fused& f, const Inputs& inputs, const Tensor& mask, const Shape& output) {
  const DType dtype = inputs[0].dtype();
  std::vector<Tensor> results{Tensor::empty(output, dtype)};
  if (f.weights) results.push_back(Tensor::empty({f.B, f.H, f.Sq, f.Sk}, dtype));
  Tensor lse = Tensor::empty({f.B, f.H, f.Sq}, dtype);
  bool served = false;
  dispatch_floating(dtype, [&](auto zero) {
    using T = decltype(zero);
    const kernels::Attention<T> a = arguments<T>(f, inputs, mask);
    served = kernels::attention_forward<T>(a, output_at(f, results[0].fresh<T>()), lse.fresh<T>());
    if (served && f.weights) kernels::attention_weights<T>(a, lse.fresh<T>(), results[1].fresh<T>());
  });
  if (!served) return std::nullopt;
  record("attention", inputs, results, keep::inputs | keep::output | keep::saved(lse, mask), [f](Backward& b) {
    const bool composed_only = b.recording() || (f.weights && b.has_dy(1));
    if (composed_only || !give_fused(b, f)) give_composed(b, f);
  });
  return AttentionResult{results[0], f.weights ? results[1] : Tensor()};
}

}  // namespace

std::optional<AttentionResult> fused_attention(const Tensor& q, const Tensor& k, const Tensor& v, Heads heads,
                                               const AttentionCall& call, bool weights) {
  const int sequence = heads == Heads::first ? 2 : 1, head = 3 - sequence;
  const Fused f{heads == Heads::first ? Layout::first : Layout::last,
                q.size(0),
                q.size(head),
                k.size(head),
                q.size(sequence),
                k.size(sequence),
                q.size(3),
                v.size(3),
                call.causal,
                weights,
                call.window,
                call.scale,
                call.dropout,
                call.seed,
                call.number};
  return attend(f, {q, k, v, call.bias}, call.mask, q.shape().with(3, v.size(3)));
}

}  // namespace detail

Tensor packed_self_attention(const Tensor& qkv, std::int64_t num_heads, const AttentionOptions& options,
                             std::int64_t num_kv_heads) {
  constexpr const char* op = "packed_self_attention";
  using namespace detail;
  check::floating(op, "qkv", qkv);
  if (num_kv_heads == 0) num_kv_heads = num_heads;
  if (qkv.rank() != 3 || num_heads < 1 || num_kv_heads < 1 || num_heads % num_kv_heads != 0 ||
      qkv.size(2) % (num_heads + 2 * num_kv_heads) != 0)
    check::fail(op, "qkv is ", qkv.shape(), ", num_heads ", num_heads, ", num_kv_heads ", num_kv_heads,
                ": qkv must be [B, S, (num_heads + 2 num_kv_heads) D], and num_kv_heads must divide num_heads");
  const std::int64_t B = qkv.size(0), S = qkv.size(1), D = qkv.size(2) / (num_heads + 2 * num_kv_heads);
  const AttentionCall call = check_call(op, Shape{B, num_heads, S, S}, D, qkv.dtype(), options);
  const Fused f{Layout::packed, B,           num_heads,  num_kv_heads, S,         S,          D, D, call.causal,
                false,          call.window, call.scale, call.dropout, call.seed, call.number};
  const Shape output{B, S, num_heads * D};
  if (const auto fused = attend(f, {qkv, call.bias}, call.mask, output)) return fused->output;
  return composed(f, {qkv, call.bias}, call.mask).output;
}

}  // namespace fit
