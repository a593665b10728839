// What attention accepts: shapes, masks, biases and numbers.
#include <algorithm>
#include <cmath>

#include "fit/ops.hpp"
#include "ops/attention.hpp"
#include "ops/batch_rows.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit::detail {
namespace {

// A mask or bias with four axes: (1|Sq, Sk), (B|1, 1|Sq, Sk) or (B|1, H|1, 1|Sq, Sk) for scores (B, H, Sq, Sk).
Tensor four_axes(const char* op, const char* name, const Tensor& x, const Shape& scores) {
  const Shape& s = x.shape();
  Shape four;
  if (s.rank() == 2) four = {1, 1, s[0], s[1]};
  if (s.rank() == 3) four = {s[0], 1, s[1], s[2]};
  if (s.rank() == 4) four = s;
  bool fits = four.rank() == 4 && four[3] == scores[3];
  for (int axis = 0; axis < 3 && fits; ++axis) fits = four[axis] == 1 || four[axis] == scores[axis];
  if (!fits)
    check::fail(op, "the ", name, " is ", s, ", the scores (B, H, Sq, Sk) are ", scores, ": the ", name,
                " must be (1|Sq, Sk), (B|1, 1|Sq, Sk) or (B|1, H|1, 1|Sq, Sk)");
  return s.rank() == 4 ? x : reshape(x, four);
}

// 1 and 0 as true and false.
Tensor to_boolean(const char* op, const Tensor& mask) {
  if (mask.dtype() == boolean) return mask;
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

// The sizes that every layout gives, once they are seen to agree. `fail_shapes` throws.
template <class Fail>
AttentionCall checked(AttentionCall c, std::int64_t v_heads, const Fail& fail_shapes) {
  if (c.kv_heads != v_heads) fail_shapes("k and v must have equally many heads");
  if (c.H != c.kv_heads && (c.kv_heads == 0 || c.H % c.kv_heads != 0))
    fail_shapes("the heads of k must divide those of q");
  return c;
}

void check_types(const char* op, const Tensor& q, const Tensor& k, const Tensor& v) {
  check::defined(op, "q", q, "k", k, "v", v);
  check::floating(op, "q", q);
  check::same_dtype(op, "q", q, "k", k);
  check::same_dtype(op, "q", q, "v", v);
}

// 1 / (sqrt(D) temperature), unless it is given; it has to be finite in the type of the scores.
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

Tensor checked_bias(const char* op, const AttentionOptions& o, const Shape& scores, DType dtype) {
  if (!o.bias().defined()) return {};
  if (!is_floating(o.bias().dtype()))
    check::fail(op, "bias is ", o.bias().dtype(),
                ": it must be bfloat16, float32 or float64; 0 and 1 that hide keys are a mask");
  return four_axes(op, "bias", o.bias(), scores).to(dtype);
}

Tensor checked_alibi(const char* op, const AttentionOptions& o, std::int64_t H, DType dtype) {
  if (!o.alibi().defined()) return {};
  check::floating(op, "alibi", o.alibi());
  check::shape(op, "alibi", o.alibi(), {H});
  if (o.alibi().requires_grad())
    check::fail(op, "alibi wants a gradient: slopes are constants; what is to be learned is a bias");
  return o.alibi().to(dtype);
}

}  // namespace

AttentionCall separate_heads(const char* op, const Tensor& q, const Tensor& k, const Tensor& v) {
  check_types(op, q, k, v);
  const int rank = q.rank();
  if (rank < 2 || rank > 4 || k.rank() != rank || v.rank() != rank)
    check::fail(op, "q is ", q.shape(), ", k is ", k.shape(), ", v is ", v.shape(),
                ": all must be (B, H, S, D), (B, S, D) or (S, D)");
  const auto fail_shapes = [&](const char* rule) {
    check::fail(op, "q is ", q.shape(), ", k is ", k.shape(), ", v is ", v.shape(), " (B, H, S, D): ", rule);
  };
  const auto batch = [rank](const Tensor& x) { return rank > 2 ? x.size(0) : 1; };
  const auto heads = [rank](const Tensor& x) { return rank > 3 ? x.size(1) : 1; };
  if (batch(q) != batch(k) || batch(q) != batch(v)) fail_shapes("all must have one batch size");
  if (q.size(-1) != k.size(-1)) fail_shapes("q and k must have equally many features");
  if (k.size(-2) != v.size(-2)) fail_shapes("k and v must have equally many keys");
  AttentionCall c;
  c.B = batch(q), c.H = heads(q), c.kv_heads = heads(k);
  c.Sq = q.size(-2), c.Sk = k.size(-2), c.D = q.size(-1), c.Dv = v.size(-1);
  c.output = q.shape().with(rank - 1, c.Dv);
  c.weights = q.shape().with(rank - 1, c.Sk);
  return checked(c, heads(v), fail_shapes);
}

AttentionCall joined_heads(const char* op, const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t num_heads) {
  check_types(op, q, k, v);
  const auto fail_shapes = [&](const auto&... rule) {
    check::fail(op, "q is ", q.shape(), ", k is ", k.shape(), ", v is ", v.shape(), ", num_heads ", num_heads, ": ",
                rule...);
  };
  if (q.rank() != 3 || k.rank() != 3 || v.rank() != 3) fail_shapes("all must be (B, S, heads * features)");
  if (num_heads < 1 || q.size(2) % num_heads != 0 || q.size(2) == 0)
    fail_shapes("the last axis of q must be num_heads times the features of a head, at least 1");
  const std::int64_t D = q.size(2) / num_heads, kv_heads = k.size(2) / D;
  if (kv_heads == 0 || k.size(2) % D != 0) fail_shapes("the last axis of k must be a multiple of ", D);
  if (v.size(2) % kv_heads != 0) fail_shapes("the last axis of v must be a multiple of ", kv_heads);
  if (q.size(0) != k.size(0) || q.size(0) != v.size(0)) fail_shapes("all must have one batch size");
  if (k.size(1) != v.size(1)) fail_shapes("k and v must have equally many keys");
  AttentionCall c;
  c.layout = HeadLayout::last;
  c.B = q.size(0), c.H = num_heads, c.kv_heads = kv_heads;
  c.Sq = q.size(1), c.Sk = k.size(1), c.D = D, c.Dv = v.size(2) / kv_heads;
  c.output = {c.B, c.Sq, c.H * c.Dv};
  c.weights = {c.B, c.H, c.Sq, c.Sk};
  return checked(c, kv_heads, fail_shapes);
}

AttentionCall packed_heads(const char* op, const Tensor& qkv, std::int64_t num_heads, std::int64_t num_kv_heads) {
  check::floating(op, "qkv", qkv);
  if (num_kv_heads == 0) num_kv_heads = num_heads;
  // Compared by division: (num_heads + 2 num_kv_heads) may overflow.
  const bool fits = qkv.rank() == 3 && num_heads > 0 && num_kv_heads > 0 && num_heads % num_kv_heads == 0 &&
                    num_heads <= std::max<std::int64_t>(qkv.size(2), 1) &&
                    qkv.size(2) % (num_heads + 2 * num_kv_heads) == 0;
  if (!fits)
    check::fail(op, "qkv is ", qkv.shape(), ", num_heads ", num_heads, ", num_kv_heads ", num_kv_heads,
                ": qkv must be [B, S, (num_heads + 2 num_kv_heads) D], and num_kv_heads must divide num_heads");
  AttentionCall c;
  c.layout = HeadLayout::packed;
  c.B = qkv.size(0), c.H = num_heads, c.kv_heads = num_kv_heads;
  c.Sq = c.Sk = qkv.size(1), c.D = c.Dv = qkv.size(2) / (num_heads + 2 * num_kv_heads);
  c.output = {c.B, c.Sq, c.H * c.D};
  c.weights = {c.B, c.H, c.Sq, c.Sk};
  return c;
}

void check_dropout(const char* op, double p) {
  if (!(p >= 0 && p <= 1)) check::fail(op, "dropout is ", p, ": it must be in 0 … 1");
}

ScoreTerms apply_options(const char* op, AttentionCall& c, DType dtype, const AttentionOptions& options) {
  check_dropout(op, options.dropout());
  if (options.window() < 0) check::fail(op, "window is ", options.window(), ": it must not be negative");
  c.scale = scale_of(op, c.D, dtype, options);
  c.causal = options.causal();
  c.window = options.window() < c.Sk ? options.window() : 0;

  const Shape scores{c.B, c.H, c.Sq, c.Sk};
  ScoreTerms terms;
  if (options.mask().defined()) terms.mask = four_axes(op, "mask", to_boolean(op, options.mask()), scores);
  terms.bias = checked_bias(op, options, scores, dtype);
  terms.alibi = checked_alibi(op, options, c.H, dtype);

  c.dropout = options.dropout();
  if (c.dropout > 0) {
    Generator& g = options.generator() ? *options.generator() : default_generator();
    c.key = {g.seed(), g.next_call()};
    c.first_weight = batch_rows.first_element(scores);
  }
  return terms;
}

}  // namespace fit::detail
