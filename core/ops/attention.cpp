#include "ops/attention.hpp"

#include "fit/ops.hpp"
#include "ops/attention_event.hpp"
#include "ops/composed.hpp"
#include "ops/flop_counter.hpp"
#include "ops/precision.hpp"
#include "tensor/check.hpp"
#include "tensor/convert.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace detail {
namespace {

template <class T>
kernels::HeadView<T> view_output(const AttentionCall& c, T* data) {
  return view_heads(data, c.layout != HeadLayout::first, c.H, c.Sq, c.Dv);
}

template <class T>
struct Operands {
  kernels::HeadView<T> q, k, v;
};

// data: one for each operand of the call.
template <class T>
Operands<T> view_operands(const AttentionCall& c, T* const (&data)[3]) {
  if (c.layout == HeadLayout::packed) {
    const Shape qkv{c.B, c.Sq, (c.H + c.kv_heads) * c.D + c.kv_heads * c.Dv};
    const std::int64_t k_at = c.H * c.D, v_at = k_at + c.kv_heads * c.D;
    return {view_part(data[0], qkv, 0, c.D), view_part(data[0], qkv, k_at, c.D), view_part(data[0], qkv, v_at, c.Dv)};
  }
  const bool last = c.layout == HeadLayout::last;
  return {view_heads(data[0], last, c.H, c.Sq, c.D), view_heads(data[1], last, c.kv_heads, c.Sk, c.D),
          view_heads(data[2], last, c.kv_heads, c.Sk, c.Dv)};
}

template <class T>
kernels::Attention<T> with_operands(const AttentionCall& c, const std::vector<Tensor>& operands,
                                    const ScoreTerms& terms) {
  const T* data[3] = {};
  for (int i = 0; i < c.operands(); ++i) data[i] = operands[static_cast<std::size_t>(i)].data<T>().data();
  const Operands<const T> x = view_operands(c, data);
  kernels::Attention<T> a = with_terms<T>(c, terms);
  a.q = x.q, a.k = x.k, a.v = x.v;
  return a;
}

// The two numbers of each row in one tensor, [2, B, H, Sq].
template <class T>
kernels::SoftmaxStats<T> stats_in(const AttentionCall& c, T* data) {
  return {data, data + c.B * c.H * c.Sq};
}

// The inputs of the node: the operands, and the bias, which may be undefined. Saved: stats, mask, alibi.
ScoreTerms terms_of(Backward& b, const AttentionCall& c) { return {b.saved(1), b.x(c.operands()), b.saved(2)}; }

// The gradient by way of the composed form: it can be differentiated again, and knows the gradient of the weights.
void give_untiled(Backward& b, const AttentionCall& c, bool weights) {
  give_composed(b, [&](std::vector<Tensor> x) -> std::vector<Tensor> {
    ScoreTerms terms = terms_of(b, c);
    terms.bias = x.back();
    x.pop_back();
    const AttentionResult r = composed_attention(c, x, terms);
    return {r.output, weights ? r.weights : Tensor()};
  });
}

// The gradient in tiles. check: see kernels::attention_backward.
void give_tiled(Backward& b, const AttentionCall& c, bool check) {
  const int count = c.operands();
  std::vector<Tensor> x, dx;
  for (int i = 0; i < count; ++i) x.push_back(b.x(i));
  for (const Tensor& t : x) dx.push_back(Tensor::empty(t.shape(), t.dtype()));
  const ScoreTerms terms = terms_of(b, c);
  if (b.wants(count)) dx.push_back(Tensor::empty(terms.bias.shape(), terms.bias.dtype()));
  const Tensor out = b.y(0), stats = b.saved(0), dout = b.dy(0);
  dispatch_floating(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = Wide<T>;
    T* data[3] = {};
    for (int i = 0; i < count; ++i) data[i] = dx[static_cast<std::size_t>(i)].fresh<T>();
    const Operands<T> d = view_operands(c, data);
    kernels::AttentionGradients<T> to{d.q, d.k, d.v, {}};
    if (b.wants(count)) to.dbias = view_over_scores(dx.back().fresh<W>(), terms.bias);
    kernels::attention_backward<T>(with_operands<T>(c, x, terms), view_output(c, out.data<T>().data()),
                                   stats_in(c, stats.data<W>().data()), view_output(c, dout.data<T>().data()), to,
                                   check);
  });
  for (std::size_t i = 0; i < dx.size(); ++i) b.give(static_cast<int>(i), std::move(dx[i]));
}

}  // namespace

