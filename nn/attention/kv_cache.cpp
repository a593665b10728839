#include "fit/nn/attention/kv_cache.hpp"

#include <algorithm>

#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit::nn {
namespace {

constexpr const char* kv_cache_op = "KVCache";

}  // namespace

KVCache::KVCache(const std::vector<LayerShape>& layers, std::int64_t batch, std::int64_t max_length, DType dtype)
    : batch_(batch), max_length_(max_length), dtype_(dtype) {
  if (!is_floating(dtype))
    check::fail(kv_cache_op, "dtype is ", dtype, ": keys and values are bfloat16, float32 or float64");
  for (const LayerShape& s : layers) {
    if (batch < 0 || s.kv_heads < 0 || max_length < 0 || s.head_size < 0 || s.value_size < 0)
      check::fail(kv_cache_op, "sizes are batch ", batch, ", ", s.kv_heads, " heads, max_length ", max_length,
                  ", head_size ", s.head_size, ", value_size ", s.value_size, ": none may be negative");
    const Shape keys{batch, s.kv_heads, max_length, s.head_size};
    layers_.push_back({Tensor::empty(keys, dtype), Tensor::empty(keys.with(3, s.values()), dtype)});
  }
}

KVCache::Layer& KVCache::operator[](std::size_t layer) { return const_cast<Layer&>(std::as_const(*this)[layer]); }

const KVCache::Layer& KVCache::operator[](std::size_t layer) const {
  if (layer >= layers_.size()) check::fail(kv_cache_op, "there is no layer ", layer, ": there are ", layers_.size());
  return layers_[layer];
}

AttentionCache KVCache::past(std::size_t layer) const {
  const Layer& of = (*this)[layer];
  return {of.keys, of.values, length_};
}

void KVCache::check_fits(const char* user, const std::vector<LayerShape>& layers, std::int64_t batch,
                         DType dtype) const {
  if (batch_ != batch)
    check::fail(user, "the cache has batch ", batch_, ", and there are ", batch, " rows: they must agree");
  if (layers_.size() != layers.size())
    check::fail(user, "the cache has ", layers_.size(), " layers, the model ", layers.size(), ": they must agree");
  const bool types = dtype_ == dtype || (dtype_ <= float32 && dtype <= float32);  // bfloat16 and float32 mix
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Shape& kept = layers_[i].keys.shape();
    const std::int64_t values = layers_[i].values.size(3);
    if (kept[1] != layers[i].kv_heads || kept[3] != layers[i].head_size || values != layers[i].values() || !types)
      check::fail(user, "the cache is for ", kept[1], " heads of ", kept[3], " features, values of ", values, ", ",
                  dtype_, ", the model has ", layers[i].kv_heads, " of ", layers[i].head_size, ", values of ",
                  layers[i].values(), ", ", dtype, ": they must agree");
  }
}

void KVCache::check_capacity(std::int64_t positions) const {
  if (positions < 0 || positions > max_length_ - length_)
    check::fail(kv_cache_op, "it holds ", length_, " positions, and ", positions, " more come: there is room for ",
                max_length_);
}

void KVCache::advance(std::int64_t positions) {
  check_capacity(positions);
  length_ += positions;
}

void KVCache::truncate(std::int64_t length) {
  if (length < 0 || length > length_)
    check::fail(kv_cache_op, "length is ", length, ": it must be in 0 … ", length_, ", the positions that it holds");
  length_ = length;
}

void KVCache::keep(std::int64_t length, const std::vector<std::int64_t>& places) {
  if (length < 0 || length > length_)
    check::fail(kv_cache_op, "length is ", length, ": it must be in 0 … ", length_, ", the positions that it holds");
  for (std::size_t i = 0; i < places.size(); ++i)
    if (places[i] < (i == 0 ? 0 : places[i - 1] + 1) || places[i] >= length_ - length)
      check::fail(kv_cache_op, "place ", i, " is ", places[i], ": places must increase, and be in 0 … ",
                  length_ - length - 1, ", behind the ", length, " positions that stay");
  const auto compact = [&](Tensor& x) {
    const std::int64_t width = x.size(3);
    dispatch_floating(x.dtype(), [&](auto zero) {
      auto* row = x.fresh<decltype(zero)>();
      for (std::int64_t r = 0; r < x.size(0) * x.size(1); ++r, row += max_length_ * width)
        for (std::size_t i = 0; i < places.size(); ++i)
          std::copy_n(row + (length + places[i]) * width, places[i] == static_cast<std::int64_t>(i) ? 0 : width,
                      row + (length + static_cast<std::int64_t>(i)) * width);
    });
  };
  for (Layer& layer : layers_) compact(layer.keys), compact(layer.values);
  length_ = length + static_cast<std::int64_t>(places.size());
}

