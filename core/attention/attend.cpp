#include "attention/attend.hpp"

#include <limits>

#include "attention/lowered_call.hpp"
#include "fit/graph/named_values.hpp"
#include "fit/ops/ops.hpp"
#include "kernels/copy.hpp"
#include "kernels/rows/rows_softmax.hpp"
#include "ops/common/precision.hpp"
#include "ops/elementwise/dropout.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace detail {
namespace {

// Writes keys or values, heads last, behind the first `length` positions of the cache, in the type of the cache.
void append(const Heads& from, Tensor& cache, std::int64_t length) {
  const Tensor x = from.x.to(cache.dtype());
  const std::int64_t S = x.size(1), F = x.size(2), Tmax = cache.size(2), D = from.features, size = size_of(x.dtype());
  kernels::copy({x.size(0), from.heads, S, D}, size, cache.fresh<char>() + length * D * size,
                {from.heads * Tmax * D, Tmax * D, D, 1}, static_cast<const char*>(x.raw()) + from.offset * size,
                {S * F, D, F, 1});
}

// With a cache, appends k and v to it. The call then reads the cache.
void append_to_cache(AttentionCall& call) {
  if (!call.options.cache()) return;
  auto [keys, values, length] = *call.options.cache();  // handles of the same memory
  auto& [q, k, v] = call.operands;
  q.x = q.x.to(keys.dtype());
  keys.before_write(call.op);
  values.before_write(call.op);
  append(k, keys, length);
  append(v, values, length);
  k = {keys, HeadLayout::first, call.a.kv_heads, call.a.D};
  v = {values, HeadLayout::first, call.a.kv_heads, call.a.Dv};
}

// m - log(inv_l) of each row; -inf in a fully masked one.
template <class W>
Tensor lse_of(const kernels::SoftmaxStats<W>& stats, const Shape& weights) {
  Tensor lse = Tensor::empty(weights.erased(weights.rank() - 1), dtype_of<W>());
  W* const to = lse.fresh<W>();
  const auto log = kernels::softmax_rows<W>().log;
  for (std::int64_t i = 0; i < lse.numel(); ++i)
    to[i] = stats.inv_l[i] == 0 ? -std::numeric_limits<W>::infinity() : stats.m[i] - log(stats.inv_l[i]);
  return lse;
}

// Runs the kernel, and tells the observers, if there are any.
template <class T>
Computed run(const AttentionCall& call, const std::optional<AttentionInfo>& info) {
  using W = AccT<T>;
  const kernels::Attention<>& a = call.a;
  Tensor output = Tensor::empty(call.output_shape(), dtype_of<T>());
  Computed c{{}, Tensor::empty({2, a.B, a.H, a.Sq}, dtype_of<W>())};
  const LoweredCall<T> lowered(call);
  const kernels::SoftmaxStats<W> rows = stats_in(a, c.stats.fresh<W>());
  c.check = !kernels::attention_forward<T>(*lowered, view(call.contexts(output), output.fresh<T>()), rows);
  const auto weights = [a = *lowered, rows](std::int64_t first, std::int64_t count) {
    Tensor w = Tensor::empty({count, a.H, a.Sq, a.Sk}, dtype_of<W>());
    kernels::attention_weights<T>(a, {rows.m, rows.inv_l}, {first, first + count}, w.fresh<W>());
    return w;
  };
  if (call.options.lse()) c.result.lse = lse_of(rows, call.weights_shape());
  if (call.options.weights()) {
    const NoGrad no_grad;
    c.result.weights = weights(0, a.B).alias(call.weights_shape()).to(result_dtype(Precision::float32, dtype_of<T>()));
  }
  if (info) notify_attention(*info, weights);
  c.result.output = std::move(output);
  return c;
}

// The results as the caller asks for them. Offers the output to the observers.
AttentionResult answer(const AttentionCall& call, const AttentionResult& r) {
  const Tensor y = r.output.to(call.result);
  return {thread_state.observed ? observed_heads("z", call.contexts(y)).x : y,
          call.options.weights() ? r.weights : Tensor(), call.options.lse() ? r.lse : Tensor()};
}

}  // namespace

