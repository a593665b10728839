#include "fit/nn/gpt.hpp"

#include <cmath>

#include "attention/event.hpp"
#include "fit/activation_checkpoint.hpp"
#include "fit/named_values.hpp"
#include "fit/nn/loss.hpp"
#include "fit/nn/position.hpp"
#include "fit/ops.hpp"
#include "layers/describe.hpp"
#include "layers/project_heads.hpp"
#include "layers/sizes.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

const char* name_of(Positions p) {
  switch (p) {
    case Positions::none:
      return "none";
    case Positions::learned:
      return "learned";
    case Positions::sinusoidal:
      return "sinusoidal";
    case Positions::rotary:
      return "rotary";
    default:
      return "alibi";
  }
}

namespace {

// Checks the options and sets derived ones.
GPTOptions completed(GPTOptions o) {
  constexpr const char* op = "GPT";
  if (o.num_kv_heads() == 0) o.num_kv_heads(o.num_heads());
  positive(op, "vocab_size", o.vocab_size());
  positive(op, "context_length", o.context_length());
  positive(op, "num_layers", o.num_layers());
  positive(op, "num_heads", o.num_heads());
  positive(op, "d_model", o.d_model());
  positive(op, "num_kv_heads", o.num_kv_heads());
  if (o.hidden() == 0) o.hidden(4 * o.d_model());
  positive(op, "hidden", o.hidden());
  if (o.d_model() % o.num_heads() != 0)
    check::fail(op, "d_model is ", o.d_model(), ", num_heads is ", o.num_heads(), ": num_heads must divide d_model");
  if (o.num_heads() % o.num_kv_heads() != 0)
    check::fail(op, "num_heads is ", o.num_heads(), ", num_kv_heads is ", o.num_kv_heads(),
                ": num_kv_heads must divide num_heads");
  if (o.positions() == Positions::rotary && o.d_model() / o.num_heads() % 2 != 0)
    check::fail(op, "d_model is ", o.d_model(), ", num_heads is ", o.num_heads(),
                ": rotary positions want an even number of features in a head");
  if (o.window() < 0) check::fail(op, "window is ", o.window(), ": it must not be negative");
  return o;
}

Tensor table_of(const GPTOptions& o, const Tensor& given) {
  if (given.defined() || o.positions() != Positions::rotary) return given;
  return rotary_table(o.context_length(), o.d_model() / o.num_heads(), o.rotary_base());
}

LayerNormOptions norm_options(const GPTOptions& o) { return LayerNormOptions().bias(o.bias()); }

FeedForwardOptions feed_forward(const GPTOptions& o) {
  return FeedForwardOptions().activation(o.activation()).dropout(o.dropout()).bias(o.bias());
}

void start(const Linear& linear, double std) {
  init::normal_(linear.weight, 0, std);
  if (linear.bias.defined()) init::zeros_(linear.bias);
}

}  // namespace

// ---- GPTAttention -------------------------------------------------------------------------------------------------

GPTAttention::GPTAttention(const GPTOptions& o, const Tensor& rotary)
    : options_(completed(o)),
      rotary_(table_of(o, rotary)),
      qkv(o.d_model(), (options_.num_heads() + 2 * options_.num_kv_heads()) * (o.d_model() / o.num_heads()), o.bias()),
      attention(o.dropout()),
      proj(o.d_model(), o.d_model(), o.bias()),
      dropout(o.dropout()) {}

// The concatenated queries, keys and values. Queries and keys are rotated.
Tensor GPTAttention::rotated_qkv(const Tensor& x, std::int64_t offset) const {
  Tensor joint = qkv(x);
  if (!rotary_.defined()) return joint;
  if (value_wanted("q_unrotated") || value_wanted("k_unrotated")) {
    const auto [q, k, v] = packed_heads(joint, options_.num_heads(), options_.num_kv_heads());
    using fit::detail::observed_heads;
    joint = cat(
        {features_of(observed_heads("q_unrotated", q)), features_of(observed_heads("k_unrotated", k)), features_of(v)},
        -1);
  }
  const std::int64_t features = (options_.num_heads() + options_.num_kv_heads()) * 2 * rotary_.size(1);
  return rotary(joint, rotary_, RotaryOptions().layout(options_.rotary_layout()).features(features).offset(offset));
}

