#pragma once
#include "attention/attend.hpp"
#include "fit/attention/attention.hpp"
#include "ops/elementwise/dropout.hpp"
#include "support/catch.hpp"
#include "support/oracles/attention_reference.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// Compares all forms of an attention call with the reference.
namespace fit::test {

/// The inputs and options of an attention call, and the cotangents of its outputs.
struct Problem {
  AttentionSizes n;
  DType dtype = float64;
  std::int64_t kv_heads;
  Tensor q, k, v;  // (B, H, Sq, D), (B, kv_heads, Sk, D | Dv)
  Tensor d_output, d_weights;
  AttentionOptions options;

  /// kv_heads_or_0 is the number of heads of k and v; 0 for that of q.
  Problem(const AttentionSizes& n, DType dtype, unsigned seed = 1, std::int64_t kv_heads_or_0 = 0)
      : n(n), dtype(dtype), kv_heads(kv_heads_or_0 == 0 ? n.H : kv_heads_or_0), random(seed) {
    q = draw({n.B, n.H, n.Sq, n.D});
    k = draw({n.B, kv_heads, n.Sk, n.D});
    v = draw({n.B, kv_heads, n.Sk, n.Dv});
    d_output = draw({n.B, n.H, n.Sq, n.Dv});
    d_weights = draw({n.B, n.H, n.Sq, n.Sk});
  }
  Tensor draw(const Shape& shape) { return random_tensor(shape, domain::real, random, dtype); }
  Tensor draw_mask(const Shape& shape) {
    std::vector<bool> values;
    for (std::int64_t i = 0; i < shape.numel(); ++i) values.push_back(random() % 3 != 0);
    return tensor(values, shape);
  }
  double scale() const {
    return options.scale().value_or(1 / (std::sqrt(static_cast<double>(n.D)) * options.temperature()));
  }

