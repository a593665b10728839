#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fit/nn/attention.hpp"
#include "fit/nn/containers.hpp"
#include "fit/nn/dropout.hpp"
#include "fit/nn/feed_forward.hpp"
#include "fit/nn/init.hpp"
#include "fit/nn/kv_cache.hpp"
#include "fit/nn/layer.hpp"
#include "fit/nn/linear.hpp"
#include "fit/nn/norm.hpp"
#include "fit/option.hpp"

/// The transformer of Vaswani et al. 2017: layers of encoder and decoder, their stacks, and the whole model. Masks are
/// those of fit/attention.hpp.
namespace fit::nn {

/// What an encoder or decoder layer is made of; sizes without a default must be set.
struct TransformerLayerOptions {
  FIT_OPTION(std::int64_t, d_model) = 0;    ///< The features of a token.
  FIT_OPTION(std::int64_t, num_heads) = 0;  ///< The heads of the queries.
  FIT_OPTION(std::int64_t, hidden) = 0;     ///< The hidden features of the feed-forward layer; 4 d_model if 0.
  FIT_OPTION(double, dropout) = 0.1;        ///< Of attention weights, inside the feed-forward layer, of additions to x.
  FIT_OPTION(Activation, activation) = Activation::relu;  ///< The activation of the feed-forward layer.
  FIT_OPTION(bool, norm_first) = false;                   ///< x + f(norm(x)) instead of norm(x + f(x)).
  FIT_OPTION(bool, bias) = true;                          ///< Whether projections and norms have a bias.
  FIT_OPTION(std::int64_t, num_kv_heads) = 0;             ///< The heads of keys and values; num_heads if 0.
  FIT_OPTION(double, eps) = 1e-5;                         ///< The eps of the norms.
  FIT_OPTION(std::optional<bool>, final_norm);            ///< A norm at the end of a stack; norm_first if not given.
};

/// The attention weights of each layer, (B, H, Sq, Sk).
struct TransformerWeights {
  std::vector<Tensor> self, cross;
};

/// Self-attention and feed-forward: x (B, S, d_model) -> (B, S, d_model).
class TransformerEncoderLayer final : public Layer {
  TransformerLayerOptions options_;

 public:
  explicit TransformerEncoderLayer(const TransformerLayerOptions& options);
  /// The masks say who sees whom; with weights, those of each head: (B, H, S, S).
  Tensor forward(const Tensor& x, const AttentionMasks& masks = {}) const;
  AttentionResult forward_with_weights(const Tensor& x, const AttentionMasks& masks = {}) const;
  /// The same for sequences without their padding: x [N, d_model] -> [N, d_model].
  Tensor forward_unpadded(const Tensor& x, const Unpadding& padding) const;
  Tensor operator()(const Tensor& x, const AttentionMasks& masks = {}) const { return forward(x, masks); }
  FIT_FIELDS(self_attn, norm1, mlp, norm2, dropout)

  MultiHeadAttention self_attn;
  LayerNorm norm1;
  FeedForward mlp;
  LayerNorm norm2;
  Dropout dropout;

 private:
  template <class Attend>
  Tensor around(const Tensor& x, const Attend& attend) const;
};

/// What a decoder's attention may see: masks, biases added to the scores, windows.
struct DecoderMasks {
  FIT_OPTION(AttentionMasks, self);    ///< Among the targets, for scores (B, H, T, T).
  FIT_OPTION(AttentionMasks, memory);  ///< Of the targets to the memory, for scores (B, H, T, S).
  FIT_OPTION(bool, causal) = true;     ///< A target sees itself and what is before it; combines with `self`.
};

/// What a decoder keeps between the steps of decoding: its own keys and values, and those of the memory, which are
/// computed once.
struct DecoderCache {
  KVCache self;
  std::vector<KVCache::Layer> memory;  ///< (B, S, Hkv D) for each layer
  Tensor memory_mask;
  std::vector<std::int64_t> items;  ///< which memory each row attends to
  /// Row i becomes what row rows[i] was. Throws Error for a row that is not there, and then has changed nothing.
  void select(const std::vector<std::int64_t>& rows);
};

/// Self-attention, attention to the memory (what an encoder gives), and feed-forward.
class TransformerDecoderLayer final : public Layer {
  TransformerLayerOptions options_;

 public:
  explicit TransformerDecoderLayer(const TransformerLayerOptions& options);
  /// x (B, T, d_model), memory (B, S, d_model) -> (B, T, d_model). The weights are added to `weights` if it is given.
  Tensor forward(const Tensor& x, const Tensor& memory, const DecoderMasks& masks = {},
                 TransformerWeights* weights = nullptr) const;
  Tensor operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks = {}) const {
    return forward(x, memory, masks);
  }
  /// The keys and values of a memory, once for all steps.
  KVCache::Layer project_memory(const Tensor& memory) const;
  /// x stands behind `length` positions, which `kept` holds and x joins. Records nothing.
  Tensor forward_next(const Tensor& x, KVCache::Layer& kept, std::int64_t length, const KVCache::Layer& memory,
                      const Tensor& memory_mask) const;
  FIT_FIELDS(self_attn, norm1, cross_attn, norm2, mlp, norm3, dropout)

