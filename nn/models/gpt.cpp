#include "fit/nn/models/gpt.hpp"

#include <cmath>

#include "attention/attend.hpp"
#include "base/affixes.hpp"
#include "base/joined.hpp"
#include "fit/backward/activation_checkpoint.hpp"
#include "fit/graph/named_values.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/ops/ops.hpp"
#include "layer/sizes.hpp"
#include "models/evaluation.hpp"
#include "models/gpt_options.hpp"
#include "models/saved_options.hpp"
#include "ops/common/autocast.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

const char* name_of(Positions p) {
  // In the order of Positions.
  static constexpr const char* names[] = {"none", "learned", "sinusoidal", "rotary", "alibi"};
  return names[static_cast<int>(p)];
}

namespace {

AttentionOptions attention_options(const GPTOptions& o) {
  auto attention = AttentionOptions().dropout(o.dropout());
  if (o.attention_scale()) attention.scale(*o.attention_scale());
  return attention;
}

// Checks the sizes and sets those that follow from others.
GPTOptions sized(const char* op, const GPTOptions& given) {
  positive(op, "vocab_size", given.vocab_size());
  positive(op, "context_length", given.context_length());
  positive(op, "num_heads", given.num_heads());
  positive(op, "d_model", given.d_model());
  GPTOptions o = with_sizes(given);
  positive(op, "num_kv_heads", o.num_kv_heads());
  check::not_negative(op, "norm_eps", o.norm_eps());
  if (o.norm_eps() == 0) o.norm_eps(o.norm() == Norm::rms ? 1e-6 : 1e-5);
  positive(op, "hidden", o.hidden());
  if (given.head_size() == 0 && o.d_model() % o.num_heads() != 0)
    check::fail(op, "d_model is ", o.d_model(), ", num_heads is ", o.num_heads(), ": num_heads must divide d_model");
  positive(op, "head_size", o.head_size());
  return o;
}

// Checks the options and sets derived ones. A part of a model needs no num_layers.
GPTOptions completed(const char* op, const GPTOptions& given) {
  GPTOptions o = sized(op, given);
  if (o.num_heads() % o.num_kv_heads() != 0)
    check::fail(op, "num_heads is ", o.num_heads(), ", num_kv_heads is ", o.num_kv_heads(),
                ": num_kv_heads must divide num_heads");
  if (o.positions() == Positions::rotary && o.head_size() % 2 != 0)
    check::fail(op, "d_model is ", o.d_model(), ", num_heads is ", o.num_heads(), ", head_size ", o.head_size(),
                ": rotary positions want an even number of features in a head");
  if (o.rotary_features() < 0 || o.rotary_features() > o.head_size() || o.rotary_features() % 2 != 0)
    check::fail(op, "rotary_features is ", o.rotary_features(), ", head_size ", o.head_size(),
                ": it must be even and in 0 … head_size");
  check::not_negative(op, "window", o.window());
  for (const std::int64_t window : o.windows()) check::not_negative(op, "a window of windows", window);
  const auto check_cap = [&](const char* name, double cap) {
    if (!(cap >= 0) || std::isinf(cap)) check::fail(op, name, " is ", cap, ": it must be finite and not negative");
  };
  if (o.qk_norm_across_heads() && !o.qk_norm())
    check::fail(op, "qk_norm_across_heads is true, qk_norm false: it needs qk_norm");
  if (o.shared_norm() && !(o.parallel() && o.norm_place() == NormPlace::before))
    check::fail(op, "shared_norm is true: it needs parallel, and NormPlace::before");
  if (o.head_bias() && o.tie_weights()) check::fail(op, "head_bias is true: it needs tie_weights(false)");
  if (!o.norm_weights() && o.norm() == Norm::rms)
    check::fail(op, "norm_weights is false, and norm is RMSNorm: only a LayerNorm can do without");
  if (!std::isfinite(o.embedding_scale()))
    check::fail(op, "embedding_scale is ", o.embedding_scale(), ": it must be finite");
  check_cap("logit_cap", o.logit_cap());
  check_cap("attention_logit_cap", o.attention_logit_cap());
  fit::detail::check_numbers(op, attention_options(o));
  return o;
}

Tensor table_of(const GPTOptions& o, const Tensor& given) {
  if (given.defined() || o.positions() != Positions::rotary) return given;
  const std::int64_t features = o.rotary_features() == 0 ? o.head_size() : o.rotary_features();
  return rotary_table(o.context_length(), features,
                      o.window() > 0 ? o.local_rotary().value_or(o.rotary()) : o.rotary());
}

std::shared_ptr<UnaryLayer> norm_of(const GPTOptions& o) {
  if (o.norm() == Norm::none) return nullptr;
  if (o.norm() == Norm::rms) return std::make_shared<RMSNorm>(o.d_model(), o.norm_eps());
  const auto of_layer = LayerNormOptions().bias(o.bias()).weight(o.norm_weights()).eps(o.norm_eps());
  return std::make_shared<LayerNorm>(o.d_model(), of_layer);
}

std::shared_ptr<UnaryLayer> norm_at(NormPlace place, const GPTOptions& o) {
  return o.norm_place() == place || o.norm_place() == NormPlace::both ? norm_of(o) : nullptr;
}

std::shared_ptr<UnaryLayer> feed_forward(const GPTOptions& o) {
  const auto f = FeedForwardOptions().activation(o.activation()).dropout(o.dropout()).bias(o.bias());
  return std::make_shared<FeedForward>(o.d_model(), o.hidden(), f);
}

void start_linear(const Linear& linear, double std) {
  init::normal_(linear.weight, 0, std);
  if (linear.bias.defined()) init::zeros_(linear.bias);
}

}  // namespace

