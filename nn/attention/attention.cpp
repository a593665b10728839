#include "fit/nn/attention/attention.hpp"

#include <cmath>
#include <sstream>

#include "attention/attend.hpp"
#include "attention/whole_sequences.hpp"
#include "attention/with_weights.hpp"
#include "fit/detail/scoped.hpp"
#include "fit/detail/thread_state.hpp"
#include "fit/nn/layer/init.hpp"
#include "fit/ops/ops.hpp"
#include "ops/common/autocast.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

// ---- AttentionLayer ------------------------------------------------------------------------------------------------

Tensor AttentionLayer::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const AttentionContext& context) const {
  const auto call = [this](const AttentionContext& c, const auto&... inputs) {
    const auto run = [&](const auto&... x) {
      if (c.cache && cache_shape().kv_heads == 0)
        check::fail(name().c_str(), "the call has a cache, and cache_shape() is empty: decoding with a cache needs it");
      return forward(x..., c);
    };
    return within(*this, run, inputs...);
  };
  return !context.padding || takes_unpadded_ ? call(context, query, key, value)
                                             : call_with_whole_sequences(context, call, query, key, value);
}

AttentionResult AttentionLayer::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                           const AttentionContext& context, ReturnAttention) const {
  return with_weights(context, [&](const AttentionContext& c) { return (*this)(query, key, value, c); });
}

// ---- ScaledDotProductAttention ------------------------------------------------------------------------------------

void ScaledDotProductAttention::fields(Fields& f) { f.self(*this); }

ScaledDotProductAttention::ScaledDotProductAttention(const char* op, const AttentionOptions& numbers)
    : numbers_(numbers) {
  fit::detail::check_numbers(op, numbers);
}

ScaledDotProductAttention::ScaledDotProductAttention(double dropout, double temperature, std::optional<double> scale,
                                                     Generator& generator)
    : ScaledDotProductAttention(
          "ScaledDotProductAttention",
          AttentionOptions().dropout(dropout).temperature(temperature).scale(scale).generator(&generator)) {}

Tensor ScaledDotProductAttention::attend(const Heads& q, const Heads& k, const Heads& v,
                                         const AttentionContext& context, const AttentionTerms& own) const {
  const AttentionOptions& n = numbers_;
  return within(*this, [&] {
    auto o = AttentionOptions(own).dropout(training() ? n.dropout() : 0).temperature(n.temperature());
    return context.attend(q, k, v, o.scale(n.scale()).generator(n.generator()));
  });
}

Tensor ScaledDotProductAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                          const AttentionContext& context) const {
  return attend(query, key, value, context);
}

std::string ScaledDotProductAttention::describe() const {
  std::ostringstream s;
  s << "dropout=" << numbers_.dropout() << ", temperature=" << numbers_.temperature();
  if (numbers_.scale()) s << ", scale=" << *numbers_.scale();
  return s.str();
}

// ---- MultiHeadAttention -------------------------------------------------------------------------------------------

namespace {

constexpr const char* multi_head = "MultiHeadAttention";

// The options, once they are seen to be possible.
const MultiHeadAttentionOptions& checked(const char* op, std::int64_t d_model, std::int64_t num_heads,
                                         const MultiHeadAttentionOptions& o) {
  if (d_model < 1 || num_heads < 1 || d_model % num_heads != 0)
    check::fail(op, "d_model is ", d_model, ", num_heads is ", num_heads,
                ": both must be positive, and num_heads must divide d_model");
  const std::int64_t kv_heads = o.num_kv_heads().value_or(num_heads);
  if (kv_heads < 1 || num_heads % kv_heads != 0)
    check::fail(op, "num_kv_heads is ", kv_heads, ", num_heads is ", num_heads,
                ": num_kv_heads must be positive and divide num_heads");
  for (const auto& [name, features] :
       {std::pair("qdim", o.qdim()), std::pair("kdim", o.kdim()), std::pair("vdim", o.vdim())})
    if (features && *features < 1) check::fail(op, name, " is ", *features, ": it must be positive");
  return o;
}

// x must be (B, S, features), or [N, features] without padding.
void check_input(const char* name, const Tensor& x, const Linear& projection, const AttentionContext& context) {
  check::defined(multi_head, name, x);
  const std::int64_t features = projection.in_features();
  if (context.padding && (x.rank() != 2 || x.size(1) != features))
    check::fail(
        multi_head, name, " has shape ", x.shape(), ": it must be [N, ", features,
        "], as the context is one without padding; a TransformerEncoder removes the padding itself, give a layer "
        "alone context.padding->remove(x), or the mask");
  if (!context.padding && (x.rank() != 3 || x.size(2) != features))
    check::fail(multi_head, name, " has shape ", x.shape(), ": it must be (B, S, ", features, ")");
}

}  // namespace

