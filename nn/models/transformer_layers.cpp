#include <algorithm>

#include "fit/named_values.hpp"
#include "fit/nn/transformer.hpp"
#include "fit/ops.hpp"
#include "layers/project_heads.hpp"
#include "ops/autocast.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

MultiHeadAttentionOptions attention_options(const TransformerLayerOptions& o) {
  auto a = MultiHeadAttentionOptions().dropout(o.dropout()).bias(o.bias());
  if (o.num_kv_heads() != 0) a.num_kv_heads(o.num_kv_heads());
  return a;
}

FeedForward feed_forward(const TransformerLayerOptions& o) {
  const auto f =
      FeedForwardOptions().activation(o.activation()).dropout(o.dropout()).inner_dropout(o.dropout()).bias(o.bias());
  return FeedForward(o.d_model(), o.hidden() == 0 ? 4 * o.d_model() : o.hidden(), f);
}

LayerNorm norm_of(const TransformerLayerOptions& o) {
  return LayerNorm(o.d_model(), LayerNormOptions().bias(o.bias()).eps(o.eps()));
}

MultiHeadAttention attention_of(const TransformerLayerOptions& o) {
  return MultiHeadAttention(o.d_model(), o.num_heads(), attention_options(o));
}

// x + f(norm(x)) if norm_first, else norm(x + f(x)). `name` is that of the result for observers.
template <class F>
Tensor residual(const char* name, bool norm_first, const Tensor& x, const UnaryLayer& norm, const F& f) {
  return observed(name, norm_first ? x + f(norm(x)) : norm(x + f(x)));
}

// Attention to `memory`. Appends the weights to `weights` unless it is null.
Tensor attend(const AttentionLayer& attention, const Tensor& query, const Tensor& memory, const AttentionMasks& masks,
              std::vector<Tensor>* weights) {
  if (!weights) return attention(query, memory, memory, masks);
  const AttentionResult r = attention(query, memory, memory, masks, return_attention);
  weights->push_back(r.weights);
  return r.output;
}

}  // namespace

// ---- TransformerEncoderLayer --------------------------------------------------------------------------------------

Tensor EncoderLayer::operator()(const Tensor& x, const AttentionMasks& masks) const {
  return within(*this, {x}, [&] { return forward(x, masks); });
}

AttentionResult EncoderLayer::forward_with_weights(const Tensor& x, const AttentionMasks& masks) const {
  return {(*this)(x, masks), {}};
}

Tensor EncoderLayer::forward_unpadded(const Tensor& x, const Unpadding& padding) const {
  return padding.remove((*this)(padding.restore(x), padding.mask()));
}

FIT_FIELDS_OF(TransformerEncoderLayer, self_attn, norm1, mlp, norm2, dropout)

// Braces fix the order in which initial values are drawn.
TransformerEncoderLayer::TransformerEncoderLayer(const TransformerLayerOptions& o)
    : TransformerEncoderLayer{attention_of(o), norm_of(o), feed_forward(o), norm_of(o), o} {}

template <class Attend>
Tensor TransformerEncoderLayer::around(const Tensor& given, const Attend& attend) const {
  const bool first = norm_first_;
  const Tensor x = observed("resid_pre", given);
  const Tensor y = residual("resid_mid", first, x, *norm1, [&](const Tensor& z) { return dropout(attend(z)); });
  return residual("resid_post", first, y, *norm2, *mlp);
}

Tensor TransformerEncoderLayer::forward(const Tensor& x, const AttentionMasks& masks) const {
  return within(*this, [&] { return around(x, [&](const Tensor& z) { return (*self_attn)(z, z, z, masks); }); });
}

Tensor TransformerEncoderLayer::forward_unpadded(const Tensor& x, const Unpadding& padding) const {
  return within(*this,
                [&] { return around(x, [&](const Tensor& z) { return self_attn->forward_unpadded(z, padding); }); });
}

AttentionResult TransformerEncoderLayer::forward_with_weights(const Tensor& x, const AttentionMasks& masks) const {
  return within(*this, [&] {
    std::vector<Tensor> weights;
    const Tensor y = around(x, [&](const Tensor& z) { return attend(*self_attn, z, z, masks, &weights); });
    return AttentionResult{y, weights[0]};
  });
}

// ---- TransformerDecoderLayer --------------------------------------------------------------------------------------

Tensor DecoderLayer::operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks) const {
  return within(*this, {x, memory}, [&] { return forward(x, memory, masks); });
}

