#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "fit/attention.hpp"
#include "fit/nn/kv_cache.hpp"
#include "fit/nn/layer.hpp"
#include "fit/nn/linear.hpp"
#include "fit/option.hpp"

/// Attention layers. They project, and pass on to the functions of fit/attention.hpp, where AttentionMasks (a mask, or
/// with it a bias, causality, a window) is explained. Inputs are (B, S, features). Each layer can be called in two
/// ways:
///
///     Tensor y = attention(x, x, x, mask);
///     auto [y, weights] = attention(x, x, x, mask, nn::return_attention);   // the same as forward_with_weights()
///
/// y is the same, bit for bit. The weights are those of each head, (B, H, Sq, Sk), before dropout, and differentiable.
namespace fit::nn {

/// Asks a layer for its weights, too.
struct ReturnAttention {};
inline constexpr ReturnAttention return_attention{};

/// The tokens of a padded batch (B, S, C) without the padding, one behind the other, [N, C]: what layers do to each
/// token by itself costs no more than the tokens that are there. Attention alone needs the sequences.
class Unpadding {
 public:
  /// For a mask (B, 1, S) or (B, 1, 1, S) of padding, as create_padding_mask() makes it, and sequences of its sizes.
  /// Nothing if the mask is another one, or masks no token.
  static std::optional<Unpadding> of(const Tensor& mask, const Shape& sequences);
  /// (B, S, C) -> [N, C]. If there is no token at all, the first place counts as one.
  Tensor remove(const Tensor& x) const;
  /// [N, C] -> (B, S, C). The first token stands for padding: mask it, or zero it.
  Tensor restore(const Tensor& x) const;
  /// x (B, S, C) with 0 at padding.
  Tensor zero_padding(const Tensor& x) const;
  const Tensor& mask() const { return mask_; }

 private:
  Tensor mask_, visible_;  // visible_: boolean (B, S, 1)
  Tensor rows_, places_;   // [N]: of the tokens among all places; [B S]: of the places among the tokens
};

/// Attention of a query to keys and values. An encoder or decoder layer calls it through this class, so a custom class
/// works there, too. It defines the first two functions, and forward_next() with cache_shape() to decode with a cache.
class AttentionLayer : public Layer {
 public:
  virtual Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                         const AttentionMasks& masks = {}) const = 0;
  virtual AttentionResult forward_with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                                               const AttentionMasks& masks = {}) const = 0;

  /// Self-attention of sequences without their padding: x [N, C] -> [N, C].
  virtual Tensor forward_unpadded(const Tensor& x, const Unpadding& padding) const;
  /// Causal self-attention of x, which comes after the `length` positions in `kept`. Its keys and values are appended
  /// there. A mask or bias covers all keys. Builds no graph. The default throws Error.
  virtual Tensor forward_next(const Tensor& x, KVCache::Layer& kept, std::int64_t length,
                              const AttentionMasks& masks = {}) const;
  /// The shapes that forward_next() caches for each position; empty by default.
  virtual KVCache::LayerShape cache_shape() const { return {}; }
  /// The part of attention to a memory that does not depend on the query, computed once for all steps of decoding:
  /// projected keys and values. By default the memory itself, twice.
  virtual KVCache::Layer project_memory(const Tensor& memory) const { return {memory, memory}; }
  /// Attention to a memory of project_memory(). By default forward().
  virtual Tensor forward_projected(const Tensor& query, const KVCache::Layer& memory,
                                   const AttentionMasks& masks = {}) const {
    return (*this)(query, memory.keys, memory.values, masks);
  }
  /// These are calls of this layer: forward(), and with weights forward_with_weights().
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const AttentionMasks& masks = {}) const;
  AttentionResult operator()(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMasks& masks,
                             ReturnAttention) const;  ///< output and weights
  AttentionResult operator()(const Tensor& query, const Tensor& key, const Tensor& value, ReturnAttention) const {
    return (*this)(query, key, value, {}, return_attention);
  }  ///< output and weights
};

/// softmax(Q K^T / (sqrt(D) temperature)) V, without parameters. In training, its default dropout is 0.1. It takes
/// query, key and value as fit::scaled_dot_product_attention() does; the weights have the shape of the scores.
class ScaledDotProductAttention final : public AttentionLayer {
 public:
  /// `scale` takes the place of 1 / (sqrt(D) temperature).
  explicit ScaledDotProductAttention(double dropout = 0.1, double temperature = 1.0, std::optional<double> scale = {});

  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionMasks& masks = {}) const override;
  AttentionResult forward_with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                                       const AttentionMasks& masks = {}) const override;

  /// fit::attend() with heads anywhere, with a cache, or with weights, under the options that options() makes.
  AttentionResult attend(const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& options) const;

  /// The options of fit::attend() with this layer's numbers, and its dropout in training.
  AttentionOptions options(const AttentionMasks& masks = {}) const;

  /// The probability in training.
  double dropout() const { return dropout_; }

  void fields(Fields& f) override;
  std::string describe() const override;

 private:
  double dropout_, temperature_;
  std::optional<double> scale_;
};

