#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fit/tensor.hpp"

namespace fit::nn {

/// The keys and values of the positions that a causal model has seen, so that each further token costs one position.
/// All memory is taken once, [batch, kv_heads, max_length, head_size] twice for each layer; nothing is joined or moved.
/// It is moved, not copied: two that write to the same memory would spoil each other. select() makes rows of rows.
///
///     nn::KVCache cache = gpt.make_cache(1);
///     Tensor logits = gpt(prompt, cache);              // all at once, or in pieces
///     logits = gpt(tensor({{token}}), cache);          // one more
class KVCache {
 public:
  struct Layer {
    Tensor keys, values;
  };
  /// Throws Error for a size that is negative.
  KVCache(std::int64_t num_layers, std::int64_t batch, std::int64_t kv_heads, std::int64_t max_length,
          std::int64_t head_size, DType dtype = float32);
  KVCache(KVCache&&) = default;
  KVCache& operator=(KVCache&&) = default;

  std::size_t num_layers() const { return layers_.size(); }
  Layer& operator[](std::size_t layer) { return layers_[layer]; }
  std::int64_t batch() const { return batch_; }
  std::int64_t max_length() const { return max_length_; }
  /// Positions seen so far.
  std::int64_t length() const { return length_; }

  /// Counts further positions, which all layers have written. Throws Error past max_length.
  void advance(std::int64_t positions);
  /// Forgets all positions from `length` on.
  void truncate(std::int64_t length);
  /// Row i becomes a copy of what row rows[i] was: for beam search. There may be more or fewer rows than before.
  void select(const std::vector<std::int64_t>& rows);

  /// For sequences of unequal length, aligned at their ends: the first padding[b] positions of row b hold nothing, and
  /// nobody attends to them. To be set before the first position.
  void set_padding(std::vector<std::int64_t> padding);
  const std::vector<std::int64_t>& padding() const { return padding_; }
  /// The positions of the next `count` tokens, not counting padding: [count], or [B, count] if there is any.
  Tensor positions(std::int64_t count) const;
  /// The mask that hides the padding among the first `keys` positions, (B, 1, keys); undefined without padding.
  Tensor mask(std::int64_t keys) const;

 private:
  std::int64_t batch_, max_length_, length_ = 0;
  std::vector<std::int64_t> padding_;
  std::vector<Layer> layers_;
};

}  // namespace fit::nn
