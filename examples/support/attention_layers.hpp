#pragma once
#include <fit/nn.hpp>
#include <vector>

// The layers of the lesson on six tokens: self-attention with one head and no output projection, built up step by step.
// x is (S, d_in) or (B, S, d_in), the result (S, d_out) or (B, S, d_out).
namespace example {

// softmax(x W_query (x W_key)^T / sqrt(d_out)) x W_value, with bare parameters: uniform in [0, 1), [d_in, d_out].
struct BareSingleHeadAttention final : fit::nn::SequenceLayer {
  BareSingleHeadAttention(std::int64_t d_in, std::int64_t d_out)
      : W_query(fit::rand({d_in, d_out})), W_key(fit::rand({d_in, d_out})), W_value(fit::rand({d_in, d_out})) {}
  fit::Tensor forward(const fit::Tensor& x, const fit::nn::AttentionContext& context) const override {
    return context.attend(matmul(x, W_query), matmul(x, W_key), matmul(x, W_value));
  }
  FIT_FIELDS_ONLY(W_query, W_key, W_value)
  fit::nn::Parameter W_query, W_key, W_value;
};

// The same with Linear projections instead of bare parameters.
struct SingleHeadAttention final : fit::nn::SequenceLayer {
  SingleHeadAttention(std::int64_t d_in, std::int64_t d_out)
      : W_query(d_in, d_out), W_key(d_in, d_out), W_value(d_in, d_out) {}
  fit::Tensor forward(const fit::Tensor& x, const fit::nn::AttentionContext& context) const override {
    return context.attend(W_query(x), W_key(x), W_value(x));
  }
  FIT_FIELDS_ONLY(W_query, W_key, W_value)
  fit::nn::Linear W_query, W_key, W_value;
};

// A position attends to itself and earlier positions.
struct CausalAttention final : fit::nn::SequenceLayer {
  CausalAttention(std::int64_t d_in, std::int64_t d_out, std::int64_t context_length)
      : W_query(d_in, d_out, false),
        W_key(d_in, d_out, false),
        W_value(d_in, d_out, false),
        mask(squeeze(fit::create_look_ahead_mask(context_length), 0)) {}
  fit::Tensor forward(const fit::Tensor& x, const fit::nn::AttentionContext& context) const override {
    const fit::Tensor pairs = mask[{fit::range(0, x.size(-2)), fit::range(0, x.size(-2))}];
    return context.attend(W_query(x), W_key(x), W_value(x), fit::AttentionOptions().mask(pairs));
  }
  FIT_FIELDS_ONLY(W_query, W_key, W_value, mask)
  fit::nn::Linear W_query, W_key, W_value;
  fit::nn::Buffer mask;  // [context_length, context_length]: the lower triangle
};

// Several causal heads with concatenated outputs: (…, S, num_heads d_out).
struct MultiHeadAttentionWrapper final : fit::nn::UnaryLayer {
  MultiHeadAttentionWrapper(std::int64_t d_in, std::int64_t d_out, std::int64_t context_length,
                            std::int64_t num_heads) {
    for (std::int64_t h = 0; h < num_heads; ++h) heads.add(CausalAttention(d_in, d_out, context_length));
  }
  fit::Tensor forward(const fit::Tensor& x) const override {
    std::vector<fit::Tensor> outputs;
    for (const CausalAttention& head : heads) outputs.push_back(head(x));
    return cat(outputs, -1);
  }
  FIT_FIELDS_ONLY(heads)
  fit::nn::ModuleList<CausalAttention> heads;
};

}  // namespace example