void KVCache::select(const std::vector<std::int64_t>& rows) {
  const auto count = static_cast<std::int64_t>(rows.size());
  for (const std::int64_t row : rows)
    if (row < 0 || row >= batch_) check::fail(kv_cache_op, "row ", row, " of ", batch_, ": there is none such");
  bool same = count == batch_;
  for (std::int64_t i = 0; same && i < count; ++i) same = rows[i] == i;
  if (same) return;
  const NoGrad no_grad;
  const Tensor ids = tensor(rows, {count});
  std::vector<Layer> layers;
  for (const Layer& layer : layers_)
    layers.push_back({index_select(layer.keys, 0, ids), index_select(layer.values, 0, ids)});
  std::vector<std::int64_t> padding;
  for (std::size_t i = 0; !padding_.empty() && i < rows.size(); ++i) padding.push_back(padding_[rows[i]]);
  layers_ = std::move(layers);
  padding_ = std::move(padding);
  batch_ = count;
}

void KVCache::set_padding(std::vector<std::int64_t> padding) {
  if (static_cast<std::int64_t>(padding.size()) != batch_)
    check::fail(kv_cache_op, "padding has ", padding.size(), " numbers: there must be one for each of the ", batch_,
                " rows");
  for (const std::int64_t p : padding)
    if (p < 0 || p > max_length_) check::fail(kv_cache_op, "a padding is ", p, ": it must be in 0 … ", max_length_);
  if (length_ > 0) check::fail(kv_cache_op, "it holds ", length_, " positions: the padding comes before the first");
  padding_ = std::move(padding);
}

Tensor KVCache::positions(std::int64_t count) const {
  check_capacity(count);
  Tensor at = Tensor::empty(padding_.empty() ? Shape{count} : Shape{batch_, count}, int64);
  std::int64_t* to = at.fresh<std::int64_t>();
  for (std::int64_t i = 0; i < at.numel(); ++i) {
    const std::int64_t hidden = padding_.empty() ? 0 : padding_[i / count];
    to[i] = std::max<std::int64_t>(0, length_ + i % count - hidden);
  }
  return at;
}

Tensor KVCache::mask(std::int64_t keys) const {
  if (keys < 0 || keys > max_length_)
    check::fail(kv_cache_op, "keys is ", keys, ": it must be in 0 … ", max_length_,
                ", the positions there is room for");
  if (padding_.empty()) return {};
  Tensor mask = Tensor::empty({batch_, 1, keys}, boolean);
  bool* to = mask.fresh<bool>();
  for (const std::int64_t hidden : padding_)
    for (std::int64_t j = 0; j < keys; ++j) *to++ = j >= hidden;
  return mask;
}

TokenTree::TokenTree(const std::vector<std::int64_t>& parents, std::int64_t length) {
  const auto T = static_cast<std::int64_t>(parents.size());
  if (length < 0) check::fail("TokenTree", "length is ", length, ": it must not be negative");
  positions = Tensor::empty({T}, int64);
  mask = Tensor::empty({T, length + T}, boolean);
  auto* const at = positions.fresh<std::int64_t>();
  bool* const attends = mask.fresh<bool>();
  for (std::int64_t i = 0; i < T; ++i) {
    const std::int64_t parent = parents[i];
    if (parent < -1 || parent >= i)
      check::fail("TokenTree", "the parent of token ", i, " is ", parent, ": it must be in -1 … ", i - 1);
    bool* const row = attends + i * (length + T);
    std::fill_n(row, length, true);
    std::fill_n(row + length, T, false);
    if (parent >= 0) std::copy_n(attends + parent * (length + T) + length, T, row + length);
    row[length + i] = true;
    at[i] = parent < 0 ? length : at[parent] + 1;
  }
}

}  // namespace fit::nn