// ---- GPTAttention -------------------------------------------------------------------------------------------------

FIT_FIELDS_OF(GPTAttention, qkv, q_norm, k_norm, value_embedding, attention, gate, proj, dropout)

GPTAttention::GPTAttention(const GPTOptions& o, const Tensor& rotary) : GPTAttention("GPTAttention", o, rotary) {}

GPTAttention::GPTAttention(const char* op, const GPTOptions& given, const Tensor& rotary)
    : options_(completed(op, given)),
      rotary_(table_of(options_, rotary)),
      qkv(options_.d_model(), (options_.num_heads() + 2 * options_.num_kv_heads()) * options_.head_size(),
          options_.qkv_bias().value_or(options_.bias())),
      attention(op, attention_options(options_)),
      proj(options_.num_heads() * options_.head_size(), options_.d_model(), options_.bias()),
      dropout(options_.dropout()) {
  const GPTOptions& o = options_;
  if (o.qk_norm()) {
    const bool all = o.qk_norm_across_heads();
    q_norm.emplace(o.head_size() * (all ? o.num_heads() : 1), o.norm_eps());
    k_norm.emplace(o.head_size() * (all ? o.num_kv_heads() : 1), o.norm_eps());
  }
  if (o.value_embeddings()) value_embedding.emplace(o.vocab_size(), o.num_kv_heads() * o.head_size());
  if (o.head_gates()) gate.emplace(o.d_model(), o.num_heads(), o.bias());
}

std::array<Heads, 3> GPTAttention::projected(const Tensor& x, const AttentionContext& context) const {
  const GPTOptions& o = options_;
  const std::int64_t D = o.head_size(), H = o.num_heads(), Hkv = o.num_kv_heads(), rotated = (H + Hkv) * D;
  Tensor joint = qkv(x), values;  // values: if they do not lie behind the queries and keys of joint
  if (q_norm) {
    const auto normalized = [&](const RMSNorm& norm, std::int64_t begin, std::int64_t heads) {
      const Tensor some = slice(joint, -1, begin, begin + heads * D);
      if (o.qk_norm_across_heads()) return norm(some);
      return reshape(norm(reshape(some, {x.size(0), x.size(1), heads, D})), some.shape());
    };
    values = slice(joint, -1, rotated, joint.size(-1));
    joint = cat({normalized(*q_norm, 0, H), normalized(*k_norm, H * D, Hkv)}, -1);
  }
  const auto heads = [&]() -> std::array<Heads, 3> {
    return {part(joint, 0, H, D), part(joint, H * D, Hkv, D),
            values.defined() ? heads_last(values) : part(joint, rotated, Hkv, D)};
  };
  if (!rotary_.defined()) return heads();
  if (value_wanted("q_unrotated") || value_wanted("k_unrotated")) {
    const auto [q, k, v] = heads();
    using fit::detail::features_of, fit::detail::observed_heads;
    std::vector<Tensor> all{features_of(observed_heads("q_unrotated", q)),
                            features_of(observed_heads("k_unrotated", k))};
    if (!values.defined()) all.push_back(features_of(v));
    joint = cat(all, -1);
  }
  const auto turn =
      RotaryOptions().layout(o.rotary_layout()).features(rotated).head_size(D).positions(context.positions);
  joint = rotary(joint, rotary_, RotaryOptions(turn).offset(context.positions.defined() ? 0 : context.length()));
  return heads();
}

