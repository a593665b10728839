#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/attention/attention.hpp"
#include "fit/nn/attention/kv_cache.hpp"
#include "fit/nn/attention/sequence_layer.hpp"
#include "fit/nn/layer/init.hpp"
#include "fit/nn/layer/layer.hpp"
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/dropout.hpp"
#include "fit/nn/layers/feed_forward.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/layers/norm.hpp"

/// The transformer of Vaswani et al. 2017: encoder and decoder layers, their stacks, and the full model. See
/// fit/attention/attention.hpp for masks.
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

/// Self-attention and feed-forward, by default with a dropout of 0.1 in training: x (B, S, d_model) -> (B, S, d_model).
class TransformerEncoderLayer final : public SequenceLayer {
  bool norm_first_;

 public:
  explicit TransformerEncoderLayer(const TransformerLayerOptions& options);
  explicit TransformerEncoderLayer(...) = delete;  // give one TransformerLayerOptions()…
  /// A layer of layers that are moved in, or given as std::shared_ptr. Of the options, dropout and norm_first count.
  template <class Attention, class Norm1, class MLP, class Norm2>
  TransformerEncoderLayer(Attention attention, Norm1 first_norm, MLP feed_forward, Norm2 second_norm,
                          const TransformerLayerOptions& options = {})
      : SequenceLayer(TakesUnpadded()),
        norm_first_(options.norm_first()),
        self_attn(detail::hold_one<AttentionLayer>("TransformerEncoderLayer", std::move(attention))),
        norm1(detail::hold_one<UnaryLayer>("TransformerEncoderLayer", std::move(first_norm))),
        mlp(detail::hold_one<UnaryLayer>("TransformerEncoderLayer", std::move(feed_forward))),
        norm2(detail::hold_one<UnaryLayer>("TransformerEncoderLayer", std::move(second_norm))),
        dropout(options.dropout()) {}
  using SequenceLayer::forward;
  Tensor forward(const Tensor& x, const AttentionContext& context) const override;
  KVCache::LayerShape cache_shape() const override { return self_attn->cache_shape(); }
  void fields(Fields& f) override;
  std::vector<std::pair<std::string, std::string>> saved_options() const override;

  std::shared_ptr<AttentionLayer> self_attn;
  std::shared_ptr<UnaryLayer> norm1, mlp, norm2;
  Dropout dropout;  // of the result of self_attn
};

/// The terms of a decoder's attention: masks, biases added to the scores, windows.
struct DecoderTerms {
  FIT_OPTION(AttentionTerms, self);    ///< For self-attention, scores (B, H, T, T).
  FIT_OPTION(AttentionTerms, memory);  ///< For attention of targets to the memory, scores (B, H, T, S).
  FIT_OPTION(bool, causal) = true;     ///< A target attends to itself and earlier targets; combines with `self`.
};

/// The context in which a decoder layer attends to itself and to a memory (B, S, C). Appends the weights of each
/// attention to `weights` unless it is null.
AttentionContext decoder_context(const Tensor& memory, const DecoderTerms& terms = {},
                                 TransformerWeights* weights = nullptr);

/// The state of a decoder between decoding steps: its own keys and values, and those of the memory. The first step
/// computes the latter.
struct DecoderCache {
  KVCache self;
  std::vector<KVCache::Layer> memory;  ///< (B, S, Hkv D) for each layer, or undefined
  Tensor memory_mask;
  std::vector<std::int64_t> items;  ///< the memory that each row attends to
  Tensor source;                    ///< the memory itself, (B, S, C)
  /// Replaces row i by the old row rows[i]. Throws Error for a row that does not exist, and then changes nothing.
  void select(const std::vector<std::int64_t>& rows);
};

/// Self-attention, attention to the memory and feed-forward, by default with a dropout of 0.1 in training. The memory
/// is the encoder's output.
class TransformerDecoderLayer final : public SequenceLayer {
  bool norm_first_;

