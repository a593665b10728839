#include "fit/nn/attention.hpp"

#include <cmath>
#include <sstream>

#include "attention/attend.hpp"
#include "fit/nn/init.hpp"
#include "fit/ops.hpp"
#include "layers/project_heads.hpp"
#include "ops/autocast.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

namespace {

void check_numbers(const char* op, double dropout, double temperature, const std::optional<double>& scale) {
  if (!(dropout >= 0 && dropout <= 1)) check::fail(op, "dropout is ", dropout, ": it must be in 0 … 1");
  if (!(temperature > 0) || std::isinf(temperature))
    check::fail(op, "temperature is ", temperature, ": it must be positive and finite");
  if (scale && !std::isfinite(*scale)) check::fail(op, "scale is ", *scale, ": it must be finite");
}

}  // namespace

// ---- AttentionLayer ------------------------------------------------------------------------------------------------

Tensor AttentionLayer::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const AttentionMasks& masks) const {
  return within(*this, {query, key, value}, [&] { return forward(query, key, value, masks); });
}

AttentionResult AttentionLayer::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                           const AttentionMasks& masks, ReturnAttention) const {
  return within(*this, {query, key, value}, [&] { return forward_with_weights(query, key, value, masks); });
}

Tensor AttentionLayer::forward_unpadded(const Tensor& x, const Unpadding& padding) const {
  const Tensor all = padding.restore(x);
  return padding.remove((*this)(all, all, all, padding.mask()));
}

Tensor AttentionLayer::forward_next(const Tensor&, KVCache::Layer&, std::int64_t, const AttentionMasks&) const {
  check::fail(name().c_str(), "it has no forward_next(): decoding with a cache needs it");
}

// ---- ScaledDotProductAttention ------------------------------------------------------------------------------------

void ScaledDotProductAttention::fields(Fields& f) { f.self(*this); }

ScaledDotProductAttention::ScaledDotProductAttention(double dropout, double temperature, std::optional<double> scale)
    : dropout_(dropout), temperature_(temperature), scale_(scale) {
  check_numbers("ScaledDotProductAttention", dropout, temperature, scale);
}

AttentionOptions ScaledDotProductAttention::options(const AttentionMasks& masks) const {
  return AttentionOptions(masks).dropout(training() ? dropout_ : 0).temperature(temperature_).scale(scale_);
}

AttentionResult ScaledDotProductAttention::attend(const Heads& q, const Heads& k, const Heads& v,
                                                  const AttentionOptions& options) const {
  return within(*this, [&] { return fit::attend(q, k, v, options); });
}

Tensor ScaledDotProductAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                          const AttentionMasks& masks) const {
  return attend(heads_first(query), heads_first(key), heads_first(value), options(masks)).output;
}

AttentionResult ScaledDotProductAttention::forward_with_weights(const Tensor& query, const Tensor& key,
                                                                const Tensor& value,
                                                                const AttentionMasks& masks) const {
  return attend(heads_first(query), heads_first(key), heads_first(value), options(masks).weights(true));
}

std::string ScaledDotProductAttention::describe() const {
  std::ostringstream s;
  s << "dropout=" << dropout_ << ", temperature=" << temperature_;
  if (scale_) s << ", scale=" << *scale_;
  return s.str();
}

// ---- MultiHeadAttention -------------------------------------------------------------------------------------------

namespace {

constexpr const char* multi_head = "MultiHeadAttention";

// The options, once they are seen to be possible.
const MultiHeadAttentionOptions& checked(std::int64_t d_model, std::int64_t num_heads,
                                         const MultiHeadAttentionOptions& o) {
  if (d_model < 1 || num_heads < 1 || d_model % num_heads != 0)
    check::fail(multi_head, "d_model is ", d_model, ", num_heads is ", num_heads,
                ": both must be positive, and num_heads must divide d_model");
  const std::int64_t kv_heads = o.num_kv_heads().value_or(num_heads);
  if (kv_heads < 1 || num_heads % kv_heads != 0)
    check::fail(multi_head, "num_kv_heads is ", kv_heads, ", num_heads is ", num_heads,
                ": num_kv_heads must be positive and divide num_heads");
  for (const auto& [name, features] : {std::pair("kdim", o.kdim()), std::pair("vdim", o.vdim())})
    if (features && *features < 1) check::fail(multi_head, name, " is ", *features, ": it must be positive");
  check_numbers(multi_head, o.dropout(), o.temperature(), o.scale());
  return o;
}

void check_input(const char* name, const Tensor& x, const Linear& projection) {
  check::defined(multi_head, name, x);
  const std::int64_t features = projection.in_features();
  if (x.rank() != 3 || x.size(2) != features)
    check::fail(multi_head, name, " has shape ", x.shape(), ": it must be (B, S, ", features, ")");
}

void check_inputs(const MultiHeadAttention& m, const Tensor& query, const Tensor& key, const Tensor& value) {
  check_input("query", query, m.w_q);
  check_input("key", key, m.w_k);
  check_input("value", value, m.w_v);
}

}  // namespace

