#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fit/attention/attention.hpp"
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
#include "fit/nn/layers/position.hpp"
#include "fit/ops/ops.hpp"

/// A decoder-only transformer (Radford et al. 2019). The parameters have GPT-2's names: wte, wpe, h.0.ln_1,
/// h.0.attn.qkv, h.0.attn.proj, h.0.ln_2, h.0.mlp.fc, h.0.mlp.proj, ln_f, head.
namespace fit::nn {

/// How a model encodes the position of a token.
enum class Positions {
  none,
  learned,     ///< a trained vector for each position, added to the token's vector
  sinusoidal,  ///< sinusoidal_positions(), added to the token's vector
  rotary,      ///< queries and keys are rotated, see fit::rotary()
  alibi,       ///< a bias lowers scores with the distance, see AttentionOptions::alibi
};
const char* name_of(Positions p);  ///< "none", "learned", …

/// The norms of a model: LayerNorm, RMSNorm, or none.
enum class Norm { layer, rms, none };
/// The places of the norms of a residual branch f.
enum class NormPlace {
  before,  ///< x + f(norm(x)), as in GPT-2
  after,   ///< x + norm(f(x)), as in OLMo 2
  both,    ///< x + norm(f(norm(x))), as in Gemma 2
};

/// The options of GPT. Set every size whose default is 0, unless its comment says otherwise.
struct GPTOptions {
  FIT_OPTION(std::int64_t, vocab_size) = 0;      ///< The number of tokens.
  FIT_OPTION(std::int64_t, context_length) = 0;  ///< The max length of a sequence.
  FIT_OPTION(std::int64_t, num_layers) = 0;      ///< The number of blocks.
  FIT_OPTION(std::int64_t, num_heads) = 0;       ///< The number of query heads.
  FIT_OPTION(std::int64_t, d_model) = 0;         ///< The number of features of a token.
  FIT_OPTION(double, dropout) = 0;               ///< For embeddings, attention weights and residual branches.
  FIT_OPTION(bool, bias) = true;                 ///< Whether projections and norms have a bias.
  /// The number of key and value heads; num_heads if 0. Fewer than num_heads gives grouped-query attention.
  FIT_OPTION(std::int64_t, num_kv_heads) = 0;
  FIT_OPTION(Positions, positions) = Positions::learned;       ///< How the model encodes positions.
  FIT_OPTION(bool, tie_weights) = true;                        ///< The head shares its weight with wte.
  FIT_OPTION(std::int64_t, hidden) = 0;                        ///< The hidden features of the MLP; 4 d_model if 0.
  FIT_OPTION(Activation, activation) = Activation::gelu_tanh;  ///< The activation of the MLP.
  FIT_OPTION(RotaryLayout, rotary_layout) = RotaryLayout::half_split;  ///< For Positions::rotary.
  FIT_OPTION(RotaryTableOptions, rotary);                              ///< For Positions::rotary: base, scaling …
  /// The same for the layers that have a window, as in Gemma 3; `rotary` if not given.
  FIT_OPTION(std::optional<RotaryTableOptions>, local_rotary);
  /// How many first features R of a head rotate, as a head of R features: half_split pairs i and i + R/2 (GPT-NeoX); 0:
  /// all. `rotary.features` pairs i and i + D/2 instead.
  FIT_OPTION(std::int64_t, rotary_features) = 0;
  FIT_OPTION(std::int64_t, window) = 0;  ///< How many last positions a query attends to, with its own; 0: all.
  /// A window for each layer, instead of `window`: layer i has windows[i % size]. {128, 128, 0} is a usual pattern.
  FIT_OPTION(std::vector<std::int64_t>, windows);
  FIT_OPTION(std::int64_t, head_size) = 0;                ///< The features of a head; d_model / num_heads if 0.
  FIT_OPTION(std::optional<bool>, qkv_bias);              ///< Whether qkv has a bias; `bias` if not given.
  FIT_OPTION(Norm, norm) = Norm::layer;                   ///< The kind of all norms.
  FIT_OPTION(double, norm_eps) = 0;                       ///< Of all norms; 0: LayerNorm's 1e-5, or RMSNorm's 1e-6.
  FIT_OPTION(bool, norm_weights) = true;                  ///< Whether LayerNorms have a weight, and with `bias` a bias.
  FIT_OPTION(NormPlace, norm_place) = NormPlace::before;  ///< Where the norms of a block are.
  FIT_OPTION(bool, qk_norm) = false;  ///< RMSNorm of each query and key, before they are rotated (Qwen 3).
  /// With qk_norm: one norm over the features of all heads of queries, and one of keys (OLMo 2).
  FIT_OPTION(bool, qk_norm_across_heads) = false;
  FIT_OPTION(bool, parallel) = false;        ///< x + attn(ln_1(x)) + mlp(ln_2(x)): both branches read x (GPT-NeoX).
  FIT_OPTION(bool, shared_norm) = false;     ///< With parallel: both branches read ln_1(x); there is no ln_2 (Phi).
  FIT_OPTION(bool, attention_only) = false;  ///< The blocks have no MLP (Elhage et al. 2021).
  FIT_OPTION(bool, head_bias) = false;       ///< Whether the head has a bias; not with tie_weights.
  FIT_OPTION(double, embedding_scale) = 1;   ///< Multiplies the tokens' vectors; sqrt(d_model) in Gemma.
  FIT_OPTION(std::optional<double>, attention_scale);  ///< Multiplies the scores; 1 / sqrt(head_size) if not given.
  FIT_OPTION(bool, head_gates) = false;                ///< Multiplies head h by sigmoid(gate(x)[h]) (Qiu et al. 2025).
  FIT_OPTION(bool, value_embeddings) = false;   ///< Adds an embedding of each token to its values (Zhou et al. 2024).
  FIT_OPTION(double, logit_cap) = 0;            ///< The logits become cap tanh(logits / cap) (Gemma 2); 0: no cap.
  FIT_OPTION(double, attention_logit_cap) = 0;  ///< The same for the scores of attention (attn_logit_softcapping).
  /// Recomputes each block in backward() instead of keeping its results: see checkpoint(). Not with past keys and
  /// values as tensors.
  FIT_OPTION(bool, checkpoint_blocks) = false;
};

/// Causal self-attention with one projection for queries, keys and values: x (B, T, d_model) -> (B, T, d_model). The
/// options need no num_layers.
class GPTAttention final : public SequenceLayer {
  GPTOptions options_;
  Tensor rotary_;  // rotary_table() for the features that rotate, or undefined

