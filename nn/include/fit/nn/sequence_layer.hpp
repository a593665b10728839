#pragma once
#include <cstdint>

#include "fit/attention.hpp"
#include "fit/nn/kv_cache.hpp"
#include "fit/nn/layer.hpp"

namespace fit::nn {

/// What a SequenceLayer knows about its call beside x.
struct SequenceContext {
  /// Keys and values of the positions before x. attend() appends those of x. Null: x starts the sequence.
  const AttentionCache* cache = nullptr;
  Tensor mask;            ///< Over all keys, see AttentionMasks::mask; undefined: none.
  AttentionMask attends;  ///< See AttentionMasks::attends; undefined: none.
  /// The positions of x, int64 [T] or [B, T]. Undefined: they follow those in the cache.
  Tensor positions;
  Tensor ids;  ///< The tokens of x, [B, T] (int64). Undefined if the layer is not called by a model.

  /// The number of positions before x.
  std::int64_t length() const { return cache ? cache->length : 0; }
  /// These options, made causal, with the masks and the cache.
  AttentionOptions options(AttentionOptions options = {}) const;
};

/// A layer of a decoder-only model: x (B, T, C) -> (B, T, C). A position depends on itself and the positions before it.
/// The blocks of nn::GPT are such layers, and so is the attention of a block. A custom attention:
///
///     struct Attention final : nn::SequenceLayer {
///       Tensor forward(const Tensor& x, const nn::SequenceContext& context) const override {
///         return out(attend(heads_last(q(x), 4), heads_last(k(x)), heads_last(v(x)), context.options()).output);
///       }
///       nn::KVCache::LayerShape cache_shape() const override { return {4, 16}; }
///       FIT_FIELDS(q, k, v, out)
///       nn::Linear q{64, 64}, k{64, 64}, v{64, 64}, out{64, 64};
///     };
///     gpt.replace("h.0.attn", std::make_shared<Attention>());
class SequenceLayer : public UnaryLayer {
 public:
  virtual Tensor forward(const Tensor& x, const SequenceContext& context) const = 0;
  /// What the layer keeps of each position in a cache; nothing by default.
  virtual KVCache::LayerShape cache_shape() const { return {}; }

  /// Without a context.
  Tensor forward(const Tensor& x) const override { return forward(x, SequenceContext()); }
  Tensor operator()(const Tensor& x, const SequenceContext& context = {}) const;
};

}  // namespace fit::nn