Heads GPTAttention::with_embeddings(const Heads& v, const AttentionContext& context) const {
  check::defined("GPTAttention", "ids of the context, which value_embeddings needs", context.ids);
  return heads_last(fit::detail::features_of(v) + (*value_embedding)(context.ids));
}

Tensor GPTAttention::forward(const Tensor& x, const AttentionContext& context) const {
  const GPTOptions& o = options_;
  auto [q, k, v] = projected(x, context);
  if (value_embedding) v = with_embeddings(v, context);
  auto own = AttentionTerms().causal().window(o.window());
  if (o.positions() == Positions::alibi) own.alibi(alibi_slopes(o.num_heads()));
  if (const double cap = o.attention_logit_cap(); cap > 0) own.score([&](Score s, At) { return cap * tanh(s / cap); });
  Tensor y = attention.attend(q, k, v, context, own);  // (B, T, num_heads D)
  if (gate) {
    const Tensor by_head = reshape(y, {x.size(0), x.size(1), o.num_heads(), o.head_size()});
    y = reshape(by_head * unsqueeze(sigmoid((*gate)(x)), -1), y.shape());
  }
  return dropout(project_heads(proj, y, o.num_heads()));  // (B, T, d_model)
}

KVCache::LayerShape GPTAttention::cache_shape() const { return {options_.num_kv_heads(), options_.head_size()}; }

std::string GPTAttention::describe() const {
  return joined("d_model=", options_.d_model(), ", num_heads=", options_.num_heads(),
                ", num_kv_heads=", options_.num_kv_heads());
}

// ---- GPTBlock -----------------------------------------------------------------------------------------------------

FIT_FIELDS_OF(GPTBlock, ln_1, attn, post_ln_1, ln_2, mlp, post_ln_2)

GPTBlock::GPTBlock(const GPTOptions& o, const Tensor& rotary) : GPTBlock("GPTBlock", o, rotary) {}

GPTBlock::GPTBlock(const char* op, const GPTOptions& given, const Tensor& rotary) {
  const GPTOptions o = completed(op, given);
  parallel_ = o.parallel();
  shared_norm_ = o.shared_norm();
  ln_1 = norm_at(NormPlace::before, o);
  attn = std::make_shared<GPTAttention>(op, o, rotary);
  post_ln_1 = norm_at(NormPlace::after, o);
  if (o.attention_only()) return;
  if (!o.shared_norm()) ln_2 = norm_at(NormPlace::before, o);
  mlp = feed_forward(o);
  post_ln_2 = norm_at(NormPlace::after, o);
}

Tensor GPTBlock::forward(const Tensor& x, const AttentionContext& context) const {
  const auto norm = [](const std::shared_ptr<UnaryLayer>& layer, const Tensor& z) { return layer ? (*layer)(z) : z; };
  const Tensor in = observed("resid_pre", x), normalized = norm(ln_1, in);
  const Tensor y = in + norm(post_ln_1, (*attn)(normalized, context));
  if (!mlp) return observed("resid_post", y);
  const Tensor mid = observed("resid_mid", y);
  const Tensor second = shared_norm_ ? normalized : norm(ln_2, parallel_ ? in : mid);
  return observed("resid_post", mid + norm(post_ln_2, (*mlp)(second)));
}

// ---- GPT ----------------------------------------------------------------------------------------------------------

namespace {

// completed() for a model.
GPTOptions of_model(const GPTOptions& o) {
  positive("GPT", "num_layers", o.num_layers());
  return completed("GPT", o);
}

ModuleList<SequenceLayer> blocks_of(const GPTOptions& o) {
  const init::Skip undrawn;
  ModuleList<SequenceLayer> blocks;
  const Tensor rotary = table_of(GPTOptions(o).window(0), {});
  const Tensor local = o.local_rotary() ? table_of(GPTOptions(o).window(1), {}) : rotary;
  for (const std::int64_t window : windows_of(o))
    blocks.add(GPTBlock("GPT", GPTOptions(o).window(window), window > 0 ? local : rotary));
  return blocks;
}

// The heads are those of the blocks.
GPTOptions without_blocks(GPTOptions o, const ModuleList<SequenceLayer>& blocks) {
  o.num_layers(static_cast<std::int64_t>(blocks.size()));
  if (o.num_heads() == 0) o.num_heads(1);
  return o;
}

// x holds a number for each position of ids [B, T].
void check_by_position(const char* name, const Tensor& x, const Tensor& ids) {
  check::defined("GPT", "ids", ids);
  check::dtype("GPT", name, x, int64);
  if (x.shape() != ids.shape() && (ids.rank() != 2 || x.shape() != Shape{ids.size(1)}))
    check::fail("GPT", name, " is ", x.shape(), ", ids is ", ids.shape(), ": ", name, " must be [T] or [B, T]");
}

// Checks the positions that a caller gives for ids [B, T].
void check_positions(const GPTOptions& o, const Tensor& ids, const Tensor& positions) {
  check_by_position("positions", positions, ids);
  for (const std::int64_t p : positions.data<std::int64_t>())
    if (p < 0 || p >= o.context_length())
      check::fail("GPT", "a position is ", p, ": it must be in 0 … context_length - 1, ", o.context_length() - 1);
}

// Throws Error if the model uses distances of keys: they count keys in the cache, not given positions.
void check_no_distances(const GPTOptions& o) {
  const bool window = has_window(o);
  if (window || o.positions() == Positions::alibi)
    check::fail("GPT", "positions are given, and the model has ", window ? "a window" : "ALiBi",
                ", which counts keys: leave the positions out");
}

}  // namespace