AttentionMasks GPTAttention::masks(const Tensor& mask) const {
  auto m = AttentionMasks(mask).causal().window(options_.window());
  if (options_.positions() == Positions::alibi) m.alibi(alibi_slopes(options_.num_heads()));
  return m;
}

Tensor GPTAttention::forward(const Tensor& x) const {
  const Tensor joint = rotated_qkv(x, 0);  // (B, T, (num_heads + 2 num_kv_heads) D)
  const auto [q, k, v] = packed_heads(joint, options_.num_heads(), options_.num_kv_heads());
  const Tensor z = attention.attend(q, k, v, attention.options(masks({}))).output;
  return dropout(project_heads(proj, z, options_.num_heads()));  // (B, T, d_model)
}

Tensor GPTAttention::forward(const Tensor& x, KVCache::Layer& kept, std::int64_t length, const Tensor& mask) const {
  const auto [q, k, v] = packed_heads(rotated_qkv(x, length), options_.num_heads(), options_.num_kv_heads());
  const AttentionCache cache{kept.keys, kept.values, length};
  const Tensor z = attention.attend(q, k, v, attention.options(masks(mask)).cache(&cache)).output;
  return dropout(project_heads(proj, z, options_.num_heads()));
}

std::string GPTAttention::describe() const {
  return describe_all("d_model=", options_.d_model(), ", num_heads=", options_.num_heads(),
                      ", num_kv_heads=", options_.num_kv_heads());
}

// ---- GPTBlock -----------------------------------------------------------------------------------------------------

GPTBlock::GPTBlock(const GPTOptions& o, const Tensor& rotary)
    : options_(completed(o)),
      ln_1(o.d_model(), norm_options(o)),
      attn(options_, rotary),
      ln_2(o.d_model(), norm_options(o)),
      mlp(o.d_model(), options_.hidden(), feed_forward(o)) {}

namespace {

template <class Attend>
Tensor through_block(const GPTBlock& block, const Tensor& given, const Attend& attend) {
  const Tensor x = observed("resid_pre", given);
  const Tensor y = observed("resid_mid", x + attend(block.ln_1(x)));
  return observed("resid_post", y + block.mlp(block.ln_2(y)));
}

}  // namespace

Tensor GPTBlock::forward(const Tensor& x) const {
  return through_block(*this, x, [&](const Tensor& z) { return attn(z); });
}

Tensor GPTBlock::forward(const Tensor& x, KVCache::Layer& kept, std::int64_t length, const Tensor& mask) const {
  return through_block(*this, x, [&](const Tensor& z) { return attn(z, kept, length, mask); });
}

// ---- GPT ----------------------------------------------------------------------------------------------------------

GPT::GPT(const GPTOptions& o, const init::Skip&)
    : options_(completed(o)),
      wte(o.vocab_size(), o.d_model()),
      dropout(o.dropout()),
      ln_f(o.d_model(), norm_options(o)),
      head(o.tie_weights() ? Linear(wte.weight) : Linear(o.d_model(), o.vocab_size(), false)) {
  if (o.positions() == Positions::learned) wpe.emplace(o.context_length(), o.d_model());
  if (o.positions() == Positions::sinusoidal) sinusoids_ = sinusoidal_positions(o.context_length(), o.d_model());
  const Tensor rotary = table_of(options_, {});
  for (std::int64_t i = 0; i < o.num_layers(); ++i) h.add(GPTBlock(options_, rotary));
}

