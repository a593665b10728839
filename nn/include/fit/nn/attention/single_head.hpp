#pragma once
#include <cstdint>
#include <string>

#include "fit/base/option.hpp"
#include "fit/nn/attention/attention.hpp"
#include "fit/nn/attention/sequence_layer.hpp"
#include "fit/nn/layer/layer.hpp"
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/linear.hpp"

/// Self-attention with one head and no output projection, built up step by step: bare parameters, Linear projections,
/// causal attention, and several heads. x is (S, d_in) or (B, S, d_in). The result is (S, d_out) or (B, S, d_out). The
/// weights of one head, `layer(x, nn::return_attention)`, are (S, S) or (B, S, S).
namespace fit::nn {

/// Attention with bare parameters: softmax(x W_query (x W_key)^T / sqrt(d_out)) x W_value.
class BareSingleHeadAttention final : public SequenceLayer {
 public:
  /// The parameters are uniform in [0, 1).
  BareSingleHeadAttention(std::int64_t d_in, std::int64_t d_out);

  using SequenceLayer::forward;
  Tensor forward(const Tensor& x, const AttentionContext& context) const override;
  void fields(Fields& f) override;
  std::string describe() const override;

  Parameter W_query, W_key, W_value;  ///< [d_in, d_out]
};

/// The options of SingleHeadAttention.
struct SingleHeadAttentionOptions {
  FIT_OPTION(bool, qkv_bias) = true;  ///< Whether the projections have a bias.
};

/// The same with Linear projections instead of bare parameters.
class SingleHeadAttention final : public SequenceLayer {
 public:
  SingleHeadAttention(std::int64_t d_in, std::int64_t d_out, const SingleHeadAttentionOptions& options = {});

  using SequenceLayer::forward;
  Tensor forward(const Tensor& x, const AttentionContext& context) const override;
  void fields(Fields& f) override;

  Linear W_query, W_key, W_value;
};

/// The options of CausalAttention.
struct CausalAttentionOptions {
  FIT_OPTION(double, dropout) = 0;     ///< The dropout of the weights, in training.
  FIT_OPTION(bool, qkv_bias) = false;  ///< Whether the projections have a bias.
};

/// Causal attention: a position attends to itself and earlier positions. In training, dropout acts on the weights.
class CausalAttention final : public SequenceLayer {
 public:
  CausalAttention(std::int64_t d_in, std::int64_t d_out, std::int64_t context_length, double dropout = 0.0);
  CausalAttention(std::int64_t d_in, std::int64_t d_out, std::int64_t context_length,
                  const CausalAttentionOptions& options);

  /// Throws Error if x is longer than context_length.
  using SequenceLayer::forward;
  Tensor forward(const Tensor& x, const AttentionContext& context) const override;
  void fields(Fields& f) override;
  std::string describe() const override;

  Linear W_query, W_key, W_value;
  Buffer mask;  ///< boolean [context_length, context_length]: the lower triangle
  ScaledDotProductAttention attention;

 private:
  Tensor mask_for(const Tensor& x) const;
};

/// Several causal heads with concatenated outputs: (…, S, num_heads d_out). The weights are those of each head:
/// (H, S, S) or (B, H, S, S).
class MultiHeadAttentionWrapper final : public SequenceLayer {
 public:
  MultiHeadAttentionWrapper(std::int64_t d_in, std::int64_t d_out, std::int64_t context_length, double dropout,
                            std::int64_t num_heads);
  MultiHeadAttentionWrapper(std::int64_t d_in, std::int64_t d_out, std::int64_t context_length,
                            const CausalAttentionOptions& options, std::int64_t num_heads);

  using SequenceLayer::forward;
  Tensor forward(const Tensor& x, const AttentionContext& context) const override;
  void fields(Fields& f) override;

  ModuleList<CausalAttention> heads;
};

}  // namespace fit::nn
