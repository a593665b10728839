// The checks of attention's arguments: shapes, caches, masks, biases and numbers.
#include <algorithm>
#include <cmath>

#include "attention/attend.hpp"
#include "attention/plan.hpp"
#include "fit/ops.hpp"
#include "ops/batch_rows.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {

Heads heads_first(const Tensor& x) { return {x, HeadLayout::first}; }
Heads heads_last(const Tensor& x, std::int64_t heads) { return {x, HeadLayout::last, heads}; }
Heads part(const Tensor& x, std::int64_t offset, std::int64_t heads, std::int64_t features) {
  return {x, HeadLayout::part, heads, features, offset};
}

std::array<Heads, 3> packed_heads(const Tensor& qkv, std::int64_t num_heads, std::int64_t num_kv_heads) {
  constexpr const char* op = "packed_self_attention";
  check::floating(op, "qkv", qkv);
  if (num_kv_heads == 0) num_kv_heads = num_heads;
  // Compared by division: (num_heads + 2 num_kv_heads) may overflow.
  const bool fits = qkv.rank() == 3 && num_heads > 0 && num_kv_heads > 0 && num_heads % num_kv_heads == 0 &&
                    num_heads <= std::max<std::int64_t>(qkv.size(2), 1) &&
                    qkv.size(2) % (num_heads + 2 * num_kv_heads) == 0;
  if (!fits)
    check::fail(op, "qkv is ", qkv.shape(), ", num_heads ", num_heads, ", num_kv_heads ", num_kv_heads,
                ": qkv must be [B, S, (num_heads + 2 num_kv_heads) D], and num_kv_heads must divide num_heads");
  const std::int64_t D = qkv.size(2) / (num_heads + 2 * num_kv_heads);
  return {part(qkv, 0, num_heads, D), part(qkv, num_heads * D, num_kv_heads, D),
          part(qkv, (num_heads + num_kv_heads) * D, num_kv_heads, D)};
}