  MultiHeadAttention self_attn;
  LayerNorm norm1;
  MultiHeadAttention cross_attn;
  LayerNorm norm2;
  FeedForward mlp;
  LayerNorm norm3;
  Dropout dropout;

 private:
  template <class Self, class Cross>
  Tensor around(const Tensor& x, const Self& self, const Cross& cross) const;
};

/// Encoder layers one after the other, and a norm at the end with final_norm (by default with norm_first).
class TransformerEncoder final : public Layer {
 public:
  TransformerEncoder(const TransformerLayerOptions& options, std::int64_t num_layers);
  /// As each layer does it. The weights of each are added to `weights` if it is given.
  Tensor forward(const Tensor& x, const AttentionMasks& masks = {}, TransformerWeights* weights = nullptr) const;
  /// The same for a mask that hides padding, as create_padding_mask() makes it: padding gives 0, and where nothing is
  /// dropped it is left out of all but attention. What hides no padding is passed on to forward().
  Tensor forward_unpadded(const Tensor& x, const Tensor& mask) const;
  Tensor operator()(const Tensor& x, const AttentionMasks& masks = {}) const { return forward(x, masks); }
  FIT_FIELDS(layers, norm)

  ModuleList<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;
};

/// Decoder layers one after the other, and a norm at the end with final_norm (by default with norm_first).
class TransformerDecoder final : public Layer {
  TransformerLayerOptions options_;

 public:
  TransformerDecoder(const TransformerLayerOptions& options, std::int64_t num_layers);
  /// x (B, T, d_model), memory (B, S, d_model) -> (B, T, d_model). The weights are added to `weights` if it is given.
  Tensor forward(const Tensor& x, const Tensor& memory, const DecoderMasks& masks = {},
                 TransformerWeights* weights = nullptr) const;
  Tensor operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks = {}) const {
    return forward(x, memory, masks);
  }
  /// For up to max_length steps of decoding.
  DecoderCache make_cache(const Tensor& memory, const Tensor& memory_mask, std::int64_t max_length) const;
  /// The next positions: what forward() of the whole, causal, gives there, to rounding. Records nothing. An Error
  /// leaves the cache as it was.
  Tensor forward_next(const Tensor& x, DecoderCache& cache) const;
  FIT_FIELDS(layers, norm)

  ModuleList<TransformerDecoderLayer> layers;
  std::optional<LayerNorm> norm;
};

/// What a Transformer is made of; sizes without a default must be set.
struct TransformerOptions : TransformerLayerOptions {
  FIT_OPTION(std::int64_t, source_vocab) = 0;        ///< The number of tokens of the source.
  FIT_OPTION(std::int64_t, target_vocab) = 0;        ///< The number of tokens of the target.
  FIT_OPTION(std::int64_t, max_length) = 0;          ///< The longest source and target.
  FIT_OPTION(std::int64_t, num_encoder_layers) = 6;  ///< The layers of the encoder.
  FIT_OPTION(std::int64_t, num_decoder_layers) = 6;  ///< The layers of the decoder.
  FIT_OPTION(bool, tie_weights) = true;              ///< The head is the table of the targets' embeddings.
  FIT_INHERITED_OPTIONS(TransformerLayerOptions, d_model, num_heads, hidden, dropout, activation, norm_first, bias,
                        num_kv_heads, eps, final_norm)
};

/// The encoder-decoder model, from ids to logits, with sinusoidal positions. Embeddings start normal with standard
/// deviation 1 / sqrt(d_model) and are multiplied by sqrt(d_model); all other matrices start Xavier-uniform, their
/// biases at 0.
class Transformer final : public Layer {
  TransformerOptions options_;
  Tensor positions_;  // [max_length, d_model]

 public:
  /// Throws Error for sizes that are not positive.
  explicit Transformer(const TransformerOptions& options);

  /// source [B, S], target [B, T] (int64) -> logits [B, T, target_vocab] of what follows each target. The mask hides
  /// padding in the source, as create_padding_mask() makes it. Throws Error for more than max_length.
  Tensor forward(const Tensor& source, const Tensor& target, const Tensor& source_mask = {},
                 TransformerWeights* weights = nullptr) const;
  Tensor operator()(const Tensor& source, const Tensor& target, const Tensor& source_mask = {}) const {
    return forward(source, target, source_mask);
  }
  /// What the decoder attends to, [B, S, d_model]; 0 at padding.
  Tensor encode(const Tensor& source, const Tensor& source_mask = {}) const;
  /// A cache for decoding behind these sources.
  DecoderCache make_cache(const Tensor& source, const Tensor& source_mask = {}) const;
  /// The logits of the next targets [B, T], which the cache takes up. Records nothing. An Error leaves the cache as it
  /// was.
  Tensor decode(const Tensor& target, DecoderCache& cache) const;

  /// What it was made with.
  const TransformerOptions& options() const { return options_; }
  FIT_FIELDS(source_embedding, target_embedding, encoder, decoder, head, dropout)
  std::string describe() const override;

  Embedding source_embedding, target_embedding;
  TransformerEncoder encoder;
  TransformerDecoder decoder;
  Linear head;  // without bias
  Dropout dropout;

 private:
  Transformer(const TransformerOptions& options, const init::Skip&);  // without initial values

  Tensor embed(const char* name, const Embedding& table, const Tensor& ids, std::int64_t before) const;
};

}  // namespace fit::nn
