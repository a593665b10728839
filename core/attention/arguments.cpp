// The checks of attention's arguments: shapes, caches, masks, biases and numbers.
#include <algorithm>
#include <cmath>
#include <utility>

#include "attention/attend.hpp"
#include "fit/matmul/reproducible.hpp"
#include "ops/common/autocast.hpp"
#include "tensor/check.hpp"

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

// 1 / (sqrt(D) temperature), or the scale of the options; finite in the type of the scores.
double scale_of(const char* op, std::int64_t D, DType dtype, const AttentionOptions& o) {
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

void check_cache(const AttentionCall& call, const AttentionCache& cache) {
  const char* const op = call.op;
  const auto& [q, k, v] = call.operands;
  const kernels::Attention<>& a = call.a;
  const Tensor &keys = cache.keys, &values = cache.values;
  check::defined(op, "keys", keys);
  // A narrow cache may serve float32 queries, and vice versa.
  if (q.x.dtype() == float64 || keys.dtype() == float64 || !is_floating(keys.dtype()))
    check::same_dtype(op, "q", q.x, "keys", keys);
  check::same_dtype(op, "keys", keys, "values", values);
  if (keys.rank() != 4 || values.rank() != 4 || values.shape().with(3, keys.size(3)) != keys.shape())
    check::fail(op, "keys is ", keys.shape(), ", values is ", values.shape(),
                ": they must be [B, Hkv, Tmax, D] and [B, Hkv, Tmax, Dv]");
  const std::int64_t length = cache.length, Tmax = keys.size(2);
  check::not_negative(op, "length", length);
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

// The operands of a call, and the Error that shows their shapes.
struct Operands {
  const char* op;
  Heads &q, &k, &v;
  const int rank = q.x.rank();
  const bool first = q.layout == HeadLayout::first;

  template <class... Rule>
  [[noreturn]] void fail(const Rule&... rule) const {
    check::fail(op, "q is ", q.x.shape(), ", k is ", k.x.shape(), ", v is ", v.x.shape(),
                first ? " (B, H, S, D)" : ", num_heads " + std::to_string(q.heads), ": ", rule...);
  }
  std::int64_t batch(const Heads& h) const { return rank > 2 ? h.x.size(0) : 1; }
  std::int64_t length(const Heads& h) const { return h.x.size(first ? -2 : 1); }

  void check_layouts() const {
    if (k.x.rank() != rank || v.x.rank() != rank || rank < (first ? 2 : 3) || rank > (first ? 4 : 3))
      fail(first ? "all must be (B, H, S, D), (B, S, D) or (S, D)" : "all must be (B, S, heads * features)");
    for (Heads* const h : {&q, &k, &v}) {
      if ((h->layout == HeadLayout::first) != first) fail("all must have their heads first, or all last");
      if (first) h->heads = rank > 3 ? h->x.size(1) : 1, h->features = h->x.size(-1);
      if (h->layout == HeadLayout::part) check_part(*h);
    }
  }
  void check_part(const Heads& h) const {
    const std::int64_t left = h.x.size(2) - h.offset;
    if (h.offset < 0 || h.heads < 1 || h.features < 0 || left < 0 || (h.features > 0 && h.heads > left / h.features))
      fail("a part must lie within the last axis");
    for (const Heads* const other : {&q, &k, &v})
      if (other != &h && other->layout == HeadLayout::part && other->x.impl() == h.x.impl() &&
          other->offset < h.offset + h.heads * h.features && h.offset <= other->offset && h.features > 0)
        fail("parts of one tensor must not overlap");
  }
  // Heads of k and v that are not given follow from the features of q.
  void complete() const {
    if (q.layout == HeadLayout::last) {
      if (q.heads < 1 || q.x.size(2) % q.heads != 0 || (q.x.size(2) == 0 && k.heads == 0))
        fail("the last axis of q must be num_heads times the features of a head, at least 1");
      q.features = q.x.size(2) / q.heads;
    }
    if (k.layout == HeadLayout::last) {
      k.features = q.features;
      if (k.heads == 0 && q.features > 0) k.heads = k.x.size(2) / q.features;
      if (k.heads < 1 || k.x.size(2) % k.heads != 0 || k.x.size(2) / k.heads != q.features)
        fail("the last axis of k must be a multiple of ", q.features);
    }
    if (v.layout == HeadLayout::last) {
      if (v.heads == 0) v.heads = k.heads;
      if (v.heads < 1 || v.x.size(2) % v.heads != 0) fail("the last axis of v must be a multiple of ", v.heads);
      v.features = v.x.size(2) / v.heads;
    }
  }
  void check_sizes() const {
    if (batch(q) != batch(k) || batch(q) != batch(v)) fail("all must have one batch size");
    if (q.features != k.features) fail("q and k must have equally many features");
    if (length(k) != length(v)) fail("k and v must have equally many keys");
    const char* const swapped =
        first && rank == 4 && q.heads != k.heads && length(q) == length(k)
            ? "; q and k agree in their third axis: if they are (B, S, H, D), transpose(x, 1, 2) them first"
            : "";
    if (k.heads != v.heads) fail("k and v must have equally many heads", swapped);
    if (q.heads != k.heads && (k.heads == 0 || q.heads % k.heads != 0))
      fail("the heads of k must divide those of q", swapped);
  }
};

// Checks the operands, computes heads and features that are not given, and sets the sizes of the call.
void check_operands(AttentionCall& call) {
  auto& [q, k, v] = call.operands;
  check::defined(call.op, "q", q.x, "k", k.x, "v", v.x);
  check::floating(call.op, "q", q.x);
  check::same_dtype(call.op, "q", q.x, "k", k.x);
  check::same_dtype(call.op, "q", q.x, "v", v.x);
  const Operands all{call.op, q, k, v};
  all.check_layouts();
  all.complete();
  all.check_sizes();
  kernels::Attention<>& a = call.a;
  a.B = all.batch(q), a.H = q.heads, a.kv_heads = k.heads;
  a.Sq = all.length(q), a.Sk = all.length(k), a.D = q.features, a.Dv = v.features;
  if (const auto& cache = call.options.cache()) check_cache(call, *cache), a.Sk += cache->length;
}

// The mask and the function of the scores that are expressions. `dtype` is the type of the scores.
void check_expressions(AttentionCall& call, DType dtype) {
  const AttentionOptions& o = call.options;
  const kernels::Attention<>& a = call.a;
  if (o.attends().defined()) {
    const Expression& e = call.attends.emplace(o.attends().node(), a.Sk - a.Sq);
    check_ranges(call.op, e, a.B, a.H, a);
    for (const Tensor& t : e.tables)
      if (t.requires_grad())
        check::fail(call.op, "in ", e.text(), ", the table ", t.shape(),
                    " wants a gradient: a mask has none; what is to be learned is a score");
  }
  if (!o.score().defined()) return;
  constexpr int max_tables = 16, max_axes = kernels::ScoreStep<float>::max_axes;
  const Expression& e = call.score.emplace(o.score().node(), a.Sk - a.Sq);
  if (e.tables.size() > max_tables)
    check::fail(call.op, "score captures ", e.tables.size(), " tensors: at most ", max_tables, " are possible");
  for (const Tensor& t : e.tables)
    if (t.rank() > max_axes)
      check::fail(call.op, "in ", e.text(), ", the table ", t.shape(), " has ", t.rank(), " axes: at most ", max_axes,
                  " are possible");
  check_ranges(call.op, e, a.B, a.H, a, dtype);
}

// What is added to the scores, and the sink.
void check_terms(AttentionCall& call, DType dtype) {
  const AttentionOptions& o = call.options;
  const char* const op = call.op;
  if (const Tensor& bias = o.bias(); bias.defined()) {
    if (!is_floating(bias.dtype()))
      check::fail(op, "bias is ", bias.dtype(), ": it must be ", check::floating_types, "; a mask holds 0 and 1");
    const auto& scores = call.a;
    if (bias.rank() == 3 && bias.size(0) > 1 && scores.H > 1 && (bias.size(0) == scores.B || bias.size(0) == scores.H))
      check::fail(op, "the bias is ", bias.shape(), ", the scores (B, H, Sq, Sk) are ", call.scores(),
                  ": the first of three axes could be B or H; give four, bias.unsqueeze(0) for one by head, or "
                  "bias.unsqueeze(1) for one by sequence");
    call.bias = four_axes(op, "bias", bias, call.scores()).to(dtype);
  }
  // A number for each head.
  const auto by_head = [&](const char* name, const Tensor& x) {
    if (!x.defined()) return x;
    check::floating(op, name, x);
    check::shape(op, name, x, {call.a.H});
    return x.to(dtype);
  };
  call.alibi = by_head("alibi", o.alibi());
  if (o.alibi().defined() && o.alibi().requires_grad())
    check::fail(op, "alibi wants a gradient: slopes are constants; what is to be learned is a bias");
  call.sink = by_head("sink", o.sink());
}

// Converts the operands as Autocast says. Parts of one tensor stay parts of one.
void autocast(std::array<Heads, 3>& operands) {
  if (autocast_dtype() == float32) return;
  const std::array<Heads, 3> given = operands;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t input = input_of(given, i);
    Tensor& x = operands[i].x;
    if (input < i)
      x = operands[input].x;
    else if (x.defined() && x.dtype() == float32)
      x = x.to(autocast_dtype());
  }
}

}  // namespace

