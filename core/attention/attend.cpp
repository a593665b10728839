#include "attention/attend.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "attention/plan.hpp"
#include "attention/score_lowering.hpp"
#include "fit/batch_invariant.hpp"
#include "fit/named_values.hpp"
#include "fit/ops.hpp"
#include "kernels/copy.hpp"
#include "ops/composed.hpp"
#include "ops/flop_counter.hpp"
#include "ops/precision.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace detail {
namespace {

// wanted: the tables that get gradients. Empty: none.
template <class W>
std::optional<LoweredScore<W>> lower_score(const std::optional<Expression>& e, std::vector<bool> wanted = {}) {
  if (!e) return {};
  wanted.resize(e->tables.size());
  return std::get<decltype(lowered_score<W>)*>(e->methods->lower)(*e, wanted);
}

// The call in the form of the kernels.
template <class T>
kernels::Attention<T> lower(const kernels::Attention<>& a, const std::array<Heads, 3>& operands, const Terms& terms,
                            const TilePlan& plan, const std::optional<LoweredScore<AccT<T>>>& score) {
  using W = AccT<T>;
  const auto data = [](const Tensor& x) { return static_cast<const W*>(x.defined() ? x.raw() : nullptr); };
  kernels::Attention<T> call;
  static_cast<kernels::Attention<>&>(call) = a;
  call.q = view<T>(operands[0]), call.k = view<T>(operands[1]), call.v = view<T>(operands[2]);
  call.table = plan.table();
  call.bias = view_scores(data(terms.bias), terms.bias);
  call.alibi = data(terms.alibi), call.sink = data(terms.sink);
  if (score) call.score = score->program();
  return call;
}

// stats [2, B, H, Sq]: both numbers of each row, in one tensor.
template <class T>
kernels::SoftmaxStats<T> stats_in(const kernels::Attention<>& a, T* data) {
  return {data, data + a.B * a.H * a.Sq};
}

// m - log(inv_l) of each row; -inf in a fully masked one. weights: the shape of the weights.
template <class W>
Tensor lse_of(const kernels::SoftmaxStats<W>& stats, const Shape& weights) {
  Tensor lse = Tensor::empty(weights.erased(weights.rank() - 1), dtype_of<W>());
  W* const to = lse.fresh<W>();
  for (std::int64_t i = 0; i < lse.numel(); ++i)
    to[i] = stats.inv_l[i] == 0 ? -std::numeric_limits<W>::infinity() : stats.m[i] - std::log(stats.inv_l[i]);
  return lse;
}

// Writes keys or values, heads last, behind the first `length` positions of the cache, in the type of the cache.
void append(const Heads& from, Tensor& cache, std::int64_t length) {
  const Tensor x = from.x.to(cache.dtype());
  const std::int64_t S = x.size(1), F = x.size(2), Tmax = cache.size(2), D = from.features, size = size_of(x.dtype());
  kernels::copy({x.size(0), from.heads, S, D}, size, cache.fresh<char>() + length * D * size,
                {from.heads * Tmax * D, Tmax * D, D, 1}, static_cast<const char*>(x.raw()) + from.offset * size,
                {S * F, D, F, 1});
}

// The heads of the output y.
Heads contexts(const Heads& q, const kernels::Attention<>& a, const Tensor& y) {
  return {y, q.layout == HeadLayout::first ? HeadLayout::first : HeadLayout::last, a.H, a.Dv, 0};
}

// The first operand that is a part of the same tensor as operand i. Parts of one tensor share an input of the node.
std::size_t input_of(const std::array<const Heads*, 3>& operands, std::size_t i) {
  const auto is_part = [&](std::size_t j) { return operands[j]->layout == HeadLayout::part; };
  for (std::size_t j = 0; j < i; ++j)
    if (is_part(i) && is_part(j) && operands[i]->x.impl() == operands[j]->x.impl()) return j;
  return i;
}

// The adjoint of a call. The node has
//   inputs: the tensors of q, k and v (undefined where input_of() names another one), the bias and the sink (which may
//     be undefined), the tables of the function of scores;
//   outputs: that of attention, and then the weights and lse, if the options ask for them;
//   saved values: stats, alibi, the plan of tiles, the code of the function of scores.
struct Adjoint {
  struct Place {
    std::size_t input;
    HeadLayout layout;
    std::int64_t offset;
  };
  static constexpr int bias = 3, sink = 4, tables = 5;

  kernels::Attention<> a;
  Place places[3];
  bool weights;  // whether they are an output
  bool lse;      // whether it is an output
  bool check;    // see kernels::AttentionBackward
  const ExpressionMethods* score_methods;

