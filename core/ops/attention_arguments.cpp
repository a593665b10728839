// What attention accepts: shapes, masks, biases and numbers.
#include <algorithm>
#include <cmath>

#include "fit/ops.hpp"
#include "ops/attention.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit::detail {
namespace {

// A mask or bias with four axes: (1|Sq, Sk), (B|1, 1|Sq, Sk) or (B|1, H|1, 1|Sq, Sk) for scores (B, H, Sq, Sk).
Tensor over_scores(const char* op, const char* name, const Tensor& x, const Shape& scores) {
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

}  // namespace

AttentionCall check_attention(const char* op, const Tensor& q, const Tensor& k, const Tensor& v, Heads heads,
                              const AttentionOptions& options) {
  const int sequence = heads == Heads::first ? 2 : 1, head = 3 - sequence;
  const auto fail_shapes = [&](const char* rule) {
    check::fail(op, "q is ", q.shape(), ", k is ", k.shape(), ", v is ", v.shape(),
                heads == Heads::first ? " (B, H, S, D): " : " (B, S, H, D): ", rule);
  };
  check::floating(op, "q", q);
  check::same_dtype(op, "q", q, "k", k);
  check::same_dtype(op, "q", q, "v", v);
  if (q.size(0) != k.size(0) || q.size(0) != v.size(0)) fail_shapes("all must have one batch size");
  if (q.size(3) != k.size(3)) fail_shapes("q and k must have equally many features");
  if (k.size(sequence) != v.size(sequence)) fail_shapes("k and v must have equally many keys");
  const std::int64_t query_heads = q.size(head), kv_heads = k.size(head);
  if (kv_heads != v.size(head)) fail_shapes("k and v must have equally many heads");
  if (query_heads != kv_heads && (kv_heads == 0 || query_heads % kv_heads != 0))
    fail_shapes("the heads of k must divide those of q");
  return check_call(op, Shape{q.size(0), query_heads, q.size(sequence), k.size(sequence)}, q.size(3), q.dtype(),
                    options);
}

AttentionCall check_call(const char* op, const Shape& scores, std::int64_t features, DType dtype,
                         const AttentionOptions& options) {
  if (!(options.dropout >= 0 && options.dropout <= 1))
    check::fail(op, "dropout is ", options.dropout, ": it must be in 0 … 1");
  if (!(options.temperature > 0) || std::isinf(options.temperature))
    check::fail(op, "temperature is ", options.temperature, ": it must be positive and finite");
  if (options.scale && !std::isfinite(*options.scale))
    check::fail(op, "scale is ", *options.scale, ": it must be finite");

  if (options.window < 0) check::fail(op, "window is ", options.window, ": it must not be negative");

  AttentionCall call{};
  if (options.mask.defined()) call.mask = over_scores(op, "mask", to_boolean(op, options.mask), scores);
  if (options.bias.defined()) {
    check::floating(op, "bias", options.bias);
    call.bias = over_scores(op, "bias", options.bias, scores).to(dtype);
  }
  call.causal = options.causal;
  call.window = options.window < scores[3] ? options.window : 0;
  const double root = std::sqrt(static_cast<double>(std::max<std::int64_t>(features, 1)));
  call.scale = options.scale.value_or(1 / (root * options.temperature));
  call.dropout = options.dropout;
  if (options.dropout > 0) {
    Generator& g = options.generator ? *options.generator : default_generator();
    call.seed = g.seed();
    call.number = g.next_call();
  }
  return call;
}

}  // namespace fit::detail