FIT_FIELDS_OF(MultiHeadAttention, w_q, w_k, w_v, w_o, bias_k, bias_v, attention)

MultiHeadAttention::MultiHeadAttention(const char* op, std::int64_t d_model, std::int64_t num_heads,
                                       const MultiHeadAttentionOptions& o)
    : AttentionLayer(TakesUnpadded()),
      d_model_(d_model),
      num_heads_(num_heads),
      options_(checked(op, d_model, num_heads, o)),
      w_q(o.qdim().value_or(d_model), d_model, o.qkv_bias().value_or(o.bias())),
      w_k(o.kdim().value_or(d_model), o.num_kv_heads().value_or(num_heads) * d_k(), o.qkv_bias().value_or(o.bias())),
      w_v(o.vdim().value_or(d_model), o.num_kv_heads().value_or(num_heads) * d_k(), o.qkv_bias().value_or(o.bias())),
      w_o(d_model, d_model, o.bias()),
      attention(op, AttentionOptions()
                        .dropout(o.dropout())
                        .temperature(o.temperature())
                        .scale(o.scale())
                        .generator(o.generator())) {
  if (!o.add_bias_kv()) return;
  const std::int64_t width = w_k.out_features();
  for (Parameter* const p : {&bias_k, &bias_v})  // Glorot & Bengio 2010
    *p = Parameter(init::normal_(Tensor::empty({1, 1, width}), 0, 1 / std::sqrt(static_cast<double>(width))));
}

MultiHeadAttention::MultiHeadAttention(std::int64_t d_model, std::int64_t num_heads, const MultiHeadAttentionOptions& o)
    : MultiHeadAttention(multi_head, d_model, num_heads, o) {}

MultiHeadAttention::MultiHeadAttention(std::int64_t d_model, std::int64_t num_heads, double dropout, bool bias)
    : MultiHeadAttention(multi_head, d_model, num_heads, MultiHeadAttentionOptions(dropout).bias(bias)) {}

Tensor MultiHeadAttention::forward(const Tensor& given_query, const Tensor& given_key, const Tensor& given_value,
                                   const AttentionContext& context) const {
  const auto run = [&](const Tensor& query, const Tensor& key, const Tensor& value) {
    check_input("query", query, w_q, context);
    bool& recording = fit::detail::thread_state.recording;
    const fit::detail::Scoped unrecorded(recording, recording && !context.cache);
    const auto& padding = context.padding;
    const Tensor projected = w_q(query), q = padding ? padding->restore(projected) : projected;
    const Keys to = keys_of(q, key, value, context);
    const Tensor z = attention.attend(heads_last(q, num_heads_), heads_last(to.k), heads_last(to.v), to.context);
    return project_heads(w_o, padding ? padding->remove(z) : z, num_heads_);  // -> (B, Sq, d_model)
  };
  return within(*this, run, given_query, given_key, given_value);
}

MultiHeadAttention::Keys MultiHeadAttention::keys_of(const Tensor& q, const Tensor& key, const Tensor& value,
                                                     const AttentionContext& context) const {
  KVCache::Layer own, *const kept = context.projected ? context.projected : &own;
  if (context.projected && product_dtype(q.dtype(), q.dtype()) != product_dtype(key.dtype(), key.dtype()))
    check::fail(multi_head, "the projected memory of the cache is ", key.dtype(), ", the query is ", q.dtype(),
                ": make the cache and use it under the same Autocast");
  if (!kept->keys.defined()) {
    check_input("key", key, w_k, context);
    check_input("value", value, w_v, context);
    *kept = {w_k(key), w_v(value)};
    if (const auto& padding = context.padding) *kept = {padding->restore(kept->keys), padding->restore(kept->values)};
  }
  Keys keys{kept->keys, kept->values, context};
  keys.context.terms.causal(context.terms.causal() || options_.causal());
  if (!options_.add_bias_kv() && !options_.add_zero_attn()) return keys;
  if (context.cache || context.past)
    check::fail(multi_head, "add_bias_kv or add_zero_attn is on: a cache has no place for such keys");
  return with_extra_keys(std::move(keys), q.size(1));
}

