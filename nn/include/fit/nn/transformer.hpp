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

/// The transformer of Vaswani et al. 2017: encoder and decoder layers, their stacks, and the full model. See
/// fit/attention.hpp for masks.
namespace fit::nn {

/// The options of an encoder or decoder layer. Set every size whose default is 0, unless its comment says otherwise.
struct TransformerLayerOptions {
  FIT_OPTION(std::int64_t, d_model) = 0;    ///< The number of features of a token.
  FIT_OPTION(std::int64_t, num_heads) = 0;  ///< The number of query heads.
  FIT_OPTION(std::int64_t, hidden) = 0;     ///< The hidden features of the feed-forward layer; 4 d_model if 0.
  FIT_OPTION(double, dropout) = 0.1;        ///< For attention weights, hidden features and residual branches.
  FIT_OPTION(Activation, activation) = Activation::relu;  ///< The activation of the feed-forward layer.
  FIT_OPTION(bool, norm_first) = false;                   ///< x + f(norm(x)) instead of norm(x + f(x)).
  FIT_OPTION(bool, bias) = true;                          ///< Whether projections and norms have a bias.
  FIT_OPTION(std::int64_t, num_kv_heads) = 0;             ///< The number of key and value heads; num_heads if 0.
  FIT_OPTION(double, eps) = 1e-5;                         ///< The eps of the norms.
  FIT_OPTION(std::optional<bool>, final_norm);            ///< A norm at the end of a stack; norm_first if not given.
};

/// The attention weights of each layer, (B, H, Sq, Sk).
struct TransformerWeights {
  std::vector<Tensor> self, cross;
};

/// A layer of an encoder: x (B, S, C) -> (B, S, C). A custom one defines the first function.
class EncoderLayer : public Layer {
 public:
  /// The masks select the keys of each query.
  virtual Tensor forward(const Tensor& x, const AttentionMasks& masks = {}) const = 0;
  /// The same with the weights of each head, (B, H, S, S); undefined by default.
  virtual AttentionResult forward_with_weights(const Tensor& x, const AttentionMasks& masks = {}) const;
  /// The same for sequences without their padding: x [N, C] -> [N, C]. By default forward() with padding.
  virtual Tensor forward_unpadded(const Tensor& x, const Unpadding& padding) const;
  Tensor operator()(const Tensor& x, const AttentionMasks& masks = {}) const;
};

/// Self-attention and feed-forward, by default with a dropout of 0.1 in training: x (B, S, d_model) -> (B, S, d_model).
class TransformerEncoderLayer final : public EncoderLayer {
  bool norm_first_;

 public:
  explicit TransformerEncoderLayer(const TransformerLayerOptions& options);
  explicit TransformerEncoderLayer(...) = delete;  // give one TransformerLayerOptions()…
  /// A layer of layers that are moved in, or given as std::shared_ptr. Of the options, dropout and norm_first count.
  template <class Attention, class Norm1, class MLP, class Norm2>
  TransformerEncoderLayer(Attention attention, Norm1 first_norm, MLP feed_forward, Norm2 second_norm,
                          const TransformerLayerOptions& options = {})
      : norm_first_(options.norm_first()),
        self_attn(detail::hold<AttentionLayer>(std::move(attention))),
        norm1(detail::hold<UnaryLayer>(std::move(first_norm))),
        mlp(detail::hold<UnaryLayer>(std::move(feed_forward))),
        norm2(detail::hold<UnaryLayer>(std::move(second_norm))),
        dropout(options.dropout()) {}
  Tensor forward(const Tensor& x, const AttentionMasks& masks = {}) const override;
  AttentionResult forward_with_weights(const Tensor& x, const AttentionMasks& masks = {}) const override;
  Tensor forward_unpadded(const Tensor& x, const Unpadding& padding) const override;
  FIT_FIELDS_DECLARED

  std::shared_ptr<AttentionLayer> self_attn;
  std::shared_ptr<UnaryLayer> norm1, mlp, norm2;
  Dropout dropout;  // of the result of self_attn

