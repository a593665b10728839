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

/// A transformer that has a decoder only (Radford et al. 2019), with the names of GPT-2's parameters: wte, wpe,
/// h.0.ln_1, h.0.attn.qkv, h.0.attn.proj, h.0.ln_2, h.0.mlp.fc, h.0.mlp.proj, ln_f, head.
namespace fit::nn {

/// How a model knows where a token stands.
enum class Positions {
  none,
  learned,     ///< a trained vector for each position, added to the token's
  sinusoidal,  ///< sinusoidal_positions(), added to the token's vector
  rotary,      ///< queries and keys turn, see fit::rotary()
  alibi,       ///< scores fall with the distance, see AttentionOptions::alibi
};
const char* name_of(Positions p);  ///< "none", "learned", …

/// What a GPT is made of; sizes without a default must be set.
struct GPTOptions {
  FIT_OPTION(std::int64_t, vocab_size) = 0;      ///< The number of tokens.
  FIT_OPTION(std::int64_t, context_length) = 0;  ///< The longest sequence.
  FIT_OPTION(std::int64_t, num_layers) = 0;      ///< The number of blocks.
  FIT_OPTION(std::int64_t, num_heads) = 0;       ///< The heads of the queries.
  FIT_OPTION(std::int64_t, d_model) = 0;         ///< The features of a token.
  FIT_OPTION(double, dropout) = 0;               ///< Of embeddings, attention weights and additions to the residual.
  FIT_OPTION(bool, bias) = true;                 ///< Whether projections and norms have a bias.
  /// The heads of keys and values, which may be fewer than those of queries; num_heads if 0.
  FIT_OPTION(std::int64_t, num_kv_heads) = 0;
  FIT_OPTION(Positions, positions) = Positions::learned;       ///< How the model knows positions.
  FIT_OPTION(bool, tie_weights) = true;                        ///< The head is the table of embeddings.
  FIT_OPTION(std::int64_t, hidden) = 0;                        ///< The hidden features of the MLP; 4 d_model if 0.
  FIT_OPTION(Activation, activation) = Activation::gelu_tanh;  ///< The activation of the MLP.
  FIT_OPTION(RotaryLayout, rotary_layout) = RotaryLayout::half_split;  ///< For Positions::rotary.
  FIT_OPTION(double, rotary_base) = 10000;                             ///< For Positions::rotary.
  FIT_OPTION(std::int64_t, window) = 0;  ///< How many positions back a position sees, with itself; 0: all.
  /// Computes each block again in backward(), instead of keeping its results: see checkpoint().
  FIT_OPTION(bool, checkpoint_blocks) = false;
};

/// Causal self-attention with one projection for queries, keys and values: x (B, T, d_model) -> (B, T, d_model).
class GPTAttention final : public UnaryLayer {
  GPTOptions options_;
  Tensor rotary_;  // rotary_table(), or undefined

 public:
  /// The table for rotary positions, where they are asked for, is made if it isn't given.
  explicit GPTAttention(const GPTOptions& options, const Tensor& rotary = {});
  Tensor forward(const Tensor& x) const override;
  /// x stands behind `length` positions, which `kept` holds; they are joined by those of x. `mask` is over all of them.
  Tensor forward(const Tensor& x, KVCache::Layer& kept, std::int64_t length, const Tensor& mask = {}) const;
  using UnaryLayer::operator();
  FIT_FIELDS(qkv, attention, proj, dropout)
  std::string describe() const override;

  Linear qkv;  // [(num_heads + 2 num_kv_heads) D, d_model]: queries, keys and values one below the other
  ScaledDotProductAttention attention;
  Linear proj;  // [d_model, d_model]
  Dropout dropout;

 private:
  Tensor rotated_qkv(const Tensor& x, std::int64_t offset) const;
  AttentionMasks masks(const Tensor& mask) const;
};

/// x + attn(ln_1(x)), and to that + mlp(ln_2(…)).
class GPTBlock final : public UnaryLayer {
  GPTOptions options_;

 public:
  explicit GPTBlock(const GPTOptions& options, const Tensor& rotary = {});
  Tensor forward(const Tensor& x) const override;
  /// As GPTAttention's, in the block.
  Tensor forward(const Tensor& x, KVCache::Layer& kept, std::int64_t length, const Tensor& mask = {}) const;
  FIT_FIELDS(ln_1, attn, ln_2, mlp)

  LayerNorm ln_1;
  GPTAttention attn;
  LayerNorm ln_2;
  FeedForward mlp;
};

/// The model. Weights start normal with standard deviation 0.02, those that write to the residual stream (proj) with
/// 0.02 / sqrt(2 num_layers), biases at 0.
///
///     nn::GPT gpt(nn::GPTOptions().vocab_size(65).context_length(64).num_layers(4).num_heads(4).d_model(128));
///     gpt.loss(ids, targets).backward();
class GPT final : public Layer {
  GPTOptions options_;
  Tensor sinusoids_;  // [context_length, d_model], or undefined

 public:
  /// Throws Error for sizes that are not positive, or heads that don't divide d_model.
  explicit GPT(const GPTOptions& options);

  /// ids [B, T] (int64) -> logits [B, T, vocab_size]. Throws Error if T is more than context_length.
  Tensor forward(const Tensor& ids) const;
  Tensor operator()(const Tensor& ids) const { return forward(ids); }

  /// The logits of the positions that follow those in the cache, which grows by them: what forward() of the whole gives
  /// there, to rounding. ids [B, T] may be a prompt, a piece of one, or one token a row. Records nothing. Throws Error
  /// if the context length or the cache's would be passed; the cache then holds what it held.
  Tensor forward(const Tensor& ids, KVCache& cache) const;
  Tensor operator()(const Tensor& ids, KVCache& cache) const { return forward(ids, cache); }
  /// The same for the last of them alone: [B, vocab_size].
  Tensor forward_last(const Tensor& ids, KVCache& cache) const;
  /// An empty cache for `batch` sequences of up to max_length tokens (context_length if 0), of the
  /// model's type unless one is given: bfloat16 takes half the room of float32.
  KVCache make_cache(std::int64_t batch, std::int64_t max_length = 0, std::optional<DType> dtype = {}) const;

  /// The mean cross entropy of targets [B, T], of which those that are ignore_index count for nothing.
  Tensor loss(const Tensor& ids, const Tensor& targets, std::int64_t ignore_index = -100) const;

  /// What it was made with.
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

  Tensor embedded(const Tensor& ids, const KVCache* cache) const;  // what the first block reads: [B, T, d_model]
  Tensor hidden(const Tensor& ids) const;                          // what the head reads
  Tensor hidden(const Tensor& ids, KVCache& cache) const;          // which still has to advance
};

}  // namespace fit::nn