FIT_FIELDS_OF(MultiHeadAttention, w_q, w_k, w_v, w_o, bias_k, bias_v, attention)

MultiHeadAttention::MultiHeadAttention(std::int64_t d_model, std::int64_t num_heads, double dropout, bool bias)
    : MultiHeadAttention(d_model, num_heads, MultiHeadAttentionOptions().dropout(dropout).bias(bias)) {}

MultiHeadAttention::MultiHeadAttention(std::int64_t d_model, std::int64_t num_heads, const MultiHeadAttentionOptions& o)
    : d_model_(d_model),
      num_heads_(num_heads),
      options_(checked(d_model, num_heads, o)),
      w_q(d_model, d_model, o.qkv_bias().value_or(o.bias())),
      w_k(o.kdim().value_or(d_model), o.num_kv_heads().value_or(num_heads) * d_k(), o.qkv_bias().value_or(o.bias())),
      w_v(o.vdim().value_or(d_model), o.num_kv_heads().value_or(num_heads) * d_k(), o.qkv_bias().value_or(o.bias())),
      w_o(d_model, d_model, o.bias()),
      attention(o.dropout(), o.temperature(), o.scale()) {
  if (!o.add_bias_kv()) return;
  const std::int64_t width = w_k.out_features();
  for (Parameter* const p : {&bias_k, &bias_v})  // Glorot & Bengio 2010
    *p = Parameter(init::normal_(Tensor::empty({1, 1, width}), 0, 1 / std::sqrt(static_cast<double>(width))));
}

// Appends keys and values to k and v (B, Sk, F), to which every query attends. Returns the masks of all keys.
AttentionMasks MultiHeadAttention::append_keys(Tensor& k, Tensor& v, const AttentionMasks& given,
                                               std::int64_t queries) const {
  AttentionMasks masks = given;
  masks.causal(given.causal() || options_.causal());
  const std::int64_t more = options_.add_bias_kv() + options_.add_zero_attn(), keys = k.size(1);
  if (more == 0) return masks;
  for (const auto& [name, term] :
       {std::pair("alibi", masks.alibi().defined()), std::pair("score", masks.score().defined())})
    if (term)
      check::fail(multi_head, name, " is given, and add_bias_kv or add_zero_attn is on: such keys have no position");
  if (masks.attends().defined()) {
    const Tensor pairs = to_tensor(masks.attends(), k.size(0), num_heads_, queries, keys);
    masks.mask(combine_masks(masks.mask(), pairs)).attends({});
  }
  const Shape one = k.shape().with(1, 1);
  if (options_.add_bias_kv()) {
    k = cat({k, broadcast_to(bias_k.value(), one)}, 1);
    v = cat({v, broadcast_to(bias_v.value(), one)}, 1);
  }
  if (options_.add_zero_attn()) k = cat({k, zeros(one, k.dtype())}, 1), v = cat({v, zeros(one, v.dtype())}, 1);
  // Causality and windows count from the last key: they become a mask before keys are appended.
  if (masks.causal() || masks.window() > 0) {
    const auto visibility = fit::detail::visibility({}, masks.causal(), masks.window(), queries, keys);
    const Tensor range = fit::detail::pairs_mask(visibility).alias({queries, keys});
    masks.mask(masks.mask().defined() ? where(range, masks.mask(), 0) : range);
    masks.causal(false).window(0);
  }
  const auto extended = [&](const Tensor& x, Scalar value) {
    return x.defined() ? cat({x, full(x.shape().with(x.rank() - 1, more), value, x.dtype())}, -1) : x;
  };
  masks.mask(extended(masks.mask(), 1));
  masks.bias(extended(masks.bias(), 0));
  return masks;
}

Tensor MultiHeadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionMasks& masks) const {
  return within(*this, {query, key, value}, [&] {
    check_inputs(*this, query, key, value);
    const Tensor q = w_q(query);          // (B, Sq, num_heads d_k)
    Tensor k = w_k(key), v = w_v(value);  // (B, Sk, num_kv_heads d_k)
    const AttentionOptions o = attention.options(append_keys(k, v, masks, q.size(1)));
    const AttentionResult r = attention.attend(heads_last(q, num_heads_), heads_last(k), heads_last(v), o);
    return project_heads(w_o, r.output, num_heads_);  // (B, Sq, num_heads d_k) -> (B, Sq, d_model)
  });
}