  // q, k and v, as parts of the inputs x; or their gradients, as parts of the gradients x.
  std::array<Heads, 3> heads(const Tensor* x) const {
    const auto at = [&](const Place& p, std::int64_t heads, std::int64_t features) {
      return Heads{x[p.input], p.layout, heads, features, p.offset};
    };
    return {at(places[0], a.H, a.D), at(places[1], a.kv_heads, a.D), at(places[2], a.kv_heads, a.Dv)};
  }
  static TilePlan plan(Backward& b) { return {b.saved(2), b.saved(3)}; }
  // The terms without masks, from the inputs x, the tables of the score, and the saved values.
  Terms terms(Backward& b, const Tensor* x, std::vector<Tensor> its_tables) const {
    Terms t{{}, x[bias], b.saved(1), x[sink], {}, {}};
    if (b.has_saved(4)) t.score.emplace(*score_methods, b.saved(4), std::move(its_tables), a.Sk - a.Sq);
    return t;
  }

  void operator()(Backward& b) const {
    if (b.recording() || (weights && b.has_dy(1)))
      by_operations(b);
    else
      in_tiles(b);
  }

  // The decomposition can be differentiated again, and has the gradient of the weights.
  void by_operations(Backward& b) const {
    give_by_decomposition(b, [&](const std::vector<Tensor>& x) -> std::vector<Tensor> {
      const auto [q, k, v] = heads(x.data());
      Terms t = terms(b, x.data(), {x.begin() + tables, x.end()});
      t.mask = plan(b).mask(a.Sq, a.Sk);
      return outputs(decomposed_attention(q, k, v, a, t));
    });
  }

  // The outputs of the node.
  std::vector<Tensor> outputs(const AttentionResult& r) const {
    std::vector<Tensor> all{r.output};
    if (weights) all.push_back(r.weights);
    if (lse) all.push_back(r.lse);
    return all;
  }

  void in_tiles(Backward& b) const {
    const Tensor x[tables] = {b.x(0), b.x(1), b.x(2), b.x(bias), b.x(sink)};
    std::vector<Tensor> its_tables;
    std::vector<bool> wanted;  // of the tables
    for (int i = tables; i < b.inputs(); ++i) its_tables.push_back(b.x(i)), wanted.push_back(b.wants(i));
    const Terms t = terms(b, x, std::move(its_tables));
    Tensor dx[tables];
    const std::array<Heads, 3> operands = heads(x);
    for (std::size_t i = 0; i < 3; ++i) {
      if (!x[i].defined()) continue;
      std::int64_t covered = 0;
      for (std::size_t j = 0; j < 3; ++j)
        if (places[j].input == i) covered += operands[j].heads * operands[j].features;
      const bool whole = places[i].layout != HeadLayout::part || covered == x[i].size(-1);
      dx[i] = whole ? Tensor::empty(x[i].shape(), x[i].dtype()) : zeros(x[i].shape(), x[i].dtype());
    }
    if (b.wants(bias)) dx[bias] = Tensor::empty(x[bias].shape(), x[bias].dtype());
    if (b.wants(sink)) dx[sink] = Tensor::empty(x[sink].shape(), x[sink].dtype());
    const int lse_at = weights ? 2 : 1;
    const Tensor stats = b.saved(0), dout = b.dy(0), dlse = lse && b.has_dy(lse_at) ? b.dy(lse_at) : Tensor();
    const Heads out = contexts(operands[0], a, b.y(0));
    dispatch_floating(out.x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      using W = AccT<T>;
      std::array<Heads, 3> d = heads(dx);  // destroyed before dx is given: give() copies a gradient that is shared
      const auto gradient = [](Heads& h) { return view(h, h.x.fresh<T>()); };
      kernels::AttentionGradients<T> to{gradient(d[0]), gradient(d[1]), gradient(d[2]), {}};
      if (b.wants(bias)) to.dbias = view_scores(dx[bias].fresh<W>(), dx[bias]);
      if (b.wants(sink)) to.dsink = dx[sink].fresh<W>();
      const auto lowered = lower_score<W>(t.score, wanted);
      Tensor dtables;
      if (lowered) {
        dtables = Tensor::empty({lowered->program()->gradients}, dtype_of<W>());
        to.dtables = dtables.fresh<W>();
      }
      const kernels::Attention<T> call = lower<T>(a, operands, t, plan(b), lowered);
      kernels::attention_backward<T>({call, view<T>(out), stats_in(a, stats.data<W>().data()),
                                      view<T>(contexts(operands[0], a, dout)), to, check,
                                      dlse.defined() ? dlse.data<W>().data() : nullptr});
      for (int i = tables; i < b.inputs(); ++i) {
        const std::size_t table = static_cast<std::size_t>(i - tables);
        const std::int64_t first = wanted[table] ? lowered->gradient(table) : -1;
        if (first >= 0) b.give(i, reshape(slice(dtables, 0, first, first + b.x(i).numel()), b.x(i).shape()));
      }
    });
    for (int i = 0; i < tables; ++i)
      if (dx[i].defined()) b.give(i, std::move(dx[i]));
  }
};

}  // namespace