// Appends keys and values to which every query attends.
MultiHeadAttention::Keys MultiHeadAttention::with_extra_keys(Keys keys, std::int64_t queries) const {
  auto& [k, v, context] = keys;
  AttentionTerms& terms = context.terms;
  const std::int64_t more = options_.add_bias_kv() + options_.add_zero_attn(), own = k.size(1);
  for (const auto& [name, term] :
       {std::pair("alibi", terms.alibi().defined()), std::pair("score", terms.score().defined())})
    if (term)
      check::fail(multi_head, name, " is given, and add_bias_kv or add_zero_attn is on: such keys have no position");
  for (const auto& [name, term] : {std::pair("mask", &terms.mask()), std::pair("bias", &terms.bias())})
    if (term->defined() && (term->rank() == 0 || term->size(-1) != own))
      check::fail(multi_head, "the ", name, " is ", term->shape(), ", there are ", own,
                  " keys: they are its last axis, without those of add_bias_kv and add_zero_attn");
  if (terms.attends().defined()) {
    const Tensor pairs = to_tensor(terms.attends(), k.size(0), num_heads_, queries, own);
    terms.mask(combine_masks(terms.mask(), pairs)).attends({});
  }
  const Shape one = k.shape().with(1, 1);
  if (options_.add_bias_kv()) {
    k = cat({k, broadcast_to(bias_k.value(), one)}, 1);
    v = cat({v, broadcast_to(bias_v.value(), one)}, 1);
  }
  if (options_.add_zero_attn()) k = cat({k, zeros(one, k.dtype())}, 1), v = cat({v, zeros(one, v.dtype())}, 1);
  // Causality and windows count from the last key: they become a mask before keys are appended.
  if (terms.causal() || terms.window() > 0) {
    const kernels::Visibility pairs{queries, own, terms.causal(), terms.window()};
    const Tensor range = fit::detail::pairs_mask(pairs).alias({queries, own});
    terms.mask(terms.mask().defined() ? where(range, terms.mask(), 0) : range);
    terms.causal(false).window(0);
  }
  const auto extended = [&](const Tensor& x, Scalar value) {
    return x.defined() ? cat({x, full(x.shape().with(x.rank() - 1, more), value, x.dtype())}, -1) : x;
  };
  terms.mask(extended(terms.mask(), 1));
  terms.bias(extended(terms.bias(), 0));
  return keys;
}

KVCache::LayerShape MultiHeadAttention::cache_shape() const {
  return {options_.num_kv_heads().value_or(num_heads_), d_k()};
}

std::string MultiHeadAttention::describe() const {
  std::ostringstream s;
  s << "d_model=" << d_model_ << ", num_heads=" << num_heads_;
  if (options_.num_kv_heads()) s << ", num_kv_heads=" << *options_.num_kv_heads();
  if (options_.causal()) s << ", causal=true";
  if (options_.add_bias_kv()) s << ", add_bias_kv=true";
  if (options_.add_zero_attn()) s << ", add_zero_attn=true";
  return s.str();
}

std::vector<std::pair<std::string, std::string>> MultiHeadAttention::saved_options() const {
  return {{"num_heads", std::to_string(num_heads_)}};
}

// ---- layers around one MultiHeadAttention --------------------------------------------------------------------------

FIT_FIELDS_OF(SelfAttention, multihead_attn)

SelfAttention::SelfAttention(const char* op, std::int64_t d_model, std::int64_t num_heads,
                             const MultiHeadAttentionOptions& o)
    : SequenceLayer(TakesUnpadded()), multihead_attn(op, d_model, num_heads, o) {}

SelfAttention::SelfAttention(std::int64_t d_model, std::int64_t num_heads, const MultiHeadAttentionOptions& o)
    : SelfAttention("SelfAttention", d_model, num_heads, o) {}

Tensor SelfAttention::forward(const Tensor& x, const AttentionContext& context) const {
  return within(
      *this, [&](const Tensor& y) { return multihead_attn(y, y, y, context); }, x);
}

FIT_FIELDS_OF(CausalSelfAttention, multihead_attn)

CausalSelfAttention::CausalSelfAttention(std::int64_t d_model, std::int64_t num_heads,
                                         const MultiHeadAttentionOptions& o)
    : SelfAttention("CausalSelfAttention", d_model, num_heads, MultiHeadAttentionOptions(o).causal(true)) {}

FIT_FIELDS_OF(CrossAttention, multihead_attn)

CrossAttention::CrossAttention(std::int64_t d_model, std::int64_t num_heads, const MultiHeadAttentionOptions& o)
    : multihead_attn("CrossAttention", d_model, num_heads, o) {}

Tensor CrossAttention::forward(const Tensor& query, const Tensor& key_value, const AttentionContext& context) const {
  const auto run = [&](const Tensor& q, const Tensor& kv) { return multihead_attn(q, kv, kv, context); };
  return within(*this, run, query, key_value);
}

Tensor CrossAttention::operator()(const Tensor& query, const Tensor& key_value, const AttentionContext& context) const {
  const auto run = [&](const Tensor& q, const Tensor& kv) { return forward(q, kv, context); };
  return within(*this, run, query, key_value);
}

AttentionResult CrossAttention::operator()(const Tensor& query, const Tensor& key_value,
                                           const AttentionContext& context, ReturnAttention) const {
  return with_weights(context, [&](const AttentionContext& c) { return (*this)(query, key_value, c); });
}

}  // namespace fit::nn
