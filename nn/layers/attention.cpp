#include "fit/nn/attention.hpp"

#include <cmath>
#include <sstream>

#include "fit/ops.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

namespace {

void check_numbers(const char* op, double dropout, double temperature, const std::optional<double>& scale) {
  if (!(dropout >= 0 && dropout <= 1)) check::fail(op, "dropout is ", dropout, ": it must be in 0 … 1");
  if (!(temperature > 0) || std::isinf(temperature))
    check::fail(op, "temperature is ", temperature, ": it must be positive and finite");
  if (scale && !std::isfinite(*scale)) check::fail(op, "scale is ", *scale, ": it must be finite");
}

}  // namespace

// ---- ScaledDotProductAttention ------------------------------------------------------------------------------------

ScaledDotProductAttention::ScaledDotProductAttention(double dropout, double temperature, std::optional<double> scale)
    : dropout_(dropout), temperature_(temperature), scale_(scale) {
  check_numbers("ScaledDotProductAttention", dropout, temperature, scale);
}

AttentionOptions ScaledDotProductAttention::options(const Tensor& mask, const Tensor& bias, bool causal) const {
  AttentionOptions o;
  o.mask = mask;
  o.bias = bias;
  o.causal = causal;
  o.dropout = training() ? dropout_ : 0;
  o.temperature = temperature_;
  o.scale = scale_;
  return o;
}

Tensor ScaledDotProductAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                          const Tensor& mask, const Tensor& bias, bool causal) const {
  return scaled_dot_product_attention(query, key, value, options(mask, bias, causal));
}

AttentionResult ScaledDotProductAttention::forward_with_weights(const Tensor& query, const Tensor& key,
                                                                const Tensor& value, const Tensor& mask,
                                                                const Tensor& bias, bool causal) const {
  return scaled_dot_product_attention_with_weights(query, key, value, options(mask, bias, causal));
}

std::string ScaledDotProductAttention::describe() const {
  std::ostringstream s;
  s << "dropout=" << dropout_ << ", temperature=" << temperature_;
  if (scale_) s << ", scale=" << *scale_;
  return s.str();
}

// ---- MultiHeadAttention -------------------------------------------------------------------------------------------

namespace {

constexpr const char* multi_head = "MultiHeadAttention";

MultiHeadAttentionOptions with_dropout_and_bias(double dropout, bool bias) {
  MultiHeadAttentionOptions o;
  o.dropout = dropout;
  o.bias = bias;
  return o;
}

// The options, once they are seen to be possible.
const MultiHeadAttentionOptions& checked(std::int64_t d_model, std::int64_t num_heads,
                                         const MultiHeadAttentionOptions& o) {
  if (d_model < 1 || num_heads < 1 || d_model % num_heads != 0)
    check::fail(multi_head, "d_model is ", d_model, ", num_heads is ", num_heads,
                ": both must be positive, and num_heads must divide d_model");
  const std::int64_t kv_heads = o.num_kv_heads.value_or(num_heads);
  if (kv_heads < 1 || num_heads % kv_heads != 0)
    check::fail(multi_head, "num_kv_heads is ", kv_heads, ", num_heads is ", num_heads,
                ": num_kv_heads must be positive and divide num_heads");
  for (const auto& [name, features] : {std::pair("kdim", o.kdim), std::pair("vdim", o.vdim)})
    if (features && *features < 1) check::fail(multi_head, name, " is ", *features, ": it must be positive");
  check_numbers(multi_head, o.dropout, o.temperature, o.scale);
  return o;
}

void check_input(const char* name, const Tensor& x, const Linear& projection) {
  check::defined(multi_head, name, x);
  const std::int64_t features = projection.weight.size(1);
  if (x.rank() != 3 || x.size(2) != features)
    check::fail(multi_head, name, " has shape ", x.shape(), ": it must be (B, S, ", features, ")");
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(std::int64_t d_model, std::int64_t num_heads, double dropout, bool bias)
    : MultiHeadAttention(d_model, num_heads, with_dropout_and_bias(dropout, bias)) {}

MultiHeadAttention::MultiHeadAttention(std::int64_t d_model, std::int64_t num_heads, const MultiHeadAttentionOptions& o)
    : d_model_(d_model),
      num_heads_(num_heads),
      options_(checked(d_model, num_heads, o)),
      w_q(d_model, d_model, o.qkv_bias.value_or(o.bias)),
      w_k(o.kdim.value_or(d_model), o.num_kv_heads.value_or(num_heads) * d_k(), o.qkv_bias.value_or(o.bias)),
      w_v(o.vdim.value_or(d_model), o.num_kv_heads.value_or(num_heads) * d_k(), o.qkv_bias.value_or(o.bias)),
      w_o(d_model, d_model, o.bias),
      attention(o.dropout, o.temperature, o.scale) {}

MultiHeadAttention::Projected MultiHeadAttention::project(const Tensor& query, const Tensor& key, const Tensor& value,
                                                          const Tensor& mask, const Tensor& bias, bool causal) const {
  check_input("query", query, w_q);
  check_input("key", key, w_k);
  check_input("value", value, w_v);
  return {w_q(query), w_k(key), w_v(value), attention.options(mask, bias, causal || options_.causal)};
}

Tensor MultiHeadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                                   const Tensor& bias, bool causal) const {
  const Projected p = project(query, key, value, mask, bias, causal);
  return w_o(multi_head_attention(p.q, p.k, p.v, num_heads_, p.options));
}

AttentionResult MultiHeadAttention::forward_with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                                                         const Tensor& mask, const Tensor& bias, bool causal) const {
  const Projected p = project(query, key, value, mask, bias, causal);
  const AttentionResult heads = multi_head_attention_with_weights(p.q, p.k, p.v, num_heads_, p.options);
  return {w_o(heads.output), heads.weights};
}

Tensor MultiHeadAttention::forward_next(const Tensor& x, KVCache::Layer& kept, std::int64_t length,
                                        const Tensor& mask) const {
  const NoGrad plain;
  const Projected p = project(x, x, x, mask, {}, true);
  return w_o(cached_attention(p.q, p.k, p.v, kept.keys, kept.values, length, num_heads_, p.options));
}

void MultiHeadAttention::load_torch(const Tensor& in_proj_weight, const Tensor& in_proj_bias,
                                    const Tensor& out_proj_weight, const Tensor& out_proj_bias) {
  check::shape(multi_head, "in_proj_weight", in_proj_weight, {3 * d_model_, d_model_});
  StateDict state{{"w_o.weight", out_proj_weight}};
  const auto add = [&](const char* kind, const Tensor& joint) {
    const std::vector<Tensor> parts = split(joint, d_model_);
    for (const auto& [name, i] : {std::pair("w_q", 0), std::pair("w_k", 1), std::pair("w_v", 2)})
      state.emplace_back(std::string(name) + kind, parts[i]);
  };
  add(".weight", in_proj_weight);
  if (in_proj_bias.defined()) {
    check::shape(multi_head, "in_proj_bias", in_proj_bias, {3 * d_model_});
    add(".bias", in_proj_bias);
  }
  if (out_proj_bias.defined()) state.emplace_back("w_o.bias", out_proj_bias);
  load_state_dict(state);
}

std::string MultiHeadAttention::describe() const {
  std::ostringstream s;
  s << "d_model=" << d_model_ << ", num_heads=" << num_heads_;
  if (options_.num_kv_heads) s << ", num_kv_heads=" << *options_.num_kv_heads;
  if (options_.causal) s << ", causal=true";
  return s.str();
}

}  // namespace fit::nn