Shape output_shape(const Heads& q, const kernels::Attention<>& a) {
  return q.layout == HeadLayout::first ? q.x.shape().with(q.x.rank() - 1, a.Dv) : Shape{a.B, a.Sq, a.H * a.Dv};
}

Shape weights_shape(const Heads& q, const kernels::Attention<>& a) {
  return q.layout == HeadLayout::first ? q.x.shape().with(q.x.rank() - 1, a.Sk) : Shape{a.B, a.H, a.Sq, a.Sk};
}

AttentionResult attend(const char* op, const Heads& given_q, const Heads& given_k, const Heads& given_v,
                       const AttentionOptions& options) {
  const AttentionCache* const cache = options.cache();
  const Scoped recording(thread_state.recording, thread_state.recording && !cache);
  std::array<Heads, 3> operands{given_q, given_k, given_v};
  Heads &q = operands[0], &k = operands[1], &v = operands[2];
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t input = input_of({&given_q, &given_k, &given_v}, i);
    Tensor& x = operands[i].x;
    if (input < i)
      x = operands[input].x;
    else if (x.defined() && x.dtype() == float32)
      x = x.to(autocast_dtype());
  }

  Adjoint adjoint{{}, {}, options.weights(), options.lse(), false, nullptr};
  kernels::Attention<>& a = adjoint.a;
  a = check_operands(op, q, k, v, cache);
  a.batch_invariant = batch_invariant();
  if (thread_state.observed) q = observed_heads("q", q), k = observed_heads("k", k), v = observed_heads("v", v);
  Tensor inputs[3];
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t input = input_of({&q, &k, &v}, i);
    adjoint.places[i] = {input, operands[i].layout, operands[i].offset};
    if (input == i) inputs[i] = operands[i].x;
  }
  const DType dtype = cache ? cache->keys.dtype() : q.x.dtype(), result = q.x.dtype();
  const DType wide = acc_dtype(dtype);  // the type of scores
  const Terms terms = check_options(op, a, wide, options);
  if (cache) q.x = q.x.to(dtype);
  const auto offered = [&](Tensor y) { return thread_state.observed ? observed_heads("z", contexts(q, a, y)).x : y; };
  Tensor output = Tensor::empty(output_shape(q, a), dtype), weights, lse;
  if (cache) {
    cache->keys.before_write(op);
    cache->values.before_write(op);
    append(k, cache->keys, cache->length);
    append(v, cache->values, cache->length);
    k = {cache->keys, HeadLayout::first, a.kv_heads, a.D, 0};
    v = {cache->values, HeadLayout::first, a.kv_heads, a.Dv, 0};
  }
  for (const std::int64_t size : {a.B, a.H, a.Sq, a.Sk, a.D, a.Dv})
    if (size == 0) {
      const AttentionResult r = decomposed_attention(q, k, v, a, terms);
      return {r.output.to(result), r.weights, r.lse};
    }
  if (thread_state.observed) notify_flops(2 * a.B * a.H * a.pairs() * (a.D + a.Dv));

  const TilePlan plan = plan_tiles(visibility(terms.mask, a.causal, a.window, a.Sq, a.Sk), a.B, a.H, terms.attends);
  std::optional<AttentionInfo> info;  // for observers
  if (thread_state.observed && attention_observed()) {
    const Tensor mask = terms.attends ? plan.mask(a.Sq, a.Sk) : terms.mask;
    info = {a.B, a.H, a.Sq, a.Sk, mask, a.causal, a.window, innermost_call()};
  }
  Tensor stats = Tensor::empty({2, a.B, a.H, a.Sq}, wide);
  if (info && edits_attention(*info)) {
    const AttentionResult edited = decomposed_attention(q, k, v, a, terms, &*info);
    return {offered(edited.output.to(result)), edited.weights, edited.lse};
  }
  if (fit::value_wanted("scores")) observed("scores", attention_scores(q, k, a, terms));
  dispatch_floating(dtype, [&](auto zero) {
    using T = decltype(zero);
    using W = AccT<T>;
    const auto lowered = lower_score<W>(terms.score);
    const kernels::Attention<T> call = lower<T>(a, operands, terms, plan, lowered);
    const kernels::SoftmaxStats<W> rows = stats_in(a, stats.fresh<W>());
    adjoint.check = !kernels::attention_forward<T>(call, view(contexts(q, a, output), output.fresh<T>()), rows);
    const auto weights_from = [call, rows](std::int64_t first, std::int64_t count) {
      Tensor w = Tensor::empty({count, call.H, call.Sq, call.Sk}, dtype_of<W>());
      kernels::attention_weights<T>(call, {rows.m, rows.inv_l}, {first, first + count}, w.fresh<W>());
      return w;
    };
    if (options.lse()) lse = lse_of(rows, weights_shape(q, a));
    if (options.weights()) weights = weights_from(0, a.B).alias(weights_shape(q, a));
    if (info) notify_attention(*info, weights_from);
  });
  if (options.weights() && dtype == bfloat16 && autocast_dtype() != bfloat16) {
    const NoGrad no_grad;
    weights = to_bfloat16(weights);
  }
  if (cache) return {offered(output.to(result)), weights, lse};
  const Tensor code = terms.score ? terms.score->code() : Tensor();
  adjoint.score_methods = terms.score ? terms.score->methods : nullptr;
  const Keep kept = keep::inputs | keep::output | keep::saved(stats, terms.alibi, plan.tiles, plan.bits, code);
  const std::initializer_list<Inputs::Ref> operands_and_terms{inputs[0], inputs[1], inputs[2], terms.bias, terms.sink};
  const std::vector<Tensor> no_tables;
  const Inputs all(operands_and_terms, terms.score ? terms.score->tables : no_tables);
  if (!options.weights() && !options.lse())
    return {offered(record("attention", all, std::move(output), kept, adjoint)), {}, {}};
  std::vector<Tensor> outputs = adjoint.outputs({output, weights, lse});
  record("attention", all, outputs, kept, adjoint);
  return {offered(output), weights, lse};
}

}  // namespace detail