 public:
  /// `rotary` is the table for Positions::rotary. The constructor makes it if it is not given.
  explicit GPTAttention(const GPTOptions& options, const Tensor& rotary = {});
  /// The same for a layer that has this one: `op`, its name, is in errors.
  GPTAttention(const char* op, const GPTOptions& options, const Tensor& rotary);
  using SequenceLayer::forward;
  Tensor forward(const Tensor& x, const AttentionContext& context) const override;
  KVCache::LayerShape cache_shape() const override;
  FIT_FIELDS_DECLARED
  std::string describe() const override;

  Linear qkv;  // [(num_heads + 2 num_kv_heads) D, d_model]: rows for queries, then keys, then values
  std::optional<RMSNorm> q_norm, k_norm;     // [D], or none
  std::optional<Embedding> value_embedding;  // [vocab_size, num_kv_heads D], or none
  ScaledDotProductAttention attention;
  std::optional<Linear> gate;  // [num_heads, d_model], or none
  Linear proj;                 // [d_model, num_heads D]
  Dropout dropout;

 private:
  // The queries, keys and values. Queries and keys are normalised and turned.
  std::array<Heads, 3> projected(const Tensor& x, const AttentionContext& context) const;
  // The values with the embeddings of their tokens.
  Heads with_embeddings(const Heads& v, const AttentionContext& context) const;
};

/// A block: y = x + post_ln_1(attn(ln_1(x))), then y + post_ln_2(mlp(ln_2(y))). A norm that is null is left out. With
/// the option `parallel`, the second branch reads x instead of y, and with `shared_norm`, too, ln_1(x). Without an MLP,
/// y is the result.
class GPTBlock final : public SequenceLayer {
  bool parallel_ = false, shared_norm_ = false;