FIT_FIELDS_OF(GPT, wte, wpe, dropout, h, ln_f, head)

GPT::GPT(const GPTOptions& o, ModuleList<SequenceLayer> blocks, const init::Skip&)
    : options_(of_model(o)),
      wte(o.vocab_size(), o.d_model()),
      dropout(o.dropout()),
      h(std::move(blocks)),
      ln_f(norm_of(options_)),
      head(o.tie_weights() ? Linear(wte.weight) : Linear(o.d_model(), o.vocab_size(), o.head_bias())) {
  if (o.positions() == Positions::learned) wpe.emplace(o.context_length(), o.d_model());
  if (o.positions() == Positions::sinusoidal) sinusoids_ = sinusoidal_positions(o.context_length(), o.d_model());
}

GPT::GPT(const GPTOptions& o) : GPT(o, blocks_of(of_model(o)), init::Skip()) { start(h); }

GPT::GPT(const GPTOptions& o, ModuleList<SequenceLayer> blocks)
    : GPT(without_blocks(o, blocks), ModuleList<SequenceLayer>(), init::Skip()) {
  h = std::move(blocks);
  start({});
}

void GPT::start(const ModuleList<SequenceLayer>& blocks) {
  constexpr double std = 0.02;
  const double residual = std / std::sqrt(2.0 * static_cast<double>(h.size()));
  init::normal_(wte.weight, 0, std);
  if (wpe) init::normal_(wpe->weight, 0, std);
  for (const SequenceLayer& block : blocks) {
    for (const auto& [name, linear] : block.named_layers<Linear>())
      start_linear(*linear, ends_with(name, ".proj") ? residual : std);
    for (const auto& [name, table] : block.named_layers<Embedding>()) init::normal_(table->weight, 0, std);
  }
  if (!options_.tie_weights()) start_linear(head, std);
}

Tensor GPT::embedded(const Tensor& ids, const KVCache* cache, const Tensor& positions, std::int64_t before) const {
  check::defined("GPT", "ids", ids);
  const std::int64_t context = options_.context_length();
  if (ids.rank() != 2 || (!positions.defined() && before + ids.size(1) > context))
    check::fail("GPT", "ids has shape ", ids.shape(), " behind ", before,
                " positions: it must be [B, T], and all together at most context_length, ", context);
  if (positions.defined()) check_positions(options_, ids, positions);
  Tensor x = wte(ids);
  if (options_.embedding_scale() != 1) x = x * options_.embedding_scale();
  if (cache) {
    cache->check_fits("GPT", detail::cache_shapes(h), ids.size(0), x.dtype());
    cache->check_capacity(ids.size(1));
  }
  const std::int64_t T = ids.size(1);
  if (wpe || sinusoids_.defined()) {
    const Tensor at = positions.defined() ? positions : cache ? cache->positions(T) : arange(before, before + T);
    x = x + (wpe ? (*wpe)(at) : embedding(sinusoids_, at).to(x.dtype()));
  }
  return dropout(x);
}