void check_numbers(const char* op, const AttentionOptions& o) {
  if (!(o.dropout() >= 0 && o.dropout() <= 1)) check::fail(op, "dropout is ", o.dropout(), ": it must be in 0 … 1");
  if (!(o.temperature() > 0) || std::isinf(o.temperature()))
    check::fail(op, "temperature is ", o.temperature(), ": it must be positive and finite");
  if (o.scale() && !std::isfinite(*o.scale())) check::fail(op, "scale is ", *o.scale(), ": it must be finite");
  check::not_negative(op, "window", o.window());
}

AttentionCall check_call(const char* op, std::array<Heads, 3> operands, const AttentionOptions& o) {
  AttentionCall call{op, o, std::move(operands)};
  autocast(call.operands);
  check_operands(call);
  if (thread_state.observed)
    for (const auto& [name, i] : {std::pair("q", 0), std::pair("k", 1), std::pair("v", 2)})
      call.operands[i] = observed_heads(name, call.operands[i]);
  call.result = call.dtype();
  const DType dtype = acc_dtype(o.cache() ? o.cache()->keys.dtype() : call.dtype());  // of the scores
  kernels::Attention<>& a = call.a;
  check_numbers(op, o);
  a.scale = scale_of(op, a.D, dtype, o);
  a.causal = o.causal();
  a.window = o.window() < (a.causal ? a.Sk : std::max(a.Sq, a.Sk)) ? o.window() : 0;
  a.reproducible = reproducible();
  check_expressions(call, dtype);
  check_terms(call, dtype);
  return call;
}

}  // namespace detail
}  // namespace fit