GPT::GPT(const GPTOptions& o) : GPT(o, init::Skip()) {
  constexpr double std = 0.02;
  const double residual = std / std::sqrt(2.0 * static_cast<double>(o.num_layers()));
  init::normal_(wte.weight, 0, std);
  if (wpe) init::normal_(wpe->weight, 0, std);
  for (GPTBlock& block : h) {
    start(block.attn.qkv, std);
    start(block.attn.proj, residual);
    start(block.mlp.fc, std);
    if (block.mlp.gate) start(*block.mlp.gate, std);
    start(block.mlp.proj, residual);
  }
  if (!o.tie_weights()) start(head, std);
}

Tensor GPT::embedded(const Tensor& ids, const KVCache* cache) const {
  check::defined("GPT", "ids", ids);
  const std::int64_t before = cache ? cache->length() : 0;
  if (ids.rank() != 2 || before + ids.size(1) > options_.context_length())
    check::fail("GPT", "ids has shape ", ids.shape(), " behind ", before,
                " positions: it must be [B, T], and all together at most context_length, ", options_.context_length());
  if (cache) {
    const GPTOptions& o = options_;
    cache->check_fits("GPT", h.size(), ids.size(0), o.num_kv_heads(), o.d_model() / o.num_heads(),
                      ln_f.weight.original().dtype());
    cache->check_capacity(ids.size(1));
  }
  Tensor x = wte(ids);
  const std::int64_t T = ids.size(1);
  if (wpe || sinusoids_.defined()) {
    const Tensor at = cache ? cache->positions(T) : arange(T);
    x = x + (wpe ? (*wpe)(at) : embedding(sinusoids_, at).to(x.dtype()));
  }
  return dropout(x);
}

Tensor GPT::hidden(const Tensor& ids) const {
  Tensor x = embedded(ids, nullptr);
  for (const GPTBlock& block : h)
    x = options_.checkpoint_blocks() ? checkpoint([&block](const Tensor& z) { return block(z); }, x) : block(x);
  return ln_f(x);
}

Tensor GPT::hidden(const Tensor& ids, KVCache& cache) const {
  Tensor x = embedded(ids, &cache);
  const std::int64_t length = cache.length();
  const Tensor mask = cache.mask(length + ids.size(1));
  std::size_t layer = 0;
  for (const GPTBlock& block : h) x = block(x, cache[layer++], length, mask);
  return ln_f(x);
}

Tensor GPT::forward(const Tensor& ids) const {
  return within(*this, [&] { return head(hidden(ids)); });
}

Tensor GPT::forward(const Tensor& ids, KVCache& cache) const {
  const NoGrad no_grad;
  return within(*this, [&] {
    Tensor logits = head(hidden(ids, cache));
    cache.advance(ids.size(1));
    return logits;
  });
}

Tensor GPT::forward_last(const Tensor& ids, KVCache& cache) const {
  const NoGrad no_grad;
  check::defined("GPT", "ids", ids);
  if (ids.rank() != 2 || ids.size(1) == 0)
    check::fail("GPT", "ids has shape ", ids.shape(), ": it must be [B, T], T > 0");
  return within(*this, [&] {
    Tensor logits = head(index(hidden(ids, cache), {range(), -1}));
    cache.advance(ids.size(1));
    return logits;
  });
}

KVCache GPT::make_cache(std::int64_t batch, std::int64_t max_length, std::optional<DType> dtype) const {
  const GPTOptions& o = options_;
  return KVCache(o.num_layers(), batch, o.num_kv_heads(), max_length == 0 ? o.context_length() : max_length,
                 o.d_model() / o.num_heads(), dtype.value_or(ln_f.weight.original().dtype()));
}

Tensor GPT::loss(const Tensor& ids, const Tensor& targets, std::int64_t ignore_index) const {
  return cross_entropy(forward(ids), targets, CrossEntropyOptions().ignore_index(ignore_index));
}

std::string GPT::describe() const {
  const GPTOptions& o = options_;
  return describe_all("vocab_size=", o.vocab_size(), ", context_length=", o.context_length(),
                      ", num_layers=", o.num_layers(), ", num_heads=", o.num_heads(), ", d_model=", o.d_model(),
                      ", positions=", name_of(o.positions()), ", tie_weights=", o.tie_weights());
}

}  // namespace fit::nn
