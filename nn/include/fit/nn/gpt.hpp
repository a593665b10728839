#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "fit/attention.hpp"
#include "fit/nn/attention.hpp"
#include "fit/nn/containers.hpp"
#include "fit/nn/dropout.hpp"
#include "fit/nn/feed_forward.hpp"
#include "fit/nn/init.hpp"
#include "fit/nn/kv_cache.hpp"
#include "fit/nn/layer.hpp"
#include "fit/nn/linear.hpp"
#include "fit/nn/norm.hpp"
#include "fit/ops.hpp"
#include "fit/option.hpp"

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
  FIT_OPTION(double, rotary_base) = 10000;                             ///< For Positions::rotary.
  FIT_OPTION(std::int64_t, window) = 0;  ///< How many last positions a query attends to, with its own; 0: all.
  /// Recomputes each block in backward() instead of keeping its results: see checkpoint().
  FIT_OPTION(bool, checkpoint_blocks) = false;
};

/// Causal self-attention with one projection for queries, keys and values: x (B, T, d_model) -> (B, T, d_model).
class GPTAttention final : public UnaryLayer {
  GPTOptions options_;
  Tensor rotary_;  // rotary_table(), or undefined

 public:
  /// `rotary` is the table for Positions::rotary. The constructor makes it if it is not given.
  explicit GPTAttention(const GPTOptions& options, const Tensor& rotary = {});
  Tensor forward(const Tensor& x) const override;
  /// x comes after the `length` positions in `kept`. Its keys and values are appended there. `mask` covers all keys.
  Tensor forward(const Tensor& x, KVCache::Layer& kept, std::int64_t length, const Tensor& mask = {}) const;
  FIT_FIELDS(qkv, attention, proj, dropout)
  std::string describe() const override;

  Linear qkv;  // [(num_heads + 2 num_kv_heads) D, d_model]: rows for queries, then keys, then values
  ScaledDotProductAttention attention;
  Linear proj;  // [d_model, d_model]
  Dropout dropout;

 private:
  Tensor rotated_qkv(const Tensor& x, std::int64_t offset) const;
  AttentionMasks masks(const Tensor& mask) const;
};

/// y = x + attn(ln_1(x)), then y + mlp(ln_2(y)).
class GPTBlock final : public UnaryLayer {
  GPTOptions options_;

 public:
  explicit GPTBlock(const GPTOptions& options, const Tensor& rotary = {});
  Tensor forward(const Tensor& x) const override;
  /// The arguments are those of GPTAttention::forward().
  Tensor forward(const Tensor& x, KVCache::Layer& kept, std::int64_t length, const Tensor& mask = {}) const;
  FIT_FIELDS(ln_1, attn, ln_2, mlp)

  LayerNorm ln_1;
  GPTAttention attn;
  LayerNorm ln_2;
  FeedForward mlp;
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

  /// ids [B, T] (int64) -> logits [B, T, vocab_size]. Throws Error if T is more than context_length.
  Tensor forward(const Tensor& ids) const;

  /// The logits of the positions after those in the cache. The cache grows by T positions. The result equals forward()
  /// of the full sequence, except for rounding. ids [B, T] is a prompt, a part of one, or one token per row. Builds no
  /// graph. Throws Error past the context length or the cache's max_length; the cache is then unchanged.
  Tensor forward(const Tensor& ids, KVCache& cache) const;
  /// The same for the last position only: [B, vocab_size].
  Tensor forward_last(const Tensor& ids, KVCache& cache) const;
  /// An empty cache for `batch` sequences of up to max_length tokens (context_length if 0). The default dtype is the
  /// model's. bfloat16 needs half the memory of float32.
  KVCache make_cache(std::int64_t batch, std::int64_t max_length = 0, std::optional<DType> dtype = {}) const;

  /// The mean cross entropy for targets [B, T]. Targets equal to ignore_index do not count.
  Tensor loss(const Tensor& ids, const Tensor& targets, std::int64_t ignore_index = -100) const;

  /// The options, with num_kv_heads and hidden filled in.
  const GPTOptions& options() const { return options_; }
  FIT_FIELDS(wte, wpe, dropout, h, ln_f, head)
  std::string describe() const override;

  Embedding wte;                 // [vocab_size, d_model]
  std::optional<Embedding> wpe;  // [context_length, d_model] for learned positions, else none
  Dropout dropout;
  ModuleList<GPTBlock> h;
  LayerNorm ln_f;
  Linear head;  // [vocab_size, d_model], without bias

 private:
  GPT(const GPTOptions& options, const init::Skip&);  // without initial values

  Tensor embedded(const Tensor& ids, const KVCache* cache) const;  // the input of the first block: [B, T, d_model]
  Tensor hidden(const Tensor& ids) const;                          // the input of the head
  Tensor hidden(const Tensor& ids, KVCache& cache) const;          // the caller calls cache.advance()
};

}  // namespace fit::nn
