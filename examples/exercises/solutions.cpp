// Solutions of the exercises. Read one only when you have one of your own.
#include <cmath>

#include "exercises/exercises.hpp"

using namespace fit;

Tensor softmax_forward(const Tensor& x) {
  const Tensor e = exp(x - max(x, -1, keepdims));
  return e / sum(e, -1, keepdims);
}

Tensor softmax_gradient(const Tensor& p, const Tensor& dp) { return p * (dp - sum(p * dp, -1, keepdims)); }

EXERCISE(softmax, softmax_forward, softmax_gradient)

Tensor simple_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  return matmul(softmax(matmul(q, transpose(k))), v);
}

EXERCISE(by_hand, simple_attention)

Tensor scaled_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const double root = std::sqrt(static_cast<double>(q.size(-1)));
  return matmul(softmax(matmul(q, transpose(k)) / root), v);
}

EXERCISE(scaled, scaled_attention)

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor scores = matmul(q, transpose(k)) / std::sqrt(static_cast<double>(q.size(-1)));
  const Tensor later = triu(ones({q.size(1), q.size(1)}), 1) != 0;
  return matmul(softmax(masked_fill(scores, later, -INFINITY)), v);
}

EXERCISE(causal, causal_attention)

Tensor buggy_weights(const Tensor& x) {
  const Tensor scores = matmul(x, transpose(x));
  const Tensor later = triu(ones({x.size(1), x.size(1)}), 1) != 0;
  const Tensor masked = masked_fill(scores, later, -INFINITY);
  return softmax(masked / std::sqrt(static_cast<double>(x.size(-1))), -1);
}

EXERCISE(causal_bug, buggy_weights)

Tensor padding_mask(const Tensor& lengths, std::int64_t n) {
  return arange(n).reshape({1, 1, 1, n}) < lengths.reshape({-1, 1, 1, 1});
}

EXERCISE(padding, padding_mask)

Tensor window_mask(std::int64_t n, std::int64_t w) {
  const Tensor distance = arange(n).reshape({n, 1}) - arange(n);
  return distance >= 0 && distance < w;
}

EXERCISE(window, window_mask)

Tensor weights_entropy(const Tensor& p) { return -sum(p * log(where(p > 0, p, 1.0)), -1); }

EXERCISE(entropy, weights_entropy)

Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return transpose(x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}), 1, 2);
}

Tensor merge_heads(const Tensor& x) { return transpose(x, 1, 2).reshape({x.size(0), x.size(2), -1}); }

EXERCISE(heads, split_heads, merge_heads)

Tensor repeat_groups(const Tensor& k, std::int64_t heads) { return repeat_interleave(k, heads / k.size(1), 1); }

EXERCISE(grouped, repeat_groups)

Tensor sinusoidal_table(std::int64_t n, std::int64_t d) {
  const Tensor rates = pow(10000.0, arange(0, static_cast<double>(d), 2) * (-1.0 / static_cast<double>(d)));
  const Tensor angles = outer(arange(0, static_cast<double>(n), 1), rates);
  return stack({sin(angles), cos(angles)}, -1).reshape({n, d});
}

EXERCISE(sinusoidal, sinusoidal_table)

Tensor rotate(const Tensor& x) {
  const std::int64_t n = x.size(0), half = x.size(1) / 2;
  const Tensor rates = pow(10000.0, arange(0, static_cast<double>(half), 1) * (-1.0 / static_cast<double>(half)));
  const Tensor angles = outer(arange(0, static_cast<double>(n), 1), rates), c = cos(angles), s = sin(angles);
  const Tensor a = x[{range(), range(0, half)}], b = x[{range(), range(half, 2 * half)}];
  return cat({a * c - b * s, a * s + b * c}, -1);
}

EXERCISE(rope, rotate)

Tensor alibi_bias(std::int64_t heads, std::int64_t n) {
  const Tensor slopes = pow(2.0, arange(1, static_cast<double>(heads) + 0.5, 1) * (-8.0 / static_cast<double>(heads)));
  const Tensor p = arange(0, static_cast<double>(n), 1);
  return -slopes.reshape({heads, 1, 1}) * (p.reshape({n, 1}) - p);
}

EXERCISE(alibi, alibi_bias)

Tensor decode_step(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& keys, Tensor& values) {
  keys = keys.defined() ? cat({keys, k}, 1) : k;
  values = values.defined() ? cat({values, v}, 1) : v;
  return scaled_dot_product_attention(q, keys, values);
}

EXERCISE(cache, decode_step)

Tensor sink_softmax(const Tensor& x, double s) {
  const Tensor largest = maximum(max(x, -1, keepdims), full({1}, s));
  const Tensor e = exp(x - largest);
  return e / (exp(s - largest) + sum(e, -1, keepdims));
}

EXERCISE(sink, sink_softmax)

std::vector<Tensor> merge_blocks(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  const Tensor m = maximum(a[0], b[0]), of_a = exp(a[0] - m), of_b = exp(b[0] - m);
  return {m, a[1] * of_a + b[1] * of_b, a[2] * of_a + b[2] * of_b};
}

EXERCISE(online, merge_blocks)

Tensor layer_norm_adjoint(const Tensor& x, const Tensor& dy, double eps) {
  const Tensor inverse = rsqrt(var(x, -1, Correction{0}, keepdims) + eps);
  const Tensor y = (x - mean(x, -1, keepdims)) * inverse;
  return inverse * (dy - mean(dy, -1, keepdims) - y * mean(dy * y, -1, keepdims));
}

EXERCISE(layer_norm, layer_norm_adjoint)

Tensor rms_normalize(const Tensor& x, double eps) { return x * rsqrt(mean(x * x, -1, keepdims) + eps); }

EXERCISE(rms_norm, rms_normalize)

Tensor entropy_loss(const Tensor& logits, const Tensor& classes) {
  return mean(logsumexp(logits, -1) - gather(logits, -1, classes.unsqueeze(-1)).squeeze(-1));
}

Tensor entropy_gradient(const Tensor& logits, const Tensor& classes) {
  return (softmax(logits) - one_hot(classes, logits.size(1))) / static_cast<double>(logits.size(0));
}

EXERCISE(cross_entropy, entropy_loss, entropy_gradient)

std::int64_t find_induction_head(const Tensor& weights, const std::vector<std::string>& tokens) {
  const auto n = static_cast<std::int64_t>(tokens.size());
  Tensor target = zeros({n, n});
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < i; ++j)
      if (tokens[static_cast<std::size_t>(i)] == tokens[static_cast<std::size_t>(j)]) target[{i, j + 1}] = 1.0;
  return argmax(sum(weights * target, {1, 2})).item<std::int64_t>();
}

EXERCISE(induction, find_induction_head)