AttentionResult attend(const char* op, AttentionCall c, const std::vector<Tensor>& operands,
                       const AttentionOptions& options, Want want) {
  const bool weights = want == Want::weights_too;
  const DType dtype = operands[0].dtype(), wide = is_narrow(operands[0]) ? float32 : dtype;  // wide: of the scores
  const ScoreTerms terms = apply_options(op, c, wide, options);
  for (const std::int64_t size : {c.B, c.H, c.Sq, c.Sk, c.D, c.Dv})
    if (size == 0) return composed_attention(c, operands, terms);
  count_attention(c);
  if (thread_state.observed)
    if (const AttentionEdits edits(c, terms.mask); edits.wanted())
      return composed_attention(c, operands, terms, &edits);

  std::vector<Tensor> results{Tensor::empty(c.output, dtype)};
  if (weights) results.push_back(Tensor::empty(c.weights, wide));
  Tensor stats = Tensor::empty({2, c.B, c.H, c.Sq}, wide);
  bool finite = true;
  dispatch_floating(dtype, [&](auto zero) {
    using T = decltype(zero);
    using W = Wide<T>;
    const kernels::Attention<T> a = with_operands<T>(c, operands, terms);
    const kernels::SoftmaxStats<W> rows = stats_in(c, stats.fresh<W>());
    finite = kernels::attention_forward<T>(a, view_output(c, results[0].fresh<T>()), rows);
    if (weights) kernels::attention_weights<T>(a, {rows.m, rows.inv_l}, results[1].fresh<W>());
    if (thread_state.observed) tell_attention<T>(a, {rows.m, rows.inv_l}, terms.mask);
  });
  if (weights && dtype == bfloat16) {
    const NoGrad no_grad;
    results[1] = narrowed(results[1]);
  }
  std::vector<Tensor> inputs = operands;
  inputs.push_back(terms.bias);
  record("attention", inputs, results, keep::inputs | keep::output | keep::saved(stats, terms.mask, terms.alibi),
         [c, weights, check = !finite](Backward& b) {
           if (b.recording() || (weights && b.has_dy(1)))
             give_untiled(b, c, weights);
           else
             give_tiled(b, c, check);
         });
  return {results[0], weights ? results[1] : Tensor()};
}

}  // namespace detail

namespace {
constexpr const char* dot_product = "scaled_dot_product_attention";
constexpr const char* multi_head = "multi_head_attention";
constexpr const char* packed = "packed_self_attention";

AttentionResult separate(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v,
                         const AttentionOptions& options, detail::Want want) {
  const Tensor q = detail::attention_operand(given_q), k = detail::attention_operand(given_k),
               v = detail::attention_operand(given_v);
  return detail::attend(dot_product, detail::separate_heads(dot_product, q, k, v), {q, k, v}, options, want);
}

AttentionResult joined(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v, std::int64_t num_heads,
                       const AttentionOptions& options, detail::Want want) {
  const Tensor q = detail::attention_operand(given_q), k = detail::attention_operand(given_k),
               v = detail::attention_operand(given_v);
  return detail::attend(multi_head, detail::joined_heads(multi_head, q, k, v, num_heads), {q, k, v}, options, want);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  return separate(q, k, v, options, detail::Want::output).output;
}

AttentionResult scaled_dot_product_attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                                          const AttentionOptions& options) {
  return separate(q, k, v, options, detail::Want::weights_too);
}

Tensor multi_head_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t num_heads,
                            const AttentionOptions& options) {
  return joined(q, k, v, num_heads, options, detail::Want::output).output;
}

AttentionResult multi_head_attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                                  std::int64_t num_heads, const AttentionOptions& options) {
  return joined(q, k, v, num_heads, options, detail::Want::weights_too);
}

Tensor packed_self_attention(const Tensor& given, std::int64_t num_heads, const AttentionOptions& options,
                             std::int64_t num_kv_heads) {
  const Tensor qkv = detail::attention_operand(given);
  return detail::attend(packed, detail::packed_heads(packed, qkv, num_heads, num_kv_heads), {qkv}, options,
                        detail::Want::output)
      .output;
}

}  // namespace fit
