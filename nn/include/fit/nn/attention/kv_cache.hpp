#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fit/attention/attention.hpp"
#include "fit/tensor/tensor.hpp"

namespace fit::nn {

/// The keys and values of the past positions of a causal model. With it, a new token costs one position. The
/// constructor allocates all memory: keys [batch, kv_heads, max_length, head_size] and values of value_size for each
/// layer. A cache can be moved but not copied: two caches would write to the same memory. select() copies rows.
///
///     nn::KVCache cache = gpt.make_cache(1);
///     Tensor logits = gpt(prompt, cache);              // in one call, or in parts
///     logits = gpt(tensor({{token}}), cache);          // one more token
class KVCache {
 public:
  struct Layer {
    Tensor keys, values;
  };
  /// The heads and features that a layer caches for each position.
  struct LayerShape {
    std::int64_t kv_heads = 0, head_size = 0;
    std::int64_t value_size = 0;  ///< The features of a value; 0: head_size.
    /// The features of a value.
    std::int64_t values() const { return value_size == 0 ? head_size : value_size; }
  };
  /// Throws Error for a size that is negative, and for a type that is not floating.
  KVCache(const std::vector<LayerShape>& layers, std::int64_t batch, std::int64_t max_length, DType dtype = float32);
  KVCache(KVCache&&) = default;
  KVCache& operator=(KVCache&&) = default;

  /// The number of layers.
  std::size_t num_layers() const { return layers_.size(); }
  /// Throws Error if there is no such layer.
  Layer& operator[](std::size_t layer);
  const Layer& operator[](std::size_t layer) const;
  /// The keys and values of the past positions of a layer, for AttentionContext::cache. Throws Error as above.
  AttentionCache past(std::size_t layer) const;
  /// The number of rows, and the capacity of each row in positions.
  std::int64_t batch() const { return batch_; }
  std::int64_t max_length() const { return max_length_; }
  /// Throws Error in the name of `op` unless the sizes and the type are those of the cache. float32 and bfloat16 mix.
  void check_fits(const char* op, const std::vector<LayerShape>& layers, std::int64_t batch, DType dtype) const;
  /// The number of positions stored so far.
  std::int64_t length() const { return length_; }

  /// Throws Error if the capacity does not suffice for so many more positions.
  void check_capacity(std::int64_t positions) const;
  /// Increases length() after all layers have written the new positions. Positions past length() are never read, so an
  /// Error before this call leaves the cache unchanged. Throws Error past max_length.
  void advance(std::int64_t positions);
  /// Removes all positions from `length` on.
  void truncate(std::int64_t length);
  /// Keeps the first `length` positions, and behind them the positions length + places[0], length + places[1] …, in
  /// increasing order: the accepted tokens of a TokenTree. Throws Error for others.
  void keep(std::int64_t length, const std::vector<std::int64_t>& places);
  /// Replaces row i by a copy of the old row rows[i], for beam search. The number of rows may change.
  void select(const std::vector<std::int64_t>& rows);

  /// For right-aligned sequences of unequal length. The first padding[b] positions of row b are padding, and no query
  /// attends to them. Call it before the first position is stored.
  void set_padding(std::vector<std::int64_t> padding);
  /// The padding of each row; empty if there is none.
  const std::vector<std::int64_t>& padding() const { return padding_; }
  /// The positions of the next `count` tokens, without the padding: [count], or [B, count] if there is padding. Throws
  /// Error past max_length.
  Tensor positions(std::int64_t count) const;
  /// The mask (B, 1, keys) that masks the padding in the first `keys` positions; undefined without padding. Throws
  /// Error past max_length.
  Tensor mask(std::int64_t keys) const;

 private:
  std::int64_t batch_, max_length_, length_ = 0;
  DType dtype_;
  std::vector<std::int64_t> padding_;
  std::vector<Layer> layers_;  // [batch, kv_heads, max_length, head_size | value_size]
};

namespace detail {

/// The shapes that these layers cache.
template <class Layers>
std::vector<KVCache::LayerShape> cache_shapes(const Layers& layers) {
  std::vector<KVCache::LayerShape> shapes;
  for (const auto& layer : layers) shapes.push_back(layer.cache_shape());
  return shapes;
}

}  // namespace detail

/// A tree of proposed tokens, which a model reads in one call (Miao et al. 2024, SpecInfer):
///
///     const nn::TokenTree tree({-1, 0, 0, 1}, cache.length());  // two continuations of token 0; token 3 follows 1
///     Tensor logits = gpt(proposals, cache, tree.positions, tree.mask);
///     cache.keep(length, {0, 1, 3});                            // the branch that is accepted
///
/// Each token attends to the positions before the tree, to its ancestors and to itself.
struct TokenTree {
  /// parents[i] < i is the parent of token i; -1: the token follows the `length` positions before the tree. Throws
  /// Error for another parent.
  TokenTree(const std::vector<std::int64_t>& parents, std::int64_t length);
  Tensor positions;  ///< [T] (int64): length + the depth of the token.
  Tensor mask;       ///< Boolean (T, length + T).
};

}  // namespace fit::nn
