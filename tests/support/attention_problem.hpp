#pragma once
#include "fit/attention.hpp"
#include "ops/attention.hpp"
#include "support/attention_reference.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// A call of attention in all its forms, against plain loops.
namespace fit::test {

/// One call of attention with all that it takes, and the cotangents of what it gives.
struct Problem {
  AttentionSizes n;
  DType dtype = float64;
  std::int64_t kv_heads;
  Tensor q, k, v;  // (B, H, Sq, D), (B, kv_heads, Sk, D | Dv)
  Tensor d_output, d_weights;
  AttentionOptions options;

  /// kv_heads: heads of k and v; 0 for as many as of q.
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
    return options.scale.value_or(1 / (std::sqrt(static_cast<double>(n.D)) * options.temperature));
  }

  std::mt19937_64 random;
};

struct Results {
  Tensor output, weights, dq, dk, dv, dbias;
};

enum class Form { heads_first, heads_last, composed, packed };  // packed has no weights to give

inline Tensor merge(const Tensor& x) {  // (B, H, S, D) -> (B, S, H D)
  return reshape(permute(x, {0, 2, 1, 3}), Shape{x.size(0), x.size(2), x.size(1) * x.size(3)});
}
inline Tensor unmerge(const Tensor& x, std::int64_t heads) {
  return permute(reshape(x, Shape{x.size(0), x.size(1), heads, x.size(2) / heads}), {0, 2, 1, 3});
}

/// Outputs and gradients; without weights, theirs are left out of the cotangent.
inline Results run(const Problem& p, Form form, bool ask_weights) {
  Tensor q = p.q.clone().requires_grad_(), k = p.k.clone().requires_grad_(), v = p.v.clone().requires_grad_();
  AttentionOptions o = p.options;
  Generator generator(11);
  o.generator = &generator;
  if (o.bias.defined()) o.bias = o.bias.clone().requires_grad_();
  AttentionResult r;
  if (form == Form::heads_first) {
    if (ask_weights)
      r = scaled_dot_product_attention_with_weights(q, k, v, o);
    else
      r.output = scaled_dot_product_attention(q, k, v, o);
  } else if (form == Form::composed) {
    const auto call = detail::check_attention("composed_attention", q, k, v, detail::Heads::first, o);
    r = detail::composed_attention(q, k, v, detail::Heads::first, call);
  } else if (form == Form::packed) {
    r.output = unmerge(packed_self_attention(cat({merge(q), merge(k), merge(v)}, 2), p.n.H, o, p.kv_heads), p.n.H);
  } else {
    if (ask_weights)
      r = multi_head_attention_with_weights(merge(q), merge(k), merge(v), p.n.H, o);
    else
      r.output = multi_head_attention(merge(q), merge(k), merge(v), p.n.H, o);
    r.output = unmerge(r.output, p.n.H);
  }
  std::vector<Tensor> outputs{r.output}, seeds{p.d_output}, inputs{q, k, v};
  if (ask_weights) {
    outputs.push_back(r.weights);
    seeds.push_back(p.d_weights);
  }
  if (o.bias.defined()) inputs.push_back(o.bias);
  const std::vector<Tensor> g = grad(outputs, inputs, seeds, allow_unused);
  const auto gradient = [&](std::size_t i) {
    return i >= g.size() ? Tensor() : g[i].defined() ? g[i] : zeros_like(inputs[i]);
  };
  return {r.output.detach(), ask_weights ? r.weights.detach() : Tensor(), gradient(0), gradient(1), gradient(2),
          gradient(3)};
}

/// What dropout multiplies the weights by: it depends on the generator, the call and the weight's index alone.
inline Tensor dropout_factor(const Problem& p) {
  const Tensor all = ones({p.n.B, p.n.H, p.n.Sq, p.n.Sk}, p.dtype);
  Generator generator(11);
  return p.options.dropout > 0 ? dropout(all, p.options.dropout, generator) : all;
}

inline AttentionReference reference(const Problem& p, bool ask_weights) {
  const std::int64_t group = p.n.H / std::max<std::int64_t>(p.kv_heads, 1);
  const auto repeat = [&](const Tensor& x) {
    return reshape(broadcast_to(unsqueeze(x, 2), x.shape().inserted(2, group)), x.shape().with(1, p.n.H));
  };
  AttentionReference r = reference_attention(p.n, p.q, repeat(p.k), repeat(p.v), p.options.mask, p.options.bias,
                                             p.options.causal, p.scale(), dropout_factor(p), p.d_output,
                                             ask_weights ? p.d_weights : zeros_like(p.d_weights), p.options.window);
  const auto add_up = [&](const Tensor& x) {
    return sum(reshape(x, x.shape().with(1, p.kv_heads).inserted(2, group)), {2});
  };
  r.dk = add_up(r.dk);
  r.dv = add_up(r.dv);
  return r;
}

inline double difference(const Results& a, const AttentionReference& b) {
  double worst = std::max({max_difference(a.output, b.output), max_difference(a.dq, b.dq), max_difference(a.dk, b.dk),
                           max_difference(a.dv, b.dv)});
  if (a.weights.defined()) worst = std::max(worst, max_difference(a.weights, b.weights));
  if (b.dbias.defined()) worst = std::max(worst, max_difference(a.dbias, b.dbias));
  return worst;
}

/// Against the reference: each layout and the composed form, with weights and without.
inline void check_problem(const Problem& p, double tolerance) {
  const AttentionReference expected = reference(p, false), expected_with = reference(p, true);
  for (const Form form : {Form::heads_first, Form::heads_last, Form::composed}) {
    if (form == Form::heads_last && p.n.H == 0) continue;  // no heads can't lie side by side
    INFO("form " << static_cast<int>(form));
    const Results without = run(p, form, false), with = run(p, form, true);
    CHECK(difference(without, expected) <= tolerance);
    CHECK(difference(with, expected_with) <= tolerance);
    CHECK(same_bits(without.output, with.output));
  }
  if (p.n.Sq == p.n.Sk && p.n.D == p.n.Dv && p.n.H > 0 && p.n.D > 0) {
    INFO("packed");
    CHECK(difference(run(p, Form::packed, false), expected) <= tolerance);
  }
}

}  // namespace fit::test