  std::mt19937_64 random;
};

struct Results {
  Tensor output, weights, dq, dk, dv, dbias, dsink;
};

// packed returns no weights. cached returns no weights and no gradients, and has no dropout.
enum class Form { heads_first, heads_last, decomposed, packed, cached };

inline Tensor merge(const Tensor& x) {  // (B, H, S, D) -> (B, S, H D)
  return reshape(permute(x, {0, 2, 1, 3}), Shape{x.size(0), x.size(2), x.size(1) * x.size(3)});
}
inline Tensor unmerge(const Tensor& x, std::int64_t heads) {
  return permute(reshape(x, Shape{x.size(0), x.size(1), heads, x.size(2) / heads}), {0, 2, 1, 3});
}

/// The decomposition of a call.
inline AttentionResult decomposed(const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& o) {
  constexpr const char* op = "decomposition";
  detail::AttentionCall call = detail::check_call(op, {q, k, v}, o);
  call.plan = detail::plan_tiles(op, call.a, call.a.B, call.a.H, o.mask(), call.attends);
  call.plan.apply(call.a);
  call.a.dropout = draw_dropout(o.dropout(), o.generator(), call.scores());
  return detail::decomposed_attention(call);
}

/// Outputs and gradients. Without ask_weights, the cotangent of the weights is not used.
inline Results run(const Problem& p, Form form, bool ask_weights) {
  Tensor q = p.q.clone().requires_grad_(), k = p.k.clone().requires_grad_(), v = p.v.clone().requires_grad_();
  AttentionOptions o = p.options;
  Generator generator(11);
  o.generator(&generator);
  if (o.bias().defined()) o.bias(o.bias().clone().requires_grad_());
  if (o.sink().defined()) o.sink(o.sink().clone().requires_grad_());
  AttentionResult r;
  if (form == Form::heads_first) {
    if (ask_weights)
      r = attend(q, k, v, AttentionOptions(o).weights());
    else
      r.output = scaled_dot_product_attention(q, k, v, o);
  } else if (form == Form::decomposed) {
    r = decomposed(heads_first(q), heads_first(k), heads_first(v), o);
  } else if (form == Form::packed) {
    r.output = unmerge(packed_self_attention(cat({merge(q), merge(k), merge(v)}, 2), p.n.H, o, p.kv_heads), p.n.H);
  } else {
    if (ask_weights)
      r = attend(heads_last(merge(q), p.n.H), heads_last(merge(k)), heads_last(merge(v)),
                 AttentionOptions(o).weights());
    else
      r.output = multi_head_attention(merge(q), merge(k), merge(v), p.n.H, o);
    r.output = unmerge(r.output, p.n.H);
  }
  std::vector<Tensor> outputs{r.output}, seeds{p.d_output}, inputs{q, k, v};
  if (ask_weights) {
    outputs.push_back(r.weights);
    seeds.push_back(p.d_weights);
  }
  for (const Tensor& x : {o.bias(), o.sink()})
    if (x.defined()) inputs.push_back(x);
  const std::vector<Tensor> g = grad(outputs, inputs, seeds, allow_unused);
  const auto gradient = [&](std::size_t i) {
    return i >= g.size() ? Tensor() : g[i].defined() ? g[i] : zeros_like(inputs[i]);
  };
  return {r.output.detach(),
          ask_weights ? r.weights.detach() : Tensor(),
          gradient(0),
          gradient(1),
          gradient(2),
          o.bias().defined() ? gradient(3) : Tensor(),
          o.sink().defined() ? gradient(inputs.size() - 1) : Tensor()};
}

inline bool can_pack(const Problem& p) { return p.n.Sq == p.n.Sk && p.n.D == p.n.Dv && p.n.H > 0 && p.n.D > 0; }

inline bool can_cache(const Problem& p) {
  return p.n.Sq <= p.n.Sk && p.n.H > 0 && p.n.D > 0 && p.n.Dv > 0 && p.options.dropout() == 0;
}

/// The output of the last Sq positions. The cache holds the earlier positions and has capacity for more.
inline Tensor run_cached(const Problem& p) {
  const std::int64_t length = p.n.Sk - p.n.Sq;
  const auto fill = [&](const Tensor& x) {
    const double nan = std::numeric_limits<double>::quiet_NaN();  // unfilled positions must not be read
    return cat({slice(x, 2, 0, length), full({p.n.B, p.kv_heads, p.n.Sq + 3, x.size(3)}, nan, p.dtype)}, 2);
  };
  const auto next = [&](const Tensor& x) { return merge(slice(x, 2, length, p.n.Sk)); };
  Tensor keys = fill(p.k), values = fill(p.v), keys_2 = keys.clone(), values_2 = values.clone();
  const Tensor q = merge(p.q), k = next(p.k), v = next(p.v);
  const Tensor y = cached_attention(q, k, v, keys, values, length, p.n.H, p.options);
  CHECK(same_bits(slice(keys, 2, 0, p.n.Sk), p.k));
  CHECK(same_bits(slice(values, 2, 0, p.n.Sk), p.v));
  if (p.n.D != p.n.Dv) return unmerge(y, p.n.H);
  CHECK(same_bits(cached_self_attention(cat({q, k, v}, 2), keys_2, values_2, length, p.n.H, p.options), y));
  CHECK(same_bits(slice(values_2, 2, 0, p.n.Sk), p.v));
  return unmerge(y, p.n.H);
}

/// The factor of dropout for each weight. It depends only on the generator, the call and the index of the weight.
inline Tensor dropout_factor(const Problem& p) {
  const Tensor all = ones({p.n.B, p.n.H, p.n.Sq, p.n.Sk}, p.dtype);
  Generator generator(11);
  return p.options.dropout() > 0 ? dropout(all, p.options.dropout(), generator) : all;
}

/// `weights`, if given, replace the softmax.
inline AttentionReference reference(const Problem& p, bool ask_weights, const Tensor& weights = {}) {
  return reference_attention(p.n, p.q, p.k, p.v, p.options, p.scale(), dropout_factor(p), p.d_output,
                             ask_weights ? p.d_weights : zeros_like(p.d_weights), weights);
}

inline double difference(const Results& a, const AttentionReference& b) {
  double worst = std::max({max_difference(a.output, b.output), max_difference(a.dq, b.dq), max_difference(a.dk, b.dk),
                           max_difference(a.dv, b.dv)});
  if (a.weights.defined()) worst = std::max(worst, max_difference(a.weights, b.weights));
  if (b.dbias.defined()) worst = std::max(worst, max_difference(a.dbias, b.dbias));
  if (b.dsink.defined()) worst = std::max(worst, max_difference(a.dsink, b.dsink));
  return worst;
}

struct Expected {
  explicit Expected(const Problem& p) : without(reference(p, false)), with(reference(p, true)) {}
  AttentionReference without, with;  // weights
};

/// Compares each layout and the decomposition with the reference, with and without weights.
inline void check_problem(const Problem& p, const Expected& expected, double tolerance) {
  for (const Form form : {Form::heads_first, Form::heads_last, Form::decomposed}) {
    if (form == Form::heads_last && p.n.H == 0) continue;  // 0 heads have no features to concatenate
    INFO("form " << static_cast<int>(form));
    const Results without = run(p, form, false), with = run(p, form, true);
    CHECK(difference(without, expected.without) <= tolerance);
    CHECK(difference(with, expected.with) <= tolerance);
    CHECK(same_bits(without.output, with.output));
  }
  if (can_pack(p)) {
    INFO("packed");
    CHECK(difference(run(p, Form::packed, false), expected.without) <= tolerance);
  }
  if (can_cache(p)) {
    INFO("cached");
    CHECK(max_difference(run_cached(p), expected.without.output) <= tolerance);
  }
}
inline void check_problem(const Problem& p, double tolerance) { check_problem(p, Expected(p), tolerance); }
inline void check_problem_on_each_isa(const Problem& p, double tolerance) {
  const Expected expected(p);
  each_isa([&] { check_problem(p, expected, tolerance); });
}

}  // namespace fit::test
