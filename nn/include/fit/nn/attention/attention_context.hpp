#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "fit/attention/attention.hpp"
#include "fit/nn/attention/kv_cache.hpp"

/// What every layer of attention, and every layer around one, knows about its call beside its inputs.
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

 private:
  Tensor visible_;        // boolean (B, S, 1)
  Tensor rows_, places_;  // [N]: of the tokens among all places; [B S]: of the places among the tokens
};

/// The context of a call. A mask alone stands for one: `attention(x, x, x, mask)`, `encoder(x, mask)`. A layer of one's
/// own projects, and calls attend() of its context: so it works in all models, with masks, caches and memories.
struct AttentionContext {
  AttentionContext() {}
  AttentionContext(const AttentionTerms& given) : terms(given) {}
  AttentionContext(const Tensor& mask) : terms(mask) {}
  AttentionContext(const AttentionMask& attends) : terms(attends) {}
  AttentionContext(const AttentionOptions&) = delete;  // a layer has its own dropout and scale: give AttentionTerms()…

  /// Mask, causality, bias …: over all keys, also those of the cache.
  AttentionTerms terms;
  /// Keys and values of the positions before the inputs, as KVCache::past() gives them. attend() appends those of the
  /// inputs; it is then causal, and builds no graph.
  std::optional<AttentionCache> cache;
  /// The same as tensors (B, kv_heads, past, features), for a run that others record, with a graph: attend() replaces
  /// them by those with the inputs', and is then causal. Null: none.
  KVCache::Layer* past = nullptr;
  /// The sequences have no padding: x is [N, C]. A layer that does not take that gets (B, S, C), without this member.
  std::optional<Unpadding> padding;
  /// The positions of the inputs, int64 [T] or [B, T]. Undefined: they follow those in the cache.
  Tensor positions;
  /// The tokens of the inputs, [B, T] (int64). Undefined if no model calls the layer.
  Tensor ids;
  /// Where attend() appends its weights (B, H, Sq, Sk), which are differentiable; null: nowhere.
  std::vector<Tensor>* weights = nullptr;
  /// For attention to a memory that is the same in several calls: its projected keys and values. A layer that projects
  /// may fill them in its first call, and read them in others. Null: they are not kept.
  KVCache::Layer* projected = nullptr;

  /// What a decoder layer attends to beside its sequence.
  struct Memory {
    Tensor x;              ///< (B, S, C), the encoder's output
    AttentionTerms terms;  ///< as above, for attention to the memory
    std::vector<Tensor>* weights = nullptr;
    KVCache::Layer* projected = nullptr;
  };
  Memory memory;

  /// The number of positions before the inputs.
  std::int64_t length() const { return cache ? cache->length : past ? past->keys.size(2) : 0; }
  /// The context of attention to the memory.
  AttentionContext of_memory() const;

  /// fit::attend() under this context and the layer's own options: masks, causality and windows of both count. Returns
  /// the output. Throws Error if a bias, alibi, sink, score or cache is given by both, and if `own` asks for weights or
  /// lse.
  Tensor attend(const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& own = {}) const;
};

/// The context of sequences x (B, S, C) with this mask. If it masks padding, an encoder computes without the padding,
/// and its output is 0 there. Without dropout, only attention computes with padding.
///
///     Tensor y = encoder(x, nn::without_padding(mask, x));
AttentionContext without_padding(const Tensor& mask, const Tensor& x);

}  // namespace fit::nn