// ---- the public functions ----------------------------------------------------------------------------------------

namespace {

// Hkv of the keys [B, Hkv, Tmax, D]; 0 for another shape.
std::int64_t heads_of(const AttentionCache& cache) {
  return cache.keys.defined() && cache.keys.rank() == 4 ? cache.keys.size(1) : 0;
}

}  // namespace

AttentionResult attend(const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& options) {
  return detail::attend("attend", q, k, v, options);
}

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  return detail::attend("scaled_dot_product_attention", heads_first(q), heads_first(k), heads_first(v), options).output;
}

AttentionResult scaled_dot_product_attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                                          const AttentionOptions& options) {
  return detail::attend("scaled_dot_product_attention", heads_first(q), heads_first(k), heads_first(v),
                        AttentionOptions(options).weights(true));
}

Tensor multi_head_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t num_heads,
                            const AttentionOptions& options) {
  return detail::attend("multi_head_attention", heads_last(q, num_heads), heads_last(k), heads_last(v), options).output;
}

AttentionResult multi_head_attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                                  std::int64_t num_heads, const AttentionOptions& options) {
  return detail::attend("multi_head_attention", heads_last(q, num_heads), heads_last(k), heads_last(v),
                        AttentionOptions(options).weights(true));
}

Tensor packed_self_attention(const Tensor& qkv, std::int64_t num_heads, const AttentionOptions& options,
                             std::int64_t num_kv_heads) {
  const auto [q, k, v] = packed_heads(qkv, num_heads, num_kv_heads);
  return detail::attend("packed_self_attention", q, k, v, options).output;
}

Tensor cached_attention(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& keys, Tensor& values,
                        std::int64_t length, std::int64_t num_heads, const AttentionOptions& options) {
  const AttentionCache cache{keys, values, length};
  const std::int64_t kv_heads = heads_of(cache);
  return detail::attend("cached_attention", heads_last(q, num_heads), heads_last(k, kv_heads), heads_last(v, kv_heads),
                        AttentionOptions(options).cache(&cache))
      .output;
}

Tensor cached_self_attention(const Tensor& qkv, Tensor& keys, Tensor& values, std::int64_t length,
                             std::int64_t num_heads, const AttentionOptions& options) {
  const AttentionCache cache{keys, values, length};
  const auto [q, k, v] = packed_heads(qkv, num_heads, heads_of(cache));
  return detail::attend("cached_self_attention", q, k, v, AttentionOptions(options).cache(&cache)).output;
}

}  // namespace fit