Tensor GPT::hidden(const Tensor& ids, KVCache* cache, const Tensor& positions, const AttentionTerms& terms,
                   std::vector<KVCache::Layer>* past) const {
  const std::int64_t before = cache ? cache->length() : past && !past->empty() ? (*past)[0].keys.size(2) : 0;
  Tensor x = embedded(ids, cache, positions, before);
  AttentionContext context(terms);
  context.terms.causal(true);
  context.ids = ids;
  context.positions = positions;
  if (cache && !cache->padding().empty()) {
    if (!positions.defined()) context.positions = cache->positions(ids.size(1));
    context.terms.mask(combine_masks(cache->mask(cache->length() + ids.size(1)), terms.mask()));
  }
  for (std::size_t i = 0; i < h.size(); ++i) {
    const SequenceLayer& block = h[i];
    if (cache) context.cache = cache->past(i);
    if (past) context.past = &(*past)[i];
    // A block that grows `past` gives more than its result: it can't be computed again.
    x = options_.checkpoint_blocks() && !past
            ? checkpoint([&block, context](const Tensor& z) { return block(z, context); }, x)
            : block(x, context);
  }
  return ln_f ? (*ln_f)(x) : x;
}

Tensor GPT::logits(const Tensor& x) const {
  const Tensor y = head(x);
  const double cap = options_.logit_cap();
  return cap > 0 ? tanh(y / cap) * cap : y;
}

Tensor GPT::forward(const Tensor& ids) const {
  return within(*this, [&] { return logits(hidden(ids, nullptr)); });
}

Tensor GPT::forward(const Tensor& ids, const Tensor& documents, const Tensor& positions) const {
  return within(*this, [&] {
    check_by_position("documents", documents, ids);
    return logits(hidden(ids, nullptr, positions, document_mask(documents)));
  });
}

Tensor GPT::forward(const Tensor& ids, std::vector<KVCache::Layer>& past) const {
  check::defined("GPT", "ids", ids);
  const std::vector<KVCache::LayerShape> shapes = detail::cache_shapes(h);
  if (past.size() != h.size())
    check::fail("GPT", "past has ", past.size(), " layers, the model ", h.size(), ": they must agree");
  for (std::size_t i = 0; i < past.size(); ++i) {
    check::defined("GPT", "keys of past", past[i].keys, "values of past", past[i].values);
    const Shape keys{ids.size(0), shapes[i].kv_heads, past[0].keys.rank() == 4 ? past[0].keys.size(2) : 0,
                     shapes[i].head_size};
    check::shape("GPT", "keys of past", past[i].keys, keys);
    check::shape("GPT", "values of past", past[i].values, keys.with(3, shapes[i].values()));
  }
  std::vector<KVCache::Layer> grown = past;
  const Tensor y = within(*this, [&] { return logits(hidden(ids, nullptr, {}, {}, &grown)); });
  past = std::move(grown);
  return y;
}

Tensor GPT::next(const Tensor& ids, KVCache& cache, const Tensor& positions, const Tensor& mask, Logits which) const {
  check_drops_nothing("GPT", "the model", *this);
  const NoGrad no_grad;
  return within(*this, [&] {
    if (positions.defined()) check_no_distances(options_);
    const Tensor x = hidden(ids, &cache, positions, mask);
    Tensor y = logits(which == Logits::last ? index(x, {range(), -1}) : x);
    cache.advance(ids.size(1));
    return y;
  });
}

Tensor GPT::forward(const Tensor& ids, KVCache& cache, const Tensor& positions, const Tensor& mask) const {
  return next(ids, cache, positions, mask, Logits::all);
}

Tensor GPT::forward_last(const Tensor& ids, KVCache& cache) const {
  check::defined("GPT", "ids", ids);
  if (ids.rank() != 2 || ids.size(1) == 0)
    check::fail("GPT", "ids has shape ", ids.shape(), ": it must be [B, T], T > 0");
  return next(ids, cache, {}, {}, Logits::last);
}

KVCache GPT::make_cache(std::int64_t batch, std::int64_t max_length, std::optional<DType> dtype) const {
  const NoGrad no_grad;
  const DType own = wte.forward(zeros({1}, int64)).dtype();  // not the type of narrow weights, and no call of the layer
  return KVCache(detail::cache_shapes(h), batch, max_length == 0 ? options_.context_length() : max_length,
                 dtype.value_or(product_dtype(own, own)));
}

Tensor GPT::loss(const Tensor& ids, const Tensor& targets, std::int64_t ignore_index) const {
  return cross_entropy(forward(ids), targets, CrossEntropyOptions().ignore_index(ignore_index));
}

OptionList GPT::saved_options() const { return option_list(options_); }

std::string GPT::describe() const {
  const GPTOptions& o = options_;
  return joined("vocab_size=", o.vocab_size(), ", context_length=", o.context_length(), ", num_layers=", o.num_layers(),
                ", num_heads=", o.num_heads(), ", d_model=", o.d_model(), ", positions=", name_of(o.positions()),
                ", tie_weights=", o.tie_weights());
}

}  // namespace fit::nn
