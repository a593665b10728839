#pragma once
#include "fit/nn/attention/attention_context.hpp"
#include "fit/nn/layer/layer.hpp"

namespace fit::nn {

/// A layer of a stack: x (B, T, C) -> (B, T, C). The blocks of nn::GPT, nn::TransformerEncoder and
/// nn::TransformerDecoder are such layers, and so is the attention of a GPT's block. GPT and decoders call them with
/// causal terms: a position depends on itself and the positions before it. A custom attention:
///
///     struct Attention final : nn::SequenceLayer {
///       Tensor forward(const Tensor& x, const nn::AttentionContext& context) const override {
///         return out(context.attend(heads_last(q(x), 4), heads_last(k(x)), heads_last(v(x))));
///       }
///       nn::KVCache::LayerShape cache_shape() const override { return {4, 16}; }
///       FIT_FIELDS(q, k, v, out)
///       nn::Linear q{64, 64}, k{64, 64}, v{64, 64}, out{64, 64};
///     };
///     gpt.replace("h.0.attn", std::make_shared<Attention>());
class SequenceLayer : public UnaryLayer {
 public:
  virtual Tensor forward(const Tensor& x, const AttentionContext& context) const = 0;
  /// What the layer keeps of each position in a cache; nothing by default.
  virtual KVCache::LayerShape cache_shape() const { return {}; }

  /// Without a context.
  Tensor forward(const Tensor& x) const override { return forward(x, AttentionContext()); }
  /// A call of the layer.
  Tensor operator()(const Tensor& x, const AttentionContext& context = {}) const;
  /// Also returns the weights of its first attention, (B, H, T, keys); undefined if it has none.
  AttentionResult operator()(const Tensor& x, const AttentionContext& context, ReturnAttention) const;
  AttentionResult operator()(const Tensor& x, ReturnAttention) const { return (*this)(x, {}, return_attention); }

 protected:
  SequenceLayer() {}
  /// For layers whose forward() takes sequences without padding, [N, C], and AttentionContext::padding.
  struct TakesUnpadded {};
  explicit SequenceLayer(TakesUnpadded) : takes_unpadded_(true) {}

 private:
  bool takes_unpadded_ = false;
};

}  // namespace fit::nn