/// The options of MultiHeadAttention.
struct MultiHeadAttentionOptions {
  FIT_OPTION(double, dropout) = 0.1;              ///< The dropout of the weights, in training.
  FIT_OPTION(bool, bias) = true;                  ///< Whether the four projections have a bias.
  FIT_OPTION(std::optional<bool>, qkv_bias);      ///< The same for w_q, w_k and w_v; `bias` if not given.
  FIT_OPTION(std::optional<std::int64_t>, kdim);  ///< The features of the key; d_model if not given.
  FIT_OPTION(std::optional<std::int64_t>, vdim);  ///< The features of the value; d_model if not given.
  /// The heads of keys and values, which may be fewer than those of queries; num_heads if not given.
  FIT_OPTION(std::optional<std::int64_t>, num_kv_heads);
  FIT_OPTION(bool, causal) = false;  ///< Makes every call causal.
  /// Above 1 the weights become more alike, below 1 less.
  FIT_OPTION(double, temperature) = 1.0;
  FIT_OPTION(std::optional<double>, scale);  ///< The factor of the scores, instead of 1 / (sqrt(d_k) temperature).
  /// Appends a trained key and value, bias_k and bias_v, to which every query attends. The weights have a column for
  /// them. Not with alibi or score, and not with a cache.
  FIT_OPTION(bool, add_bias_kv) = false;
  /// Appends a key and value of zeros, after those of add_bias_kv; otherwise the same.
  FIT_OPTION(bool, add_zero_attn) = false;
};

/// Attention in several heads side by side (Vaswani et al. 2017), by default with a dropout of 0.1 in training:
/// w_o(concat over heads of softmax(q_h k_h^T / (sqrt(d_k) temperature)) v_h), where q, k, v = w_q(query), w_k(key),
/// w_v(value) and head h has the features h d_k … (h + 1) d_k - 1.
class MultiHeadAttention final : public AttentionLayer {
  std::int64_t d_model_, num_heads_;
  MultiHeadAttentionOptions options_;

 public:
  /// Throws Error unless num_heads divides d_model.
  MultiHeadAttention(std::int64_t d_model, std::int64_t num_heads, double dropout = 0.1, bool bias = true);
  MultiHeadAttention(std::int64_t d_model, std::int64_t num_heads, const MultiHeadAttentionOptions& options);
  explicit MultiHeadAttention(...) = delete;  // give (d_model, num_heads, dropout), or options at the end

  /// query (B, Sq, d_model), key (B, Sk, kdim), value (B, Sk, vdim) -> (B, Sq, d_model).
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionMasks& masks = {}) const override;
  AttentionResult forward_with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                                       const AttentionMasks& masks = {}) const override;

  Tensor forward_unpadded(const Tensor& x, const Unpadding& padding) const override;
  Tensor forward_next(const Tensor& x, KVCache::Layer& kept, std::int64_t length,
                      const AttentionMasks& masks = {}) const override;
  KVCache::LayerShape cache_shape() const override;
  KVCache::Layer project_memory(const Tensor& memory) const override;
  Tensor forward_projected(const Tensor& query, const KVCache::Layer& memory,
                           const AttentionMasks& masks = {}) const override;

  /// Features of the queries and of the result.
  std::int64_t d_model() const { return d_model_; }
  /// Heads of the queries.
  std::int64_t num_heads() const { return num_heads_; }
  /// Features of a head: d_model / num_heads.
  std::int64_t d_k() const { return d_model_ / num_heads_; }
  /// What it was made with.
  const MultiHeadAttentionOptions& options() const { return options_; }

  void fields(Fields& f) override;
  std::string describe() const override;

  Linear w_q, w_k, w_v, w_o;            // the projections of query, key, value and the heads' outputs
  Parameter bias_k, bias_v;             // [1, 1, num_kv_heads d_k], or undefined
  ScaledDotProductAttention attention;  // of each head

 private:
  AttentionMasks append_keys(Tensor& k, Tensor& v, const AttentionMasks& masks, std::int64_t queries) const;
};

