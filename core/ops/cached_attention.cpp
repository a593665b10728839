// Attention of what comes next in sequences whose keys and values are kept.
#include <algorithm>

#include "fit/ops.hpp"
#include "ops/attention.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

constexpr const char* op = "cached_self_attention";

// Writes keys or values, heads side by side from feature `at` of qkv on, behind the first `length` of the kept ones.
void keep_heads(const Tensor& qkv, std::int64_t at, Tensor& kept, std::int64_t length) {
  const std::int64_t S = qkv.size(1), W = qkv.size(2), H = kept.size(1), Tmax = kept.size(2), D = kept.size(3);
  kept.before_write(op);
  dispatch_floating(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const from = qkv.data<T>().data() + at;
    T* const to = kept.fresh<T>();
    for (std::int64_t b = 0; b < qkv.size(0); ++b)
      for (std::int64_t h = 0; h < H; ++h)
        for (std::int64_t s = 0; s < S; ++s)
          std::copy_n(from + (b * S + s) * W + h * D, D, to + ((b * H + h) * Tmax + length + s) * D);
  });
}

}  // namespace

Tensor cached_self_attention(const Tensor& qkv, Tensor& keys, Tensor& values, std::int64_t length,
                             std::int64_t num_heads, const AttentionOptions& options) {
  check::floating(op, "qkv", qkv);
  check::same_dtype(op, "qkv", qkv, "keys", keys);
  check::same_dtype(op, "qkv", qkv, "values", values);
  if (keys.rank() != 4 || values.shape() != keys.shape())
    check::fail(op, "keys is ", keys.shape(), ", values is ", values.shape(), ": both must be [B, Hkv, Tmax, D]");
  const std::int64_t B = keys.size(0), kv_heads = keys.size(1), Tmax = keys.size(2), D = keys.size(3);
  if (qkv.rank() != 3 || qkv.size(0) != B || num_heads < 1 || kv_heads < 1 || num_heads % kv_heads != 0 ||
      qkv.size(2) != (num_heads + 2 * kv_heads) * D)
    check::fail(op, "qkv is ", qkv.shape(), ", keys [B, Hkv, Tmax, D] is ", keys.shape(), ", num_heads ", num_heads,
                ": qkv must be [B, S, (num_heads + 2 Hkv) D], and Hkv must divide num_heads");
  const std::int64_t S = qkv.size(1), total = length + S, W = qkv.size(2);
  if (length < 0 || total > Tmax)
    check::fail(op, "length is ", length, ", qkv is ", qkv.shape(), ": length + S = ", total,
                " must be at most Tmax = ", Tmax);

  const NoGrad plain;
  keep_heads(qkv, num_heads * D, keys, length);
  keep_heads(qkv, (num_heads + kv_heads) * D, values, length);
  // Keys that the window hides from all queries need not be read; one query then sees all of the others.
  const std::int64_t first = options.window > 0 ? std::max<std::int64_t>(0, length + 1 - options.window) : 0;
  AttentionOptions all = options;
  all.dropout = 0;
  AttentionOptions rest = all;
  if (S == 1) {
    rest.window = 0;
    rest.causal = false;
  }
  const detail::AttentionCall call = detail::check_call(op, Shape{B, num_heads, S, total}, D, qkv.dtype(), rest);

  Tensor out = Tensor::empty({B, S, num_heads * D}, qkv.dtype());
  Tensor lse = Tensor::empty({B, num_heads, S}, qkv.dtype());
  bool served = false;
  dispatch_floating(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto kept = [&](const Tensor& x) {
      return kernels::Heads<const T>{x.data<T>().data() + first * D, kv_heads * Tmax * D, Tmax * D, D};
    };
    kernels::Attention<T> a;
    a.B = B, a.H = num_heads, a.kv_heads = kv_heads, a.Sq = S, a.Sk = total - first, a.D = a.Dv = D;
    a.scale = static_cast<T>(call.scale);
    a.causal = call.causal;
    a.window = call.window;
    a.q = {qkv.data<T>().data(), S * W, D, W};
    a.k = kept(keys);
    a.v = kept(values);
    a.mask = detail::over_scores<bool>(call.mask);
    a.bias = detail::over_scores<T>(call.bias);
    if (a.mask.data) a.mask.data += first;
    if (a.bias.data) a.bias.data += first;
    served = kernels::attention_forward<T>(a, {out.fresh<T>(), S * num_heads * D, D, num_heads * D}, lse.fresh<T>());
  });
  if (served) return out;
  const Tensor q = permute(reshape(slice(qkv, 2, 0, num_heads * D), {B, S, num_heads, D}), {0, 2, 1, 3});
  const auto filled = [&](const Tensor& x) { return slice(x, 2, 0, total); };
  const Tensor y = scaled_dot_product_attention(q, filled(keys), filled(values), all);
  return reshape(permute(y, {0, 2, 1, 3}), {B, S, num_heads * D});
}

}  // namespace fit
