#include <algorithm>

#include "attention/attend.hpp"
#include "fit/graph/named_values.hpp"
#include "fit/nn/models/transformer.hpp"
#include "fit/ops/ops.hpp"
#include "models/gpt_options.hpp"
#include "ops/common/autocast.hpp"
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
  return FeedForward(o.d_model(), with_sizes(o).hidden(), f);
}

LayerNorm norm_of(const TransformerLayerOptions& o) {
  return LayerNorm(o.d_model(), LayerNormOptions().bias(o.bias()).eps(o.eps()));
}

MultiHeadAttention attention_of(const char* op, const TransformerLayerOptions& o) {
  return MultiHeadAttention(op, o.d_model(), o.num_heads(), attention_options(o));
}

// x + f(norm(x)) if norm_first, else norm(x + f(x)). `name` is that of the result for observers.
template <class F>
Tensor residual(const char* name, bool norm_first, const Tensor& x, const UnaryLayer& norm, const F& f) {
  return observed(name, norm_first ? x + f(norm(x)) : norm(x + f(x)));
}

using SavedOptions = std::vector<std::pair<std::string, std::string>>;
SavedOptions saved(bool norm_first) { return {{"norm_first", norm_first ? "true" : "false"}}; }

}  // namespace

// ---- TransformerEncoderLayer --------------------------------------------------------------------------------------

FIT_FIELDS_OF(TransformerEncoderLayer, self_attn, norm1, mlp, norm2, dropout)

// Braces fix the order in which initial values are drawn.
TransformerEncoderLayer::TransformerEncoderLayer(const TransformerLayerOptions& o)
    : TransformerEncoderLayer{attention_of("TransformerEncoderLayer", o), norm_of(o), feed_forward(o), norm_of(o), o} {}

Tensor TransformerEncoderLayer::forward(const Tensor& given, const AttentionContext& context) const {
  const auto attend = [&](const Tensor& z) { return dropout((*self_attn)(z, z, z, context)); };
  const auto run = [&](const Tensor& input) {
    const Tensor x = observed("resid_pre", input);
    const Tensor y = residual("resid_mid", norm_first_, x, *norm1, attend);
    return residual("resid_post", norm_first_, y, *norm2, *mlp);
  };
  return within(*this, run, given);
}

SavedOptions TransformerEncoderLayer::saved_options() const { return saved(norm_first_); }

// ---- TransformerDecoderLayer --------------------------------------------------------------------------------------

AttentionContext decoder_context(const Tensor& memory, const DecoderTerms& terms, TransformerWeights* weights) {
  AttentionContext c(terms.self());
  c.terms.causal(terms.self().causal() || terms.causal());
  c.memory.x = memory;
  c.memory.terms = terms.memory();
  if (weights) c.weights = &weights->self, c.memory.weights = &weights->cross;
  return c;
}

FIT_FIELDS_OF(TransformerDecoderLayer, self_attn, norm1, cross_attn, norm2, mlp, norm3, dropout)

TransformerDecoderLayer::TransformerDecoderLayer(const TransformerLayerOptions& o)
    : TransformerDecoderLayer{attention_of("TransformerDecoderLayer", o),
                              norm_of(o),
                              attention_of("TransformerDecoderLayer", o),
                              norm_of(o),
                              feed_forward(o),
                              norm_of(o),
                              o} {}

Tensor TransformerDecoderLayer::operator()(const Tensor& x, const Tensor& memory, const DecoderTerms& terms) const {
  return (*this)(x, decoder_context(memory, terms));
}

Tensor TransformerDecoderLayer::forward(const Tensor& given, const AttentionContext& context) const {
  check::defined("TransformerDecoderLayer", "memory", context.memory.x);
  const AttentionContext cross = context.of_memory();
  const auto attend_self = [&](const Tensor& z) { return dropout((*self_attn)(z, z, z, context)); };
  const auto run = [&](const Tensor& input, const Tensor& memory) {
    const auto attend_memory = [&](const Tensor& z) { return dropout((*cross_attn)(z, memory, memory, cross)); };
    const Tensor x = observed("resid_pre", input);
    const Tensor y = residual("resid_mid", norm_first_, x, *norm1, attend_self);
    const Tensor z = residual("resid_cross", norm_first_, y, *norm2, attend_memory);
    return residual("resid_post", norm_first_, z, *norm3, *mlp);
  };
  return within(*this, run, given, context.memory.x);
}