namespace detail {

/// What the layers around one MultiHeadAttention have in common.
class AroundMultiHead : public Layer {
 public:
  explicit AroundMultiHead(std::int64_t d_model, std::int64_t num_heads = 8, double dropout = 0.1)
      : multihead_attn(d_model, num_heads, dropout) {}
  AroundMultiHead(std::int64_t d_model, std::int64_t num_heads, const MultiHeadAttentionOptions& options)
      : multihead_attn(d_model, num_heads, options) {}

  MultiHeadAttention multihead_attn;

 protected:
  Tensor attended(const Tensor& query, const Tensor& key_value, const AttentionMasks& masks) const;
  AttentionResult attended_with_weights(const Tensor& query, const Tensor& key_value,
                                        const AttentionMasks& masks) const;
};

}  // namespace detail

/// Attention of a sequence to itself, by default with a dropout of 0.1 in training: query, key and value are x.
class SelfAttention final : public detail::AroundMultiHead {
 public:
  using AroundMultiHead::AroundMultiHead;
  explicit SelfAttention(...) = delete;  // give (d_model, num_heads, dropout), or options at the end

  /// x (B, S, d_model) -> (B, S, d_model).
  Tensor forward(const Tensor& x, const AttentionMasks& masks = {}) const { return attended(x, x, masks); }
  AttentionResult forward_with_weights(const Tensor& x, const AttentionMasks& masks = {}) const {
    return attended_with_weights(x, x, masks);
  }
  Tensor operator()(const Tensor& x, const AttentionMasks& masks = {}) const { return forward(x, masks); }
  AttentionResult operator()(const Tensor& x, const AttentionMasks& masks, ReturnAttention) const {
    return forward_with_weights(x, masks);
  }
  AttentionResult operator()(const Tensor& x, ReturnAttention) const { return forward_with_weights(x); }
  void fields(Fields& f) override;
};

/// Attention of one sequence to another, of any length, by default with a dropout of 0.1 in training: queries from a
/// decoder, keys and values from an encoder.
class CrossAttention final : public detail::AroundMultiHead {
 public:
  using AroundMultiHead::AroundMultiHead;
  explicit CrossAttention(...) = delete;  // give (d_model, num_heads, dropout), or options at the end

  /// query (B, Sq, d_model), key_value (B, Sk, d_model) -> (B, Sq, d_model).
  Tensor forward(const Tensor& query, const Tensor& key_value, const AttentionMasks& masks = {}) const {
    return attended(query, key_value, masks);
  }
  AttentionResult forward_with_weights(const Tensor& query, const Tensor& key_value,
                                       const AttentionMasks& masks = {}) const {
    return attended_with_weights(query, key_value, masks);
  }
  Tensor operator()(const Tensor& query, const Tensor& key_value, const AttentionMasks& masks = {}) const {
    return forward(query, key_value, masks);
  }
  AttentionResult operator()(const Tensor& query, const Tensor& key_value, const AttentionMasks& masks,
                             ReturnAttention) const {
    return forward_with_weights(query, key_value, masks);
  }
  AttentionResult operator()(const Tensor& query, const Tensor& key_value, ReturnAttention) const {
    return forward_with_weights(query, key_value);
  }
  void fields(Fields& f) override;
};

/// Self-attention to a position itself and those before it, by default with a dropout of 0.1 in training. A mask, say
/// of padding, combines with that.
class CausalSelfAttention final : public detail::AroundMultiHead {
 public:
  using AroundMultiHead::AroundMultiHead;
  explicit CausalSelfAttention(...) = delete;  // give (d_model, num_heads, dropout), or options at the end

  /// x (B, S, d_model) -> (B, S, d_model).
  Tensor forward(const Tensor& x, const AttentionMasks& masks = {}) const {
    return attended(x, x, AttentionMasks(masks).causal(true));
  }
  AttentionResult forward_with_weights(const Tensor& x, const AttentionMasks& masks = {}) const {
    return attended_with_weights(x, x, AttentionMasks(masks).causal(true));
  }
  /// See MultiHeadAttention::forward_next().
  Tensor forward_next(const Tensor& x, KVCache::Layer& kept, std::int64_t length,
                      const AttentionMasks& masks = {}) const;
  /// forward() and forward_with_weights().
  Tensor operator()(const Tensor& x, const AttentionMasks& masks = {}) const { return forward(x, masks); }
  AttentionResult operator()(const Tensor& x, const AttentionMasks& masks, ReturnAttention) const {
    return forward_with_weights(x, masks);
  }
  AttentionResult operator()(const Tensor& x, ReturnAttention) const { return forward_with_weights(x); }
  void fields(Fields& f) override;
};

}  // namespace fit::nn