 private:
  template <class Attend>
  Tensor around(const Tensor& x, const Attend& attend) const;
};

/// The masks of a decoder's attention: masks, biases added to the scores, windows.
struct DecoderMasks {
  FIT_OPTION(AttentionMasks, self);    ///< For self-attention, scores (B, H, T, T).
  FIT_OPTION(AttentionMasks, memory);  ///< For attention of targets to the memory, scores (B, H, T, S).
  FIT_OPTION(bool, causal) = true;     ///< A target attends to itself and earlier targets; combines with `self`.
};

/// The state of a decoder between decoding steps: its own keys and values, and those of the memory. The latter are
/// computed once.
struct DecoderCache {
  KVCache self;
  std::vector<KVCache::Layer> memory;  ///< (B, S, Hkv D) for each layer
  Tensor memory_mask;
  std::vector<std::int64_t> items;  ///< the memory that each row attends to
  /// Replaces row i by the old row rows[i]. Throws Error for a row that does not exist, and then changes nothing.
  void select(const std::vector<std::int64_t>& rows);
};

/// A layer of a decoder: x (B, T, C), memory (B, S, C) -> (B, T, C). A custom one defines the first function, and
/// forward_next() with cache_shape() to decode with a cache.
class DecoderLayer : public Layer {
 public:
  /// Appends the weights of its attention to `weights` unless it is null.
  virtual Tensor forward(const Tensor& x, const Tensor& memory, const DecoderMasks& masks = {},
                         TransformerWeights* weights = nullptr) const = 0;
  /// What forward_next() reads of a memory, computed once for all steps: keys and values. By default the memory, twice.
  virtual KVCache::Layer project_memory(const Tensor& memory) const { return {memory, memory}; }
  /// x comes after the `length` positions in `kept`. Its keys and values are appended there. Builds no graph. The
  /// default throws Error.
  virtual Tensor forward_next(const Tensor& x, KVCache::Layer& kept, std::int64_t length, const KVCache::Layer& memory,
                              const Tensor& memory_mask) const;
  /// The shapes that forward_next() caches for each position; empty by default.
  virtual KVCache::LayerShape cache_shape() const { return {}; }
  Tensor operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks = {}) const;
};

/// Self-attention, attention to the memory and feed-forward, by default with a dropout of 0.1 in training. The memory
/// is the encoder's output.
class TransformerDecoderLayer final : public DecoderLayer {
  bool norm_first_;

 public:
  explicit TransformerDecoderLayer(const TransformerLayerOptions& options);
  explicit TransformerDecoderLayer(...) = delete;  // give one TransformerLayerOptions()…
  /// A layer of layers that are moved in, or given as std::shared_ptr. Of the options, dropout and norm_first count.
  template <class Self, class Norm1, class Cross, class Norm2, class MLP, class Norm3>
  TransformerDecoderLayer(Self self, Norm1 first_norm, Cross cross, Norm2 second_norm, MLP feed_forward,
                          Norm3 third_norm, const TransformerLayerOptions& options = {})
      : norm_first_(options.norm_first()),
        self_attn(detail::hold<AttentionLayer>(std::move(self))),
        norm1(detail::hold<UnaryLayer>(std::move(first_norm))),
        cross_attn(detail::hold<AttentionLayer>(std::move(cross))),
        norm2(detail::hold<UnaryLayer>(std::move(second_norm))),
        mlp(detail::hold<UnaryLayer>(std::move(feed_forward))),
        norm3(detail::hold<UnaryLayer>(std::move(third_norm))),
        dropout(options.dropout()) {}
  Tensor forward(const Tensor& x, const Tensor& memory, const DecoderMasks& masks = {},
                 TransformerWeights* weights = nullptr) const override;
  KVCache::Layer project_memory(const Tensor& memory) const override;
  Tensor forward_next(const Tensor& x, KVCache::Layer& kept, std::int64_t length, const KVCache::Layer& memory,
                      const Tensor& memory_mask) const override;
  KVCache::LayerShape cache_shape() const override { return self_attn->cache_shape(); }
  FIT_FIELDS_DECLARED

  std::shared_ptr<AttentionLayer> self_attn;
  std::shared_ptr<UnaryLayer> norm1;
  std::shared_ptr<AttentionLayer> cross_attn;
  std::shared_ptr<UnaryLayer> norm2, mlp, norm3;
  Dropout dropout;  // of the results of self_attn and cross_attn

 private:
  template <class Self, class Cross>
  Tensor around(const Tensor& x, const Self& self, const Cross& cross) const;
};