namespace detail {
namespace {

// A mask or bias with four axes, for scores (B, H, Sq, Sk).
Tensor four_axes(const char* op, const char* name, const Tensor& x, const Shape& scores) {
  const Shape four = mask_axes(x.shape());
  bool fits = four.rank() == 4 && four[3] == scores[3];
  for (int axis = 0; axis < 3 && fits; ++axis) fits = four[axis] == 1 || four[axis] == scores[axis];
  if (fits && name == std::string("bias") && x.rank() == 3 && four[0] > 1 && scores[1] > 1)
    check::fail(op, "the bias is ", x.shape(), ", the scores (B, H, Sq, Sk) are ", scores,
                ": the first of three axes could be B or H; give four, bias.unsqueeze(0) for one by head, or "
                "bias.unsqueeze(1) for one by sequence");
  if (!fits)
    check::fail(op, "the ", name, " is ", x.shape(), ", the scores (B, H, Sq, Sk) are ", scores, ": the ", name,
                " must be (1|Sq, Sk), (B|1, 1|Sq, Sk) or (B|1, H|1, 1|Sq, Sk)");
  return x.rank() == 4 ? x : reshape(x, four);
}

// 1 / (sqrt(D) temperature), or the scale of the options; finite in the type of the scores.
double scale_of(const char* op, std::int64_t D, DType dtype, const AttentionOptions& o) {
  if (!(o.temperature() > 0) || std::isinf(o.temperature()))
    check::fail(op, "temperature is ", o.temperature(), ": it must be positive and finite");
  const double root = std::sqrt(static_cast<double>(std::max<std::int64_t>(D, 1)));
  const double scale = o.scale().value_or(1 / (root * o.temperature()));
  if (std::isfinite(dtype == float32 ? static_cast<float>(scale) : scale)) return scale;
  if (o.scale()) check::fail(op, "scale is ", scale, ": it must be finite in ", dtype);
  check::fail(op, "temperature is ", o.temperature(), ": 1 / (sqrt(D) temperature), ", scale, ", must be finite in ",
              dtype);
}

void check_distinct(const char* op, const char* a_name, const Tensor& a, const char* b_name, const Tensor& b) {
  if (a.numel() > 0 && a.raw() == b.raw())
    check::fail(op, a_name, " and ", b_name, " share their memory: each needs its own");
}

void check_cache(const char* op, const Heads& q, const Heads& k, const Heads& v, const kernels::Attention<>& a,
                 const AttentionCache& cache) {
  const Tensor &keys = cache.keys, &values = cache.values;
  check::defined(op, "keys", keys);
  // A bfloat16 cache may serve float32 queries, and vice versa.
  if (q.x.dtype() == float64 || keys.dtype() == float64 || !is_floating(keys.dtype()))
    check::same_dtype(op, "q", q.x, "keys", keys);
  check::same_dtype(op, "keys", keys, "values", values);
  if (keys.rank() != 4 || values.rank() != 4 || values.shape().with(3, keys.size(3)) != keys.shape())
    check::fail(op, "keys is ", keys.shape(), ", values is ", values.shape(),
                ": they must be [B, Hkv, Tmax, D] and [B, Hkv, Tmax, Dv]");
  const std::int64_t length = cache.length, Tmax = keys.size(2);
  if (length < 0) check::fail(op, "length is ", length, ": it must not be negative");
  if (a.Sk > Tmax || length > Tmax - a.Sk)
    check::fail(op, "length is ", length, ", S is ", a.Sk, ": length + S must be at most Tmax, ", Tmax);
  if (q.layout == HeadLayout::first || a.Sq != a.Sk || keys.shape() != Shape{a.B, a.kv_heads, Tmax, a.D} ||
      values.size(3) != a.Dv)
    check::fail(op, "q is ", q.x.shape(), ", k is ", k.x.shape(), ", v is ", v.x.shape(),
                ", keys [B, Hkv, Tmax, D] is ", keys.shape(), ", values [B, Hkv, Tmax, Dv] is ", values.shape(),
                ", num_heads ", q.heads, ": ",
                q.layout == HeadLayout::part ? "qkv must be [B, S, (num_heads + 2 Hkv) D]"
                                             : "q must be [B, S, num_heads D], k [B, S, Hkv D], v [B, S, Hkv Dv]");
  check_distinct(op, "keys", keys, "values", values);
  for (const Heads* const h : {&q, &k, &v}) {
    check_distinct(op, "the input", h->x, "keys", keys);
    check_distinct(op, "the input", h->x, "values", values);
  }
}

void check_score(const char* op, const Expression& e, const kernels::Attention<>& a, DType dtype) {
  constexpr int max_tables = 16, max_axes = kernels::ScoreStep<float>::max_axes;
  if (e.tables.size() > max_tables)
    check::fail(op, "score captures ", e.tables.size(), " tensors: at most ", max_tables, " are possible");
  for (const Tensor& t : e.tables)
    if (t.rank() > max_axes)
      check::fail(op, "in ", e.text, ", the table ", t.shape(), " has ", t.rank(), " axes: at most ", max_axes,
                  " are possible");
  check_ranges(op, e, a.B, a.H, a, dtype);
}

}  // namespace

Shape mask_axes(const Shape& s) {
  if (s.rank() == 2) return {1, 1, s[0], s[1]};
  if (s.rank() == 3) return {s[0], 1, s[1], s[2]};
  return s.rank() == 4 ? s : Shape{};
}

Tensor to_boolean(const char* op, const Tensor& mask) {
  if (mask.dtype() == boolean) return mask;
  if (mask.requires_grad())
    check::fail(op, "the mask of shape ", mask.shape(),
                " wants a gradient: 1 and 0 are constants; what is to be learned is a bias");
  Tensor out = Tensor::empty(mask.shape(), boolean);
  bool* const to = out.fresh<bool>();
  dispatch(mask.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto from = mask.data<T>();
    for (std::int64_t i = 0; i < from.size(); ++i) {
      if (from[i] != T{0} && from[i] != T{1})
        check::fail(op, "the mask of shape ", mask.shape(), " has the value ", from[i], " at element ", i,
                    ": it must hold 1 (attend) and 0 (ignore); what is to be added to the scores is a bias");
      to[i] = from[i] == T{1};
    }
  });
  return out;
}

Tensor boolean_mask(const char* op, const Tensor& mask, const Shape& scores) {
  return four_axes(op, "mask", to_boolean(op, mask), scores);
}