 public:
  explicit TransformerDecoderLayer(const TransformerLayerOptions& options);
  explicit TransformerDecoderLayer(...) = delete;  // give one TransformerLayerOptions()…
  /// A layer of layers that are moved in, or given as std::shared_ptr. Of the options, dropout and norm_first count.
  template <class Self, class Norm1, class Cross, class Norm2, class MLP, class Norm3>
  TransformerDecoderLayer(Self self, Norm1 first_norm, Cross cross, Norm2 second_norm, MLP feed_forward,
                          Norm3 third_norm, const TransformerLayerOptions& options = {})
      : norm_first_(options.norm_first()),
        self_attn(detail::hold_one<AttentionLayer>("TransformerDecoderLayer", std::move(self))),
        norm1(detail::hold_one<UnaryLayer>("TransformerDecoderLayer", std::move(first_norm))),
        cross_attn(detail::hold_one<AttentionLayer>("TransformerDecoderLayer", std::move(cross))),
        norm2(detail::hold_one<UnaryLayer>("TransformerDecoderLayer", std::move(second_norm))),
        mlp(detail::hold_one<UnaryLayer>("TransformerDecoderLayer", std::move(feed_forward))),
        norm3(detail::hold_one<UnaryLayer>("TransformerDecoderLayer", std::move(third_norm))),
        dropout(options.dropout()) {}
  using SequenceLayer::forward;
  /// The context has the memory: see decoder_context().
  Tensor forward(const Tensor& x, const AttentionContext& context) const override;
  KVCache::LayerShape cache_shape() const override { return self_attn->cache_shape(); }
  using SequenceLayer::operator();
  /// A call with decoder_context(memory, terms): x (B, T, C), memory (B, S, C) -> (B, T, C).
  Tensor operator()(const Tensor& x, const Tensor& memory, const DecoderTerms& terms = {}) const;
  void fields(Fields& f) override;
  std::vector<std::pair<std::string, std::string>> saved_options() const override;

  std::shared_ptr<AttentionLayer> self_attn;
  std::shared_ptr<UnaryLayer> norm1;
  std::shared_ptr<AttentionLayer> cross_attn;
  std::shared_ptr<UnaryLayer> norm2, mlp, norm3;
  Dropout dropout;  // of the results of self_attn and cross_attn
};

/// A stack of encoder layers. With final_norm (by default if norm_first is set), a norm follows.
class TransformerEncoder final : public Layer {
 public:
  TransformerEncoder(const TransformerLayerOptions& options, std::int64_t num_layers);
  /// A stack of these layers, and a norm unless it is null.
  explicit TransformerEncoder(ModuleList<SequenceLayer> stack, std::shared_ptr<UnaryLayer> last = {});
  /// Calls all layers with one context. Its `weights` get one tensor for each layer, undefined for one without
  /// attention. With padding (see without_padding()), x is (B, S, C), and the output is 0 at padding.
  Tensor forward(const Tensor& x, const AttentionContext& context = {}) const;
  FIT_FIELDS_DECLARED

  ModuleList<SequenceLayer> layers;
  std::shared_ptr<UnaryLayer> norm;  // or null
};

/// A stack of decoder layers. With final_norm (by default if norm_first is set), a norm follows.
class TransformerDecoder final : public Layer {
 public:
  TransformerDecoder(const TransformerLayerOptions& options, std::int64_t num_layers);
  /// A stack of these layers, and a norm unless it is null.
  explicit TransformerDecoder(ModuleList<SequenceLayer> stack, std::shared_ptr<UnaryLayer> last = {});
  /// x (B, T, d_model), memory (B, S, d_model) -> (B, T, d_model). Appends the weights to `weights` unless it is null.
  Tensor forward(const Tensor& x, const Tensor& memory, const DecoderTerms& terms = {},
                 TransformerWeights* weights = nullptr) const;
  /// The outputs for the next positions. They equal causal forward() of the full sequence, except for rounding. Builds
  /// no graph. An Error leaves the length of the cache unchanged.
  Tensor forward(const Tensor& x, DecoderCache& cache) const;
  /// A cache for up to max_length positions.
  DecoderCache make_cache(const Tensor& memory, const Tensor& memory_mask, std::int64_t max_length) const;
  FIT_FIELDS_DECLARED

  ModuleList<SequenceLayer> layers;
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
  /// A cache for decoding targets of these sources. Throws Error, as decode() does, with dropout in training.
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