Tensor DecoderLayer::forward_next(const Tensor&, KVCache::Layer&, std::int64_t, const KVCache::Layer&,
                                  const Tensor&) const {
  check::fail(name().c_str(), "it has no forward_next(): decoding with a cache needs it");
}

FIT_FIELDS_OF(TransformerDecoderLayer, self_attn, norm1, cross_attn, norm2, mlp, norm3, dropout)

TransformerDecoderLayer::TransformerDecoderLayer(const TransformerLayerOptions& o)
    : TransformerDecoderLayer{attention_of(o), norm_of(o), attention_of(o), norm_of(o), feed_forward(o),
                              norm_of(o),      o} {}

template <class Self, class Cross>
Tensor TransformerDecoderLayer::around(const Tensor& given, const Self& self, const Cross& cross) const {
  const bool first = norm_first_;
  const Tensor x = observed("resid_pre", given);
  const Tensor y = residual("resid_mid", first, x, *norm1, [&](const Tensor& z) { return dropout(self(z)); });
  const Tensor w = residual("resid_cross", first, y, *norm2, [&](const Tensor& z) { return dropout(cross(z)); });
  return residual("resid_post", first, w, *norm3, *mlp);
}

Tensor TransformerDecoderLayer::forward(const Tensor& x, const Tensor& memory, const DecoderMasks& masks,
                                        TransformerWeights* weights) const {
  AttentionMasks self = masks.self();
  self.causal(self.causal() || masks.causal());
  return within(*this, [&] {
    return around(
        x, [&](const Tensor& z) { return attend(*self_attn, z, z, self, weights ? &weights->self : nullptr); },
        [&](const Tensor& z) {
          return attend(*cross_attn, z, memory, masks.memory(), weights ? &weights->cross : nullptr);
        });
  });
}

KVCache::Layer TransformerDecoderLayer::project_memory(const Tensor& memory) const {
  return within(*this, [&] { return cross_attn->project_memory(memory); });
}

Tensor TransformerDecoderLayer::forward_next(const Tensor& x, KVCache::Layer& kept, std::int64_t length,
                                             const KVCache::Layer& memory, const Tensor& memory_mask) const {
  const NoGrad no_grad;
  return within(*this, [&] {
    return around(
        x, [&](const Tensor& z) { return self_attn->forward_next(z, kept, length); },
        [&](const Tensor& z) { return cross_attn->forward_projected(z, memory, memory_mask); });
  });
}

// ---- stacks -------------------------------------------------------------------------------------------------------

namespace {

template <class L, class Base>
void fill(ModuleList<Base>& layers, std::shared_ptr<UnaryLayer>& norm, const TransformerLayerOptions& o,
          std::int64_t num_layers, const char* op) {
  if (num_layers < 0) check::fail(op, "num_layers is ", num_layers, ": it must not be negative");
  for (std::int64_t i = 0; i < num_layers; ++i) layers.add(L(o));
  if (o.final_norm().value_or(o.norm_first())) norm = std::make_shared<LayerNorm>(norm_of(o));
}

bool has_dropout(const Layer& layer) {
  const auto all = layer.named_layers<Dropout>();
  return std::any_of(all.begin(), all.end(), [](const auto& one) { return one.second->p() > 0; });
}

}  // namespace

FIT_FIELDS_OF(TransformerEncoder, layers, norm)

TransformerEncoder::TransformerEncoder(const TransformerLayerOptions& o, std::int64_t num_layers) {
  fill<TransformerEncoderLayer>(layers, norm, o, num_layers, "TransformerEncoder");
}

TransformerEncoder::TransformerEncoder(ModuleList<EncoderLayer> stack, std::shared_ptr<UnaryLayer> last)
    : layers(std::move(stack)), norm(std::move(last)) {}

Tensor TransformerEncoder::forward(const Tensor& x, const AttentionMasks& masks, TransformerWeights* weights) const {
  return within(*this, [&] {
    Tensor y = x;
    for (const EncoderLayer& layer : layers) {
      if (weights) {
        const AttentionResult r = layer.forward_with_weights(y, masks);
        weights->self.push_back(r.weights);
        y = r.output;
      } else {
        y = layer(y, masks);
      }
    }
    return norm ? (*norm)(y) : y;
  });
}

