#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "fit/attention/attention.hpp"
#include "fit/base/option.hpp"
#include "fit/nn/attention/attention_context.hpp"
#include "fit/nn/attention/sequence_layer.hpp"
#include "fit/nn/layer/layer.hpp"
#include "fit/nn/layers/linear.hpp"

/// Attention layers. They project, and pass on to attend() of fit/attention/attention.hpp. Inputs are (B, S, features).
/// Each layer can be called in two ways:
///
///     Tensor y = attention(x, x, x, mask);
///     auto [y, weights] = attention(x, x, x, mask, nn::return_attention);
///
/// y is the same, bit for bit. The weights are those of each head, (B, H, Sq, Sk), before dropout, and differentiable.
/// The last argument is an AttentionContext: a mask stands for one, and so do AttentionTerms (a bias, causality …).
namespace fit::nn {

/// Attention of a query to keys and values. An encoder or decoder layer calls it through this class, so a custom class
/// works there, too: it defines forward(), which projects and calls context.attend(), and cache_shape() to decode with
/// a cache.
class AttentionLayer : public Layer {
 public:
  virtual Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                         const AttentionContext& context) const = 0;
  /// What the layer keeps of each position in a cache. Empty by default: a call with a cache throws Error.
  virtual KVCache::LayerShape cache_shape() const { return {}; }

  /// A call of the layer.
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const AttentionContext& context = {}) const;
  /// Output and weights.
  AttentionResult operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                             const AttentionContext& context, ReturnAttention) const;
  AttentionResult operator()(const Tensor& query, const Tensor& key, const Tensor& value, ReturnAttention) const {
    return (*this)(query, key, value, {}, return_attention);
  }

 protected:
  AttentionLayer() {}
  /// For layers whose forward() takes sequences without padding, [N, C], and AttentionContext::padding.
  struct TakesUnpadded {};
  explicit AttentionLayer(TakesUnpadded) : takes_unpadded_(true) {}

 private:
  bool takes_unpadded_ = false;
};

/// softmax(Q K^T / (sqrt(D) temperature)) V, without parameters. In training, its default dropout is 0.1. It takes
/// query, key and value as fit::scaled_dot_product_attention() does; the weights have the shape of the scores.
class ScaledDotProductAttention final : public AttentionLayer {
 public:
  /// `scale` takes the place of 1 / (sqrt(D) temperature). `generator`, for dropout, must outlive the layer. Throws
  /// Error for dropout outside 0 … 1, a temperature that is not positive and a scale that is not finite.
  explicit ScaledDotProductAttention(double dropout = 0.1, double temperature = 1.0, std::optional<double> scale = {},
                                     Generator& generator = default_generator());
  /// The same for a layer that has this one: `op`, its name, is in errors.
  ScaledDotProductAttention(const char* op, const AttentionOptions& numbers);

  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionContext& context = {}) const override;
  /// The same for heads anywhere. `own`: what the layer that has this one adds to the context.
  Tensor attend(const Heads& q, const Heads& k, const Heads& v, const AttentionContext& context = {},
                const AttentionTerms& own = {}) const;

  /// The probability in training.
  double dropout() const { return numbers_.dropout(); }

  void fields(Fields& f) override;
  std::string describe() const override;

 private:
  AttentionOptions numbers_;  // dropout, temperature, scale, generator
};

/// proj(z), the end of an attention of your own: z [B, S, H D] or [N, H D] are the outputs of the heads, side by side.
/// Offers nn::Lens what each head adds, as "head_out", [B, H, S, C] or [1, H, N, C].
Tensor project_heads(const Linear& proj, const Tensor& z, std::int64_t num_heads);

/// The options of MultiHeadAttention. A number stands for its dropout: `nn::SelfAttention(64, 4, 0.2)`.
struct MultiHeadAttentionOptions {
  MultiHeadAttentionOptions(double dropout = 0.1) : dropout_(dropout) {}

  FIT_OPTION(double, dropout);                ///< The dropout of the weights, in training.
  FIT_OPTION(bool, bias) = true;              ///< Whether the four projections have a bias.
  FIT_OPTION(std::optional<bool>, qkv_bias);  ///< The same for w_q, w_k and w_v; `bias` if not given.
  /// The features of the query; d_model if not given. With kdim and vdim, inputs of d_in features give d_model.
  FIT_OPTION(std::optional<std::int64_t>, qdim);
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
  /// The source of the random numbers of dropout; it must outlive the layer. Null: the default generator.
  FIT_OPTION(Generator*, generator) = nullptr;
};

/// Attention in several heads side by side (Vaswani et al. 2017), by default with a dropout of 0.1 in training:
/// w_o(concat over heads of softmax(q_h k_h^T / (sqrt(d_k) temperature)) v_h), where q, k, v = w_q(query), w_k(key),
/// w_v(value) and head h has the features h d_k … (h + 1) d_k - 1.
class MultiHeadAttention final : public AttentionLayer {
  std::int64_t d_model_, num_heads_;
  MultiHeadAttentionOptions options_;