/// A stack of encoder layers. With final_norm (by default if norm_first is set), a norm follows.
class TransformerEncoder final : public Layer {
 public:
  TransformerEncoder(const TransformerLayerOptions& options, std::int64_t num_layers);
  /// A stack of these layers, and a norm unless it is null.
  explicit TransformerEncoder(ModuleList<EncoderLayer> stack, std::shared_ptr<UnaryLayer> last = {});
  /// Calls all layers with the same masks. Appends the weights of each layer to `weights` unless it is null.
  Tensor forward(const Tensor& x, const AttentionMasks& masks = {}, TransformerWeights* weights = nullptr) const;
  /// The same for a padding mask, as create_padding_mask() makes it. The output is 0 at padding. Without dropout, only
  /// attention computes with padding: the other layers skip it. A mask without padding goes to forward().
  Tensor forward_unpadded(const Tensor& x, const Tensor& mask) const;
  FIT_FIELDS_DECLARED

  ModuleList<EncoderLayer> layers;
  std::shared_ptr<UnaryLayer> norm;  // or null
};

/// A stack of decoder layers. With final_norm (by default if norm_first is set), a norm follows.
class TransformerDecoder final : public Layer {
 public:
  TransformerDecoder(const TransformerLayerOptions& options, std::int64_t num_layers);
  /// A stack of these layers, and a norm unless it is null.
  explicit TransformerDecoder(ModuleList<DecoderLayer> stack, std::shared_ptr<UnaryLayer> last = {});
  /// x (B, T, d_model), memory (B, S, d_model) -> (B, T, d_model). Appends the weights to `weights` unless it is null.
  Tensor forward(const Tensor& x, const Tensor& memory, const DecoderMasks& masks = {},
                 TransformerWeights* weights = nullptr) const;
  /// A cache for up to max_length positions.
  DecoderCache make_cache(const Tensor& memory, const Tensor& memory_mask, std::int64_t max_length) const;
  /// The outputs for the next positions. They equal causal forward() of the full sequence, except for rounding. Builds
  /// no graph. An Error leaves the cache unchanged.
  Tensor forward_next(const Tensor& x, DecoderCache& cache) const;
  FIT_FIELDS_DECLARED

  ModuleList<DecoderLayer> layers;
  std::shared_ptr<UnaryLayer> norm;  // or null
};

/// The options of Transformer. Set every size whose default is 0, unless its comment says otherwise.
struct TransformerOptions : TransformerLayerOptions {
  FIT_OPTION(std::int64_t, source_vocab) = 0;        ///< The number of tokens of the source.
  FIT_OPTION(std::int64_t, target_vocab) = 0;        ///< The number of tokens of the target.
  FIT_OPTION(std::int64_t, max_length) = 0;          ///< The max length of source and target.
  FIT_OPTION(std::int64_t, num_encoder_layers) = 6;  ///< The number of encoder layers.
  FIT_OPTION(std::int64_t, num_decoder_layers) = 6;  ///< The number of decoder layers.
  FIT_OPTION(bool, tie_weights) = true;              ///< The head shares its weight with target_embedding.
  FIT_INHERITED_OPTIONS(TransformerLayerOptions, d_model, num_heads, hidden, dropout, activation, norm_first, bias,
                        num_kv_heads, eps, final_norm)
};

/// The encoder-decoder model, from ids to logits, with sinusoidal positions. Embeddings start normal with standard
/// deviation 1 / sqrt(d_model), and are multiplied by sqrt(d_model). All other matrices start Xavier-uniform, and
/// biases at 0.
class Transformer final : public Layer {
  TransformerOptions options_;
  Tensor positions_;  // [max_length, d_model]

 public:
  /// Throws Error for sizes that are not positive.
  explicit Transformer(const TransformerOptions& options);
  explicit Transformer(...) = delete;  // give one TransformerOptions()…

  /// source [B, S], target [B, T] (int64) -> logits [B, T, target_vocab] of the token after each target. source_mask
  /// masks padding, as create_padding_mask() makes it. Throws Error past max_length.
  Tensor forward(const Tensor& source, const Tensor& target, const Tensor& source_mask = {},
                 TransformerWeights* weights = nullptr) const;
  /// The memory for the decoder, [B, S, d_model]; 0 at padding.
  Tensor encode(const Tensor& source, const Tensor& source_mask = {}) const;
  /// A cache for decoding targets of these sources.
  DecoderCache make_cache(const Tensor& source, const Tensor& source_mask = {}) const;
  /// The logits for the next targets [B, T], which are appended to the cache. Builds no graph. An Error leaves the
  /// cache unchanged.
  Tensor decode(const Tensor& target, DecoderCache& cache) const;

  /// The options of the constructor.
  const TransformerOptions& options() const { return options_; }
  FIT_FIELDS_DECLARED
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