Tensor TransformerEncoder::forward_unpadded(const Tensor& x, const Tensor& mask) const {
  const std::optional<Unpadding> padding = Unpadding::of(mask, x.shape());
  if (!padding) return forward(x, mask);
  // Dropout depends on the position in the padded batch, so that several processes drop the same elements as one.
  if (training() && has_dropout(*this)) return padding->zero_padding(forward(x, mask));
  return within(*this, [&] {
    Tensor y = padding->remove(x);
    for (const EncoderLayer& layer : layers) y = layer.forward_unpadded(y, *padding);
    return padding->zero_padding(padding->restore(norm ? (*norm)(y) : y));
  });
}

FIT_FIELDS_OF(TransformerDecoder, layers, norm)

TransformerDecoder::TransformerDecoder(const TransformerLayerOptions& o, std::int64_t num_layers) {
  fill<TransformerDecoderLayer>(layers, norm, o, num_layers, "TransformerDecoder");
}

TransformerDecoder::TransformerDecoder(ModuleList<DecoderLayer> stack, std::shared_ptr<UnaryLayer> last)
    : layers(std::move(stack)), norm(std::move(last)) {}

Tensor TransformerDecoder::forward(const Tensor& x, const Tensor& memory, const DecoderMasks& masks,
                                   TransformerWeights* weights) const {
  return within(*this, [&] {
    Tensor y = x;
    for (const DecoderLayer& layer : layers) y = layer.forward(y, memory, masks, weights);
    return norm ? (*norm)(y) : y;
  });
}

namespace {

void check_input(const char* op, const char* name, const Tensor& x) {
  check::floating(op, name, x);
  if (x.rank() != 3) check::fail(op, name, " has shape ", x.shape(), ": it must be (B, S, d_model)");
}

}  // namespace

DecoderCache TransformerDecoder::make_cache(const Tensor& memory, const Tensor& memory_mask,
                                            std::int64_t max_length) const {
  check_input("TransformerDecoder", "memory", memory);
  const NoGrad no_grad;
  const DType dtype = product_dtype(memory.dtype(), memory.dtype());
  DecoderCache cache{KVCache(detail::cache_shapes(layers), memory.size(0), max_length, dtype), {}, memory_mask, {}};
  for (std::int64_t b = 0; b < memory.size(0); ++b) cache.items.push_back(b);
  for (const DecoderLayer& layer : layers) cache.memory.push_back(layer.project_memory(memory));
  return cache;
}

Tensor TransformerDecoder::forward_next(const Tensor& x, DecoderCache& cache) const {
  constexpr const char* op = "TransformerDecoder";
  const NoGrad no_grad;
  check_input(op, "x", x);
  cache.self.check_fits(op, detail::cache_shapes(layers), x.size(0), x.dtype());
  if (cache.memory.size() != layers.size())
    check::fail(op, "the cache has a memory for ", cache.memory.size(), " layers, the model ", layers.size(),
                ": they must agree");
  cache.self.check_capacity(x.size(1));
  const std::int64_t length = cache.self.length();
  Tensor out = within(*this, [&] {
    Tensor y = x;
    std::size_t i = 0;
    for (const DecoderLayer& layer : layers) {
      y = layer.forward_next(y, cache.self[i], length, cache.memory[i], cache.memory_mask);
      ++i;
    }
    return norm ? (*norm)(y) : y;
  });
  cache.self.advance(x.size(1));
  return out;
}

void DecoderCache::select(const std::vector<std::int64_t>& rows) {
  std::vector<std::int64_t> chosen_items;
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= static_cast<std::int64_t>(items.size()))
      check::fail("DecoderCache", "row ", row, " of ", items.size(), ": there is none such");
    chosen_items.push_back(items[row]);
  }
  // Computes everything before it replaces anything.
  std::vector<KVCache::Layer> chosen_memory = memory;
  Tensor chosen_mask = memory_mask;
  if (items != chosen_items) {  // otherwise each row keeps its memory
    const Tensor ids = tensor(rows, {static_cast<std::int64_t>(rows.size())});
    const auto chosen = [&](const Tensor& x) { return index_select(x, 0, ids); };
    for (KVCache::Layer& layer : chosen_memory) layer = {chosen(layer.keys), chosen(layer.values)};
    if (memory_mask.defined() && memory_mask.rank() > 2 && memory_mask.size(0) > 1) chosen_mask = chosen(memory_mask);
  }
  self.select(rows);
  items = std::move(chosen_items);
  memory = std::move(chosen_memory);
  memory_mask = std::move(chosen_mask);
}

}  // namespace fit::nn