 public:
  /// The block of GPT(options), which need no num_layers.
  explicit GPTBlock(const GPTOptions& options, const Tensor& rotary = {});
  /// The same for a layer that has this one: `op`, its name, is in errors.
  GPTBlock(const char* op, const GPTOptions& options, const Tensor& rotary);
  /// A block of layers that are moved in, or given as std::shared_ptr:
  ///
  ///     nn::GPTBlock block(nn::RMSNorm(64), Attention(), nn::RMSNorm(64), nn::FeedForward(64, 256));
  template <class Norm1, class Attention, class Norm2, class MLP>
  GPTBlock(Norm1 norm1, Attention attention, Norm2 norm2, MLP feed_forward)
      : ln_1(detail::hold<UnaryLayer>(std::move(norm1))),
        attn(detail::hold_one<SequenceLayer>("GPTBlock", std::move(attention))),
        ln_2(detail::hold<UnaryLayer>(std::move(norm2))),
        mlp(detail::hold<UnaryLayer>(std::move(feed_forward))) {}
  using SequenceLayer::forward;
  Tensor forward(const Tensor& x, const AttentionContext& context) const override;
  KVCache::LayerShape cache_shape() const override { return attn->cache_shape(); }
  FIT_FIELDS_DECLARED

  std::shared_ptr<UnaryLayer> ln_1;
  std::shared_ptr<SequenceLayer> attn;
  std::shared_ptr<UnaryLayer> ln_2, mlp, post_ln_1, post_ln_2;
};

/// The model. The initial weights are normal with standard deviation 0.02. For the output projections of residual
/// branches (proj) it is 0.02 / sqrt(2 num_layers). Biases start at 0.
///
///     nn::GPT gpt(nn::GPTOptions().vocab_size(65).context_length(64).num_layers(4).num_heads(4).d_model(128));
///     gpt.loss(ids, targets).backward();
class GPT final : public Layer {
  GPTOptions options_;
  Tensor sinusoids_;  // [context_length, d_model], or undefined

 public:
  /// Throws Error for sizes that are not positive, or if num_heads does not divide d_model.
  explicit GPT(const GPTOptions& options);
  explicit GPT(...) = delete;  // give one GPTOptions()…
  /// A GPT of these blocks, with their initial values. The options describe the rest: tokens, positions, final norm.
  ///
  ///     nn::ModuleList<nn::SequenceLayer> blocks;
  ///     for (int i = 0; i < 4; ++i) blocks.add(MyBlock());
  ///     nn::GPT gpt(nn::GPTOptions().vocab_size(65).context_length(64).d_model(128), std::move(blocks));
  GPT(const GPTOptions& options, ModuleList<SequenceLayer> blocks);

  /// The model of a file that save_weights() or a Checkpoint with the part "model" has written, with its options.
  /// Weights of 8 or 4 bits stay what they are; activations are those of quantize_() with weights alone. Throws Error
  /// for a file without options, or with adapters: make the model, and give it those by add_lora(). Throws FileError
  /// for one that is damaged, or whose options ask for far more weights than it has.
  static GPT load(const std::string& path);