kernels::Attention<> check_operands(const char* op, Heads& q, Heads& k, Heads& v, const AttentionCache* cache) {
  check::defined(op, "q", q.x, "k", k.x, "v", v.x);
  check::floating(op, "q", q.x);
  check::same_dtype(op, "q", q.x, "k", k.x);
  check::same_dtype(op, "q", q.x, "v", v.x);
  const bool first = q.layout == HeadLayout::first;
  const auto fail_shapes = [&](const auto&... rule) {
    check::fail(op, "q is ", q.x.shape(), ", k is ", k.x.shape(), ", v is ", v.x.shape(),
                first ? " (B, H, S, D)" : ", num_heads " + std::to_string(q.heads), ": ", rule...);
  };
  const int rank = q.x.rank();
  if (k.x.rank() != rank || v.x.rank() != rank || rank < (first ? 2 : 3) || rank > (first ? 4 : 3))
    fail_shapes(first ? "all must be (B, H, S, D), (B, S, D) or (S, D)" : "all must be (B, S, heads * features)");

  Heads* const all[] = {&q, &k, &v};
  for (Heads* const h : all) {
    if ((h->layout == HeadLayout::first) != first) fail_shapes("all must have their heads first, or all last");
    if (first) h->heads = rank > 3 ? h->x.size(1) : 1, h->features = h->x.size(-1);
    if (h->layout != HeadLayout::part) continue;
    const std::int64_t left = h->x.size(2) - h->offset;
    if (h->offset < 0 || h->heads < 1 || h->features < 0 || left < 0 ||
        (h->features > 0 && h->heads > left / h->features))
      fail_shapes("a part must lie within the last axis");
    for (Heads* const other : all)
      if (other != h && other->layout == HeadLayout::part && other->x.impl() == h->x.impl() &&
          other->offset < h->offset + h->heads * h->features && h->offset <= other->offset && h->features > 0)
        fail_shapes("parts of one tensor must not overlap");
  }
  // Heads of k and v that are not given follow from the features of q.
  if (q.layout == HeadLayout::last) {
    if (q.heads < 1 || q.x.size(2) % q.heads != 0 || (q.x.size(2) == 0 && k.heads == 0))
      fail_shapes("the last axis of q must be num_heads times the features of a head, at least 1");
    q.features = q.x.size(2) / q.heads;
  }
  if (k.layout == HeadLayout::last) {
    k.features = q.features;
    if (k.heads == 0 && q.features > 0) k.heads = k.x.size(2) / q.features;
    if (k.heads < 1 || k.x.size(2) % k.heads != 0 || k.x.size(2) / k.heads != q.features)
      fail_shapes("the last axis of k must be a multiple of ", q.features);
  }
  if (v.layout == HeadLayout::last) {
    if (v.heads == 0) v.heads = k.heads;
    if (v.heads < 1 || v.x.size(2) % v.heads != 0) fail_shapes("the last axis of v must be a multiple of ", v.heads);
    v.features = v.x.size(2) / v.heads;
  }

  const auto batch = [&](const Heads& h) { return rank > 2 ? h.x.size(0) : 1; };
  const auto length = [&](const Heads& h) { return h.x.size(first ? -2 : 1); };
  if (batch(q) != batch(k) || batch(q) != batch(v)) fail_shapes("all must have one batch size");
  if (q.features != k.features) fail_shapes("q and k must have equally many features");
  if (length(k) != length(v)) fail_shapes("k and v must have equally many keys");
  if (k.heads != v.heads) fail_shapes("k and v must have equally many heads");
  if (q.heads != k.heads && (k.heads == 0 || q.heads % k.heads != 0))
    fail_shapes("the heads of k must divide those of q");
  kernels::Attention<> a;
  a.B = batch(q), a.H = q.heads, a.kv_heads = k.heads;
  a.Sq = length(q), a.Sk = length(k), a.D = q.features, a.Dv = v.features;
  if (cache) check_cache(op, q, k, v, a, *cache), a.Sk += cache->length;
  return a;
}

Terms check_options(const char* op, kernels::Attention<>& a, DType dtype, const AttentionOptions& o) {
  if (!(o.dropout() >= 0 && o.dropout() <= 1)) check::fail(op, "dropout is ", o.dropout(), ": it must be in 0 … 1");
  if (o.window() < 0) check::fail(op, "window is ", o.window(), ": it must not be negative");
  a.scale = scale_of(op, a.D, dtype, o);
  a.causal = o.causal();
  a.window = o.window() < (a.causal ? a.Sk : std::max(a.Sq, a.Sk)) ? o.window() : 0;

  const Shape scores{a.B, a.H, a.Sq, a.Sk};
  Terms terms;
  if (o.mask().defined()) terms.mask = boolean_mask(op, o.mask(), scores);
  if (o.attends().defined()) {
    terms.attends.emplace(o.attends().node(), a.Sk - a.Sq);
    check_ranges(op, *terms.attends, a.B, a.H, a);
    for (const Tensor& t : terms.attends->tables)
      if (t.requires_grad())
        check::fail(op, "in ", terms.attends->text, ", the table ", t.shape(),
                    " wants a gradient: a mask has none; what is to be learned is a score");
  }
  if (o.score().defined()) {
    terms.score.emplace(o.score().node(), a.Sk - a.Sq);
    check_score(op, *terms.score, a, dtype);
  }
  if (o.bias().defined()) {
    if (!is_floating(o.bias().dtype()))
      check::fail(op, "bias is ", o.bias().dtype(), ": it must be bfloat16, float32 or float64; a mask holds 0 and 1");
    terms.bias = four_axes(op, "bias", o.bias(), scores).to(dtype);
  }
  // A number for each head.
  const auto by_head = [&](const char* name, const Tensor& x) {
    if (!x.defined()) return x;
    check::floating(op, name, x);
    check::shape(op, name, x, {a.H});
    return x.to(dtype);
  };
  terms.alibi = by_head("alibi", o.alibi());
  if (o.alibi().defined() && o.alibi().requires_grad())
    check::fail(op, "alibi wants a gradient: slopes are constants; what is to be learned is a bias");
  terms.sink = by_head("sink", o.sink());
  if (o.dropout() == 0 || o.cache()) return terms;
  Generator& g = o.generator() ? *o.generator() : default_generator();
  a.dropout = o.dropout();
  a.key = {g.seed(), g.next_call()};
  a.first_weight = batch_rows.first_element(scores);
  return terms;
}

}  // namespace detail
}  // namespace fit
