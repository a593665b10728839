#include "fit/nn/attention/single_head.hpp"

#include <vector>

#include "fit/ops/ops.hpp"
#include "layer/sizes.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

constexpr const char* single = "SingleHeadAttention";
constexpr const char* causal = "CausalAttention";

Tensor uniform(const char* op, std::int64_t d_in, std::int64_t d_out) {
  return rand({positive(op, "d_in", d_in), positive(op, "d_out", d_out)});
}

}  // namespace

// ---- BareSingleHeadAttention --------------------------------------------------------------------------------------

FIT_FIELDS_OF(BareSingleHeadAttention, W_query, W_key, W_value)

BareSingleHeadAttention::BareSingleHeadAttention(std::int64_t d_in, std::int64_t d_out)
    : W_query(uniform("BareSingleHeadAttention", d_in, d_out)),
      W_key(uniform("BareSingleHeadAttention", d_in, d_out)),
      W_value(uniform("BareSingleHeadAttention", d_in, d_out)) {}

Tensor BareSingleHeadAttention::forward(const Tensor& x, const AttentionContext& context) const {
  return within(*this, {x}, [&] {
    return context.attend(matmul(x, W_query.value()), matmul(x, W_key.value()), matmul(x, W_value.value()));
  });
}

std::string BareSingleHeadAttention::describe() const {
  return "d_in=" + std::to_string(W_query.original().size(0)) + ", d_out=" + std::to_string(W_query.original().size(1));
}

// ---- SingleHeadAttention ------------------------------------------------------------------------------------------

FIT_FIELDS_OF(SingleHeadAttention, W_query, W_key, W_value)

SingleHeadAttention::SingleHeadAttention(std::int64_t d_in, std::int64_t d_out, const SingleHeadAttentionOptions& o)
    : W_query(positive(single, "d_in", d_in), positive(single, "d_out", d_out), o.qkv_bias()),
      W_key(d_in, d_out, o.qkv_bias()),
      W_value(d_in, d_out, o.qkv_bias()) {}

Tensor SingleHeadAttention::forward(const Tensor& x, const AttentionContext& context) const {
  return within(*this, {x}, [&] { return context.attend(W_query(x), W_key(x), W_value(x)); });
}

// ---- CausalAttention ----------------------------------------------------------------------------------------------

FIT_FIELDS_OF(CausalAttention, W_query, W_key, W_value, mask, attention)

CausalAttention::CausalAttention(std::int64_t d_in, std::int64_t d_out, std::int64_t context_length, double dropout)
    : CausalAttention(d_in, d_out, context_length, CausalAttentionOptions().dropout(dropout)) {}

CausalAttention::CausalAttention(std::int64_t d_in, std::int64_t d_out, std::int64_t context_length,
                                 const CausalAttentionOptions& o)
    : W_query(positive(causal, "d_in", d_in), positive(causal, "d_out", d_out), o.qkv_bias()),
      W_key(d_in, d_out, o.qkv_bias()),
      W_value(d_in, d_out, o.qkv_bias()),
      mask(squeeze(create_look_ahead_mask(positive(causal, "context_length", context_length)), 0)),
      attention(causal, AttentionOptions().dropout(o.dropout())) {}

Tensor CausalAttention::mask_for(const Tensor& x) const {
  check::defined(causal, "x", x);
  const std::int64_t tokens = x.size(-2), context_length = mask.size(0);
  if (tokens > context_length)
    check::fail(causal, "x has shape ", x.shape(), ": its ", tokens, " tokens exceed context_length, ", context_length);
  return slice(slice(mask, 0, 0, tokens), 1, 0, tokens);
}

Tensor CausalAttention::forward(const Tensor& x, const AttentionContext& context) const {
  return attention.attend(W_query(x), W_key(x), W_value(x), context, mask_for(x));
}

std::string CausalAttention::describe() const { return "context_length=" + std::to_string(mask.size(0)); }

// ---- MultiHeadAttentionWrapper ------------------------------------------------------------------------------------

FIT_FIELDS_OF(MultiHeadAttentionWrapper, heads)

MultiHeadAttentionWrapper::MultiHeadAttentionWrapper(std::int64_t d_in, std::int64_t d_out, std::int64_t context_length,
                                                     double dropout, std::int64_t num_heads)
    : MultiHeadAttentionWrapper(d_in, d_out, context_length, CausalAttentionOptions().dropout(dropout), num_heads) {}

MultiHeadAttentionWrapper::MultiHeadAttentionWrapper(std::int64_t d_in, std::int64_t d_out, std::int64_t context_length,
                                                     const CausalAttentionOptions& options, std::int64_t num_heads) {
  positive("MultiHeadAttentionWrapper", "num_heads", num_heads);
  for (std::int64_t h = 0; h < num_heads; ++h) heads.add(CausalAttention(d_in, d_out, context_length, options));
}

Tensor MultiHeadAttentionWrapper::forward(const Tensor& x, const AttentionContext& context) const {
  std::vector<Tensor> outputs, weights;
  AttentionContext of_head = context;
  if (context.weights) of_head.weights = &weights;
  for (const CausalAttention& head : heads) outputs.push_back(head(x, of_head));
  if (context.weights) context.weights->push_back(stack(weights, -3));
  return cat(outputs, -1);
}

}  // namespace fit::nn