  /// ids [B, T] (int64) -> logits [B, T, vocab_size]. Throws Error if T is more than context_length.
  Tensor forward(const Tensor& ids) const;
  /// The same for documents packed in each row, as data::pack_collate() makes them: `documents` and `positions` are
  /// int64 [B, T]. A token attends within its document, and has its position there: the logits are those of each
  /// document alone. Only the positions must be below context_length.
  Tensor forward(const Tensor& ids, const Tensor& documents, const Tensor& positions) const;

  /// The logits of the positions after those in the cache. The cache grows by T positions. The result equals forward()
  /// of the full sequence, except for rounding. ids [B, T] is a prompt, a part of one, or one token per row. Builds no
  /// graph. Throws Error past the context length or max_length, and with dropout in training: the cache then stays.
  ///
  /// `positions` of one's own are int64 [T] or [B, T] (undefined: as above). A mask is (1|T, keys), (B|1, 1|T, keys) or
  /// (B|1, heads|1, 1|T, keys), where keys are those in the cache and T more. It combines with causality, by the order
  /// in the cache. For trees of proposed tokens: see docs/recipes/model_recipes.md. Only the positions must be below
  /// context_length then. Throws Error for positions with ALiBi or a window, which count keys.
  Tensor forward(const Tensor& ids, KVCache& cache, const Tensor& positions = {}, const Tensor& mask = {}) const;
  /// The logits of the positions behind those in `past`, which holds the keys and values (B, kv_heads, past, head_size)
  /// of each layer as tensors, with a graph: past may be 0. Replaces them by those with the new positions. For
  /// save_onnx_with_cache(), and for prefixes that are trained; KVCache is faster.
  Tensor forward(const Tensor& ids, std::vector<KVCache::Layer>& past) const;
  /// The logits of the last position only: [B, vocab_size].
  Tensor forward_last(const Tensor& ids, KVCache& cache) const;
  /// An empty cache for `batch` sequences of up to max_length tokens (context_length if 0). The default dtype is the
  /// model's; under Autocast(bfloat16) it is bfloat16, in which attention computes. bfloat16 needs half the memory.
  KVCache make_cache(std::int64_t batch, std::int64_t max_length = 0, std::optional<DType> dtype = {}) const;

  /// The mean cross entropy for targets [B, T]. Targets equal to ignore_index do not count.
  Tensor loss(const Tensor& ids, const Tensor& targets, std::int64_t ignore_index = -100) const;

  /// The options, with num_kv_heads, hidden, head_size and norm_eps filled in.
  const GPTOptions& options() const { return options_; }
  FIT_FIELDS_DECLARED
  std::string describe() const override;
  std::vector<std::pair<std::string, std::string>> saved_options() const override;

  Embedding wte;                 // [vocab_size, d_model]
  std::optional<Embedding> wpe;  // [context_length, d_model] for learned positions, else none
  Dropout dropout;
  ModuleList<SequenceLayer> h;
  std::shared_ptr<UnaryLayer> ln_f;  // null for Norm::none
  Linear head;                       // [vocab_size, d_model], with a bias if the option head_bias says so

 private:
  GPT(const GPTOptions& options, ModuleList<SequenceLayer> blocks, const init::Skip&);  // without initial values

  void start(const ModuleList<SequenceLayer>& blocks);  // draws initial values, also those of these blocks
  // The input of the first block: [B, T, d_model].
  Tensor embedded(const Tensor& ids, const KVCache* cache, const Tensor& positions, std::int64_t before) const;
  Tensor logits(const Tensor& x) const;  // of the head
  // The logits of the positions after those in the cache, or of the last of them.
  enum class Logits : bool { all, last };  // of which positions
  Tensor next(const Tensor& ids, KVCache& cache, const Tensor& positions, const Tensor& mask, Logits which) const;
  // The input of the head; the caller calls cache.advance().
  Tensor hidden(const Tensor& ids, KVCache* cache, const Tensor& positions = {}, const AttentionTerms& terms = {},
                std::vector<KVCache::Layer>* past = nullptr) const;
};

}  // namespace fit::nn