 public:
  /// Throws Error unless num_heads divides d_model.
  MultiHeadAttention(std::int64_t d_model, std::int64_t num_heads, const MultiHeadAttentionOptions& options = {});
  MultiHeadAttention(std::int64_t d_model, std::int64_t num_heads, double dropout, bool bias);
  explicit MultiHeadAttention(...) = delete;  // give (d_model, num_heads, dropout), or options at the end
  /// The same for a layer that has this one: `op`, its name, is in errors.
  MultiHeadAttention(const char* op, std::int64_t d_model, std::int64_t num_heads,
                     const MultiHeadAttentionOptions& options);

  /// query (B, Sq, qdim), key (B, Sk, kdim), value (B, Sk, vdim) -> (B, Sq, d_model).
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionContext& context = {}) const override;
  KVCache::LayerShape cache_shape() const override;

  /// Features of the projected queries and of the result.
  std::int64_t d_model() const { return d_model_; }
  /// Heads of the queries.
  std::int64_t num_heads() const { return num_heads_; }
  /// Features of a head: d_model / num_heads.
  std::int64_t d_k() const { return d_model_ / num_heads_; }
  /// What it was made with.
  const MultiHeadAttentionOptions& options() const { return options_; }

  void fields(Fields& f) override;
  std::string describe() const override;
  std::vector<std::pair<std::string, std::string>> saved_options() const override;

  Linear w_q, w_k, w_v, w_o;            // the projections of query, key, value and the heads' outputs
  Parameter bias_k, bias_v;             // [1, 1, num_kv_heads d_k], or undefined
  ScaledDotProductAttention attention;  // of each head

 private:
  // Projected keys and values (B, Sk, num_kv_heads d_k), and the context of attention to them.
  struct Keys {
    Tensor k, v;
    AttentionContext context;
  };
  Keys keys_of(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionContext& context) const;
  Keys with_extra_keys(Keys keys, std::int64_t queries) const;
};

/// Attention of a sequence to itself, by default with a dropout of 0.1 in training: query, key and value are x.
class SelfAttention : public SequenceLayer {
 public:
  explicit SelfAttention(std::int64_t d_model, std::int64_t num_heads = 8,
                         const MultiHeadAttentionOptions& options = {});
  explicit SelfAttention(...) = delete;  // give (d_model, num_heads, dropout), or options at the end

  using SequenceLayer::forward;
  /// x (B, S, d_model) -> (B, S, d_model).
  Tensor forward(const Tensor& x, const AttentionContext& context) const override;
  KVCache::LayerShape cache_shape() const override { return multihead_attn.cache_shape(); }
  void fields(Fields& f) override;

  MultiHeadAttention multihead_attn;

 protected:
  /// For a derived class: `op`, its name, is in errors.
  SelfAttention(const char* op, std::int64_t d_model, std::int64_t num_heads, const MultiHeadAttentionOptions& options);
};

/// Self-attention to a position itself and those before it, by default with a dropout of 0.1 in training. A mask, say
/// of padding, combines with that.
class CausalSelfAttention final : public SelfAttention {
 public:
  explicit CausalSelfAttention(std::int64_t d_model, std::int64_t num_heads = 8,
                               const MultiHeadAttentionOptions& options = {});
  explicit CausalSelfAttention(...) = delete;  // give (d_model, num_heads, dropout), or options at the end

  void fields(Fields& f) override;
};

/// Attention of one sequence to another, of any length, by default with a dropout of 0.1 in training: queries from a
/// decoder, keys and values from an encoder.
class CrossAttention final : public Layer {
 public:
  explicit CrossAttention(std::int64_t d_model, std::int64_t num_heads = 8,
                          const MultiHeadAttentionOptions& options = {});
  explicit CrossAttention(...) = delete;  // give (d_model, num_heads, dropout), or options at the end

  /// query (B, Sq, d_model), key_value (B, Sk, d_model) -> (B, Sq, d_model).
  Tensor forward(const Tensor& query, const Tensor& key_value, const AttentionContext& context = {}) const;
  /// A call of the layer.
  Tensor operator()(const Tensor& query, const Tensor& key_value, const AttentionContext& context = {}) const;
  /// Output and weights.
  AttentionResult operator()(const Tensor& query, const Tensor& key_value, const AttentionContext& context,
                             ReturnAttention) const;
  AttentionResult operator()(const Tensor& query, const Tensor& key_value, ReturnAttention) const {
    return (*this)(query, key_value, {}, return_attention);
  }
  void fields(Fields& f) override;

  MultiHeadAttention multihead_attn;
};

}  // namespace fit::nn