SavedOptions TransformerDecoderLayer::saved_options() const { return saved(norm_first_); }

// ---- stacks -------------------------------------------------------------------------------------------------------

namespace {

template <class L, class Base>
void fill(ModuleList<Base>& layers, std::shared_ptr<UnaryLayer>& norm, const TransformerLayerOptions& o,
          std::int64_t num_layers, const char* op) {
  check::not_negative(op, "num_layers", num_layers);
  fit::detail::check_numbers(op, AttentionOptions().dropout(o.dropout()));
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

TransformerEncoder::TransformerEncoder(ModuleList<SequenceLayer> stack, std::shared_ptr<UnaryLayer> last)
    : layers(std::move(stack)), norm(std::move(last)) {}

Tensor TransformerEncoder::forward(const Tensor& x, const AttentionContext& given) const {
  AttentionContext context = given;
  const std::optional<Unpadding>& padding = given.padding;
  // Dropout depends on the position in the padded batch, so that several processes drop the same elements as one.
  if (training() && has_dropout(*this)) context.padding.reset();
  const std::size_t before = context.weights ? context.weights->size() : 0;
  return within(*this, [&] {
    Tensor y = context.padding ? padding->remove(x) : x;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      y = layers[i](y, context);
      if (context.weights) context.weights->resize(before + i + 1);
    }
    if (norm) y = (*norm)(y);
    if (context.padding) y = padding->restore(y);
    return padding ? padding->zero_padding(y) : y;
  });
}

FIT_FIELDS_OF(TransformerDecoder, layers, norm)

TransformerDecoder::TransformerDecoder(const TransformerLayerOptions& o, std::int64_t num_layers) {
  fill<TransformerDecoderLayer>(layers, norm, o, num_layers, "TransformerDecoder");
}

TransformerDecoder::TransformerDecoder(ModuleList<SequenceLayer> stack, std::shared_ptr<UnaryLayer> last)
    : layers(std::move(stack)), norm(std::move(last)) {}

Tensor TransformerDecoder::forward(const Tensor& x, const Tensor& memory, const DecoderTerms& terms,
                                   TransformerWeights* weights) const {
  return within(*this, [&] {
    const AttentionContext context = decoder_context(memory, terms, weights);
    Tensor y = x;
    for (const SequenceLayer& layer : layers) y = layer(y, context);
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
  DecoderCache cache{KVCache(detail::cache_shapes(layers), memory.size(0), max_length, dtype),
                     std::vector<KVCache::Layer>(layers.size()),
                     memory_mask,
                     {},
                     memory.detach().to(dtype)};
  for (std::int64_t b = 0; b < memory.size(0); ++b) cache.items.push_back(b);
  return cache;
}

Tensor TransformerDecoder::forward(const Tensor& x, DecoderCache& cache) const {
  constexpr const char* op = "TransformerDecoder";
  const NoGrad no_grad;
  check_input(op, "x", x);
  cache.self.check_fits(op, detail::cache_shapes(layers), x.size(0), x.dtype());
  if (cache.memory.size() != layers.size())
    check::fail(op, "the cache has a memory for ", cache.memory.size(), " layers, the model ", layers.size(),
                ": they must agree");
  cache.self.check_capacity(x.size(1));
  AttentionContext context = decoder_context(cache.source, DecoderTerms().memory(cache.memory_mask));
  Tensor out = within(*this, [&] {
    Tensor y = x;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      context.cache = cache.self.past(i);
      context.memory.projected = &cache.memory[i];
      y = layers[i](y, context);
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
  Tensor chosen_mask = memory_mask, chosen_source = source;
  if (items != chosen_items) {  // otherwise each row keeps its memory
    const Tensor ids = tensor(rows, {static_cast<std::int64_t>(rows.size())});
    const auto chosen = [&](const Tensor& x) { return x.defined() ? index_select(x, 0, ids) : x; };
    chosen_source = chosen(source);
    for (KVCache::Layer& layer : chosen_memory) layer = {chosen(layer.keys), chosen(layer.values)};
    if (memory_mask.defined() && memory_mask.rank() > 2 && memory_mask.size(0) > 1) chosen_mask = chosen(memory_mask);
  }
  self.select(rows);
  items = std::move(chosen_items);
  memory = std::move(chosen_memory);
  memory_mask = std::move(chosen_mask);
  source = std::move(chosen_source);
}

}  // namespace fit::nn