AttentionResult attend(const char* op, const Heads& q, const Heads& k, const Heads& v,
                       const AttentionOptions& options) {
  const Scoped recording(thread_state.recording, thread_state.recording && !options.cache());
  AttentionCall call = check_call(op, {q, k, v}, options);
  call.plan = plan_tiles(op, call.a, call.a.B, call.a.H, options.mask(), call.attends);
  call.plan.apply(call.a);
  if (!options.cache()) call.a.dropout = draw_dropout(options.dropout(), options.generator(), call.scores());
  append_to_cache(call);
  if (call.empty()) return answer(call, decomposed_attention(call));
  const std::optional<AttentionInfo> info = observed_call(call);
  if (info && edits_attention(*info)) return answer(call, decomposed_attention(call, &*info));
  if (fit::value_wanted("scores")) observed("scores", attention_scores(call));
  Computed computed;
  dispatch_floating(call.dtype(), [&](auto zero) { computed = run<decltype(zero)>(call, info); });
  if (!options.cache()) record_call(call, computed);
  return answer(call, computed.result);
}

}  // namespace detail

// ---- the public functions ----------------------------------------------------------------------------------------

namespace {

// The name of a function that returns the output alone. Throws Error if the options ask for more.
const char* output_only(const char* op, const AttentionOptions& o) {
  if (o.weights() || o.lse())
    check::fail(
        op, "the options ask for ", o.weights() ? "weights" : "lse",
        ": this function returns the output alone; attend() takes the same options and returns weights and lse");
  return op;
}

// The options with the cache that a function takes by itself.
AttentionOptions with_cache(const char* op, const AttentionOptions& o, const AttentionCache& cache) {
  if (o.cache()) check::fail(op, "the options have a cache, and so has the call: give one of them");
  return AttentionOptions(o).cache(cache);
}

// Hkv of the keys [B, Hkv, Tmax, D]; 0 for another shape.
std::int64_t heads_of(const AttentionCache& cache) {
  return cache.keys.defined() && cache.keys.rank() == 4 ? cache.keys.size(1) : 0;
}

}  // namespace

AttentionResult attend(const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& options) {
  return detail::attend("attend", q, k, v, options);
}

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  return detail::attend(output_only("scaled_dot_product_attention", options), q, k, v, options).output;
}

Tensor multi_head_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t num_heads,
                            const AttentionOptions& options) {
  const char* const op = output_only("multi_head_attention", options);
  return detail::attend(op, heads_last(q, num_heads), heads_last(k), heads_last(v), options).output;
}

Tensor packed_self_attention(const Tensor& qkv, std::int64_t num_heads, const AttentionOptions& options,
                             std::int64_t num_kv_heads) {
  const char* const op = output_only("packed_self_attention", options);
  const auto [q, k, v] = packed_heads(qkv, num_heads, num_kv_heads);
  return detail::attend(op, q, k, v, options).output;
}

Tensor cached_attention(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& keys, Tensor& values,
                        std::int64_t length, std::int64_t num_heads, const AttentionOptions& options) {
  const char* const op = output_only("cached_attention", options);
  const AttentionCache cache{keys, values, length};
  const std::int64_t kv_heads = heads_of(cache);
  return detail::attend(op, heads_last(q, num_heads), heads_last(k, kv_heads), heads_last(v, kv_heads),
                        with_cache(op, options, cache))
      .output;
}

Tensor cached_self_attention(const Tensor& qkv, Tensor& keys, Tensor& values, std::int64_t length,
                             std::int64_t num_heads, const AttentionOptions& options) {
  const char* const op = output_only("cached_self_attention", options);
  const AttentionCache cache{keys, values, length};
  const auto [q, k, v] = packed_heads(qkv, num_heads, heads_of(cache));
  return detail::attend(op, q, k, v, with_cache(op, options, cache)).output;
}

}  // namespace fit
