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
  /// Throws Error for a size that is negative, and for a type that is not floating.
  KVCache(std::int64_t num_layers, std::int64_t batch, std::int64_t kv_heads, std::int64_t max_length,
          std::int64_t head_size, DType dtype = float32);
  KVCache(KVCache&&) = default;
  KVCache& operator=(KVCache&&) = default;

  /// How many layers, rows and positions it has room for.
  std::size_t num_layers() const { return layers_.size(); }
  /// Throws Error if there is no such layer.
  Layer& operator[](std::size_t layer);
  /// Rows, and positions that each has room for.
  std::int64_t batch() const { return batch_; }
  std::int64_t max_length() const { return max_length_; }
  /// Throws Error in the name of `op` unless it has so many layers and rows, and heads of this number, size and type.
  void check_fits(const char* op, std::size_t num_layers, std::int64_t batch, std::int64_t kv_heads,
                  std::int64_t head_size, DType dtype) const;
  /// Positions seen so far.
  std::int64_t length() const { return length_; }

  /// Throws Error unless so many positions more find room.
  void check_room(std::int64_t positions) const;
  /// Counts further positions, which all layers have written: what stands behind length() is not read, so whoever
  /// writes calls this last, and an Error in between has changed nothing. Throws Error past max_length.
  void advance(std::int64_t positions);
  /// Forgets all positions from `length` on.
  void truncate(std::int64_t length);
  /// Row i becomes a copy of what row rows[i] was: for beam search. There may be more or fewer rows than before.
  void select(const std::vector<std::int64_t>& rows);

  /// For sequences of unequal length, aligned at their ends: the first padding[b] positions of row b hold nothing, and
  /// nobody attends to them. To be set before the first position.
  void set_padding(std::vector<std::int64_t> padding);
  /// As set_padding() left it; empty without padding.
  const std::vector<std::int64_t>& padding() const { return padding_; }
  /// The positions of the next `count` tokens, not counting padding: [count], or [B, count] if there is any. Throws
  /// Error if they find no room.
  Tensor positions(std::int64_t count) const;
  /// The mask that hides the padding among the first `keys` positions, (B, 1, keys); undefined without padding. Throws
  /// Error for more than max_length.
  Tensor mask(std::int64_t keys) const;

 private:
  std::int64_t batch_, kv_heads_, max_length_, head_size_, length_ = 0;
  DType dtype_;
  std::vector<std::int64_t> padding_;
  std::vector<Layer> layers_;
};

}  // namespace fit::nn