AttentionResult MultiHeadAttention::forward_with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                                                         const AttentionMasks& masks) const {
  return within(*this, {query, key, value}, [&] {
    check_inputs(*this, query, key, value);
    Tensor k = w_k(key), v = w_v(value);
    const AttentionOptions o = attention.options(append_keys(k, v, masks, query.size(1))).weights(true);
    const AttentionResult r = attention.attend(heads_last(w_q(query), num_heads_), heads_last(k), heads_last(v), o);
    return AttentionResult{project_heads(w_o, r.output, num_heads_),
                           r.weights};  // (B, Sq, d_model), (B, num_heads, Sq, Sk)
  });
}

Tensor MultiHeadAttention::forward_unpadded(const Tensor& x, const Unpadding& padding) const {
  return within(*this, [&] {
    Tensor k = padding.restore(w_k(x)), v = padding.restore(w_v(x));
    const AttentionOptions o = attention.options(append_keys(k, v, padding.mask(), k.size(1)));
    const Heads q = heads_last(padding.restore(w_q(x)), num_heads_);
    return project_heads(w_o, padding.remove(attention.attend(q, heads_last(k), heads_last(v), o).output), num_heads_);
  });
}

Tensor MultiHeadAttention::forward_next(const Tensor& x, KVCache::Layer& kept, std::int64_t length,
                                        const AttentionMasks& masks) const {
  const NoGrad no_grad;
  return within(*this, [&] {
    check_inputs(*this, x, x, x);
    if (options_.add_bias_kv() || options_.add_zero_attn())
      check::fail(multi_head, "add_bias_kv or add_zero_attn is on: a cache has no place for such keys");
    const AttentionCache cache{kept.keys, kept.values, length};
    const AttentionOptions o = attention.options(masks).causal(true).cache(&cache);
    const Heads q = heads_last(w_q(x), num_heads_);
    return project_heads(w_o, attention.attend(q, heads_last(w_k(x)), heads_last(w_v(x)), o).output, num_heads_);
  });
}

KVCache::LayerShape MultiHeadAttention::cache_shape() const {
  return {options_.num_kv_heads().value_or(num_heads_), d_k()};
}

KVCache::Layer MultiHeadAttention::project_memory(const Tensor& memory) const { return {w_k(memory), w_v(memory)}; }

Tensor MultiHeadAttention::forward_projected(const Tensor& query, const KVCache::Layer& memory,
                                             const AttentionMasks& masks) const {
  return within(*this, {query, memory.keys}, [&] {
    const Tensor q = w_q(query);
    Tensor k = memory.keys, v = memory.values;
    if (product_dtype(q.dtype(), q.dtype()) != product_dtype(k.dtype(), k.dtype()))
      check::fail(multi_head, "the projected memory of the cache is ", k.dtype(), ", the query is ", q.dtype(),
                  ": make the cache and use it under the same Autocast");
    const AttentionOptions o = attention.options(append_keys(k, v, masks, q.size(1)));
    const Tensor z = attention.attend(heads_last(q, num_heads_), heads_last(k), heads_last(v), o).output;
    return project_heads(w_o, z, num_heads_);
  });
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

// ---- layers around one MultiHeadAttention --------------------------------------------------------------------------

FIT_FIELDS_OF(SelfAttention, multihead_attn)

FIT_FIELDS_OF(CrossAttention, multihead_attn)

FIT_FIELDS_OF(CausalSelfAttention, multihead_attn)

Tensor detail::AroundMultiHead::attended(const Tensor& query, const Tensor& key_value,
                                         const AttentionMasks& masks) const {
  return within(*this, [&] { return multihead_attn.forward(query, key_value, key_value, masks); });
}

AttentionResult detail::AroundMultiHead::attended_with_weights(const Tensor& query, const Tensor& key_value,
                                                               const AttentionMasks& masks) const {
  return within(*this, [&] { return multihead_attn.forward_with_weights(query, key_value, key_value, masks); });
}

Tensor CausalSelfAttention::forward_next(const Tensor& x, KVCache::Layer& kept, std::int64_t length,
                                         const AttentionMasks& masks) const {
  return within(*this, [&] { return multihead_attn.forward_next(x, kept, length, masks); });
}

}  // namespace fit::nn
