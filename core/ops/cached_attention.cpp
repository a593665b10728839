// Attention of what comes next in sequences whose keys and values are kept.
#include <algorithm>

#include "fit/ops.hpp"
#include "ops/attention.hpp"
#include "ops/attention_event.hpp"
#include "ops/flop_counter.hpp"
#include "ops/precision.hpp"
#include "tensor/check.hpp"
#include "tensor/convert.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

// Some features of the rows of x [B, S, features], from `at` on.
struct Part {
  const Tensor& x;
  std::int64_t at;
  template <class T>
  kernels::HeadView<const T> view(std::int64_t D) const {
    return detail::view_part(x.data<T>().data(), x.shape(), at, D);
  }
};

// Writes keys or values behind the first `length` of those in the cache, in its type.
void append(const Part& part, Tensor& cache, std::int64_t length) {
  const std::int64_t S = part.x.size(1), H = cache.size(1), Tmax = cache.size(2), D = cache.size(3);
  const Tensor same = part.x.to(cache.dtype());
  dispatch_floating(cache.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const kernels::HeadView<const T> from = Part{same, part.at}.view<T>(D);
    T* const to = cache.fresh<T>();
    for (std::int64_t b = 0; b < cache.size(0); ++b)
      for (std::int64_t h = 0; h < H; ++h)
        for (std::int64_t s = 0; s < S; ++s)
          std::copy_n(from.at(b, h, s), D, to + ((b * H + h) * Tmax + length + s) * D);
  });
}

// Keys or values from `first` on of the cache, [B, Hkv, Tmax, D].
template <class T>
kernels::HeadView<const T> cached(const Tensor& cache, std::int64_t first) {
  const std::int64_t H = cache.size(1), Tmax = cache.size(2), D = cache.size(3);
  return {cache.data<T>().data() + first * D, H * Tmax * D, Tmax * D, D};
}

// bfloat16 and float32 go together.
void expect_types(const char* op, const char* name, const Tensor& x, const Tensor& keys) {
  check::defined(op, "keys", keys);
  check::floating(op, name, x);
  if (x.dtype() == float64 || keys.dtype() == float64 || !is_floating(keys.dtype()))
    check::same_dtype(op, name, x, "keys", keys);
}

void check_cache(const char* op, const Tensor& keys, const Tensor& values, std::int64_t S, std::int64_t length,
                 std::int64_t num_heads) {
  check::same_dtype(op, "keys", keys, "values", values);
  if (keys.rank() != 4 || values.shape() != keys.shape())
    check::fail(op, "keys is ", keys.shape(), ", values is ", values.shape(), ": both must be [B, Hkv, Tmax, D]");
  if (num_heads < 1 || keys.size(1) < 1 || num_heads % keys.size(1) != 0)
    check::fail(op, "keys [B, Hkv, Tmax, D] is ", keys.shape(), ", num_heads ", num_heads,
                ": num_heads must be positive, and Hkv must divide it");
  if (length < 0) check::fail(op, "length is ", length, ": it must not be negative");
  const std::int64_t Tmax = keys.size(2);
  if (S > Tmax || length > Tmax - S)
    check::fail(op, "length is ", length, ", S is ", S, ": length + S must be at most Tmax, ", Tmax);
}

void check_distinct(const char* op, const char* a_name, const Tensor& a, const char* b_name, const Tensor& b) {
  if (a.numel() > 0 && a.raw() == b.raw())
    check::fail(op, a_name, " and ", b_name, " share their memory: each needs its own");
}

// The same by operations, for observers who change what is computed: [B, S, H D].
Tensor attend_edited(detail::AttentionCall c, const Part& q, const Tensor& keys, const Tensor& values,
                     const detail::ScoreTerms& terms, const detail::AttentionEdits& edits) {
  c.layout = detail::HeadLayout::first;
  c.output = {c.B, c.H, c.Sq, c.Dv};
  c.weights = {c.B, c.H, c.Sq, c.Sk};
  const Tensor queries = reshape(slice(q.x, 2, q.at, q.at + c.H * c.D), {c.B, c.Sq, c.H, c.D});
  const std::vector<Tensor> operands{transpose(queries.to(keys.dtype()), 1, 2), slice(keys, 2, 0, c.Sk),
                                     slice(values, 2, 0, c.Sk)};
  const Tensor output = detail::composed_attention(c, operands, terms, &edits).output;
  return reshape(transpose(output, 1, 2), {c.B, c.Sq, c.H * c.Dv});
}

Tensor attend_next(const char* op, const Part& q, const Part& k, const Part& v, Tensor& keys, Tensor& values,
                   std::int64_t length, std::int64_t num_heads, const AttentionOptions& options) {
  const std::int64_t S = q.x.size(1), D = keys.size(3);
  check_distinct(op, "keys", keys, "values", values);
  for (const Part* part : {&q, &k, &v}) {
    check_distinct(op, "the input", part->x, "keys", keys);
    check_distinct(op, "the input", part->x, "values", values);
  }
  const NoGrad no_grad;
  detail::AttentionCall c;
  c.B = keys.size(0), c.H = num_heads, c.kv_heads = keys.size(1);
  c.Sq = S, c.Sk = length + S, c.D = c.Dv = D;
  detail::check_dropout(op, options.dropout());
  AttentionOptions no_dropout = options;
  no_dropout.dropout(0);
  const DType dtype = keys.dtype(), wide = is_narrow(keys) ? float32 : dtype;  // wide: of the scores
  const detail::ScoreTerms terms = detail::apply_options(op, c, wide, no_dropout);
  const detail::AttentionCall all_keys = c;
  // Keys that the window hides from all queries need not be read; one query then sees all of the others.
  const std::int64_t first = c.window > 0 ? std::max<std::int64_t>(0, length + 1 - c.window) : 0;
  c.Sk -= first;
  if (S == 1) c.causal = false, c.window = 0;
  Tensor out = Tensor::empty({c.B, S, num_heads * D}, dtype);
  keys.before_write(op);
  values.before_write(op);
  if (out.numel() == 0) return out.to(q.x.dtype());
  detail::count_attention(c);

  const Tensor queries = q.x.to(dtype);
  Tensor stats = Tensor::empty({2, c.B, c.H, S}, wide);
  append(k, keys, length);
  append(v, values, length);
  if (detail::thread_state.observed)
    if (const detail::AttentionEdits edits(all_keys, terms.mask); edits.wanted())
      return attend_edited(all_keys, q, keys, values, terms, edits).to(q.x.dtype());
  dispatch_floating(dtype, [&](auto zero) {
    using T = decltype(zero);
    using W = Wide<T>;
    kernels::Attention<T> a = detail::with_terms<T>(c, terms);
    a.q = Part{queries, q.at}.view<T>(D);
    a.k = cached<T>(keys, first);
    a.v = cached<T>(values, first);
    if (a.mask.data) a.mask.data += first;
    if (a.bias.data) a.bias.data += first;
    W* const m = stats.fresh<W>();
    W* const inv_l = m + c.B * c.H * S;
    kernels::attention_forward<T>(a, detail::view_heads(out.fresh<T>(), true, c.H, S, D), {m, inv_l});
    if (detail::thread_state.observed) detail::tell_attention<T>(a, {m, inv_l}, terms.mask, first);
  });
  return out.to(q.x.dtype());
}

}  // namespace

Tensor cached_attention(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v, Tensor& keys,
                        Tensor& values, std::int64_t length, std::int64_t num_heads, const AttentionOptions& options) {
  constexpr const char* op = "cached_attention";
  const NoGrad no_grad;
  const Tensor q = detail::attention_operand(given_q), k = detail::attention_operand(given_k),
               v = detail::attention_operand(given_v);
  check::floating(op, "q", q);
  check::same_dtype(op, "q", q, "k", k);
  check::same_dtype(op, "q", q, "v", v);
  expect_types(op, "q", q, keys);
  if (q.rank() != 3) check::fail(op, "q is ", q.shape(), ": it must be [B, S, num_heads D]");
  check_cache(op, keys, values, q.size(1), length, num_heads);
  const Shape rows{keys.size(0), q.size(1), keys.size(1) * keys.size(3)};
  if (q.shape() != Shape{rows[0], rows[1], rows[2] / keys.size(1) * num_heads} || k.shape() != rows ||
      v.shape() != rows)
    check::fail(op, "q is ", q.shape(), ", k is ", k.shape(), ", v is ", v.shape(), ", keys [B, Hkv, Tmax, D] is ",
                keys.shape(), ", num_heads ", num_heads, ": q must be [B, S, num_heads D], k and v [B, S, Hkv D]");
  return attend_next(op, {q, 0}, {k, 0}, {v, 0}, keys, values, length, num_heads, options);
}

Tensor cached_self_attention(const Tensor& given, Tensor& keys, Tensor& values, std::int64_t length,
                             std::int64_t num_heads, const AttentionOptions& options) {
  constexpr const char* op = "cached_self_attention";
  const NoGrad no_grad;
  const Tensor qkv = detail::attention_operand(given);
  expect_types(op, "qkv", qkv, keys);
  if (qkv.rank() != 3) check::fail(op, "qkv is ", qkv.shape(), ": it must be [B, S, (num_heads + 2 Hkv) D]");
  check_cache(op, keys, values, qkv.size(1), length, num_heads);
  const std::int64_t B = keys.size(0), kv_heads = keys.size(1), D = keys.size(3);
  if (qkv.size(0) != B || num_heads > std::max<std::int64_t>(qkv.size(2), 1) ||
      qkv.size(2) != (num_heads + 2 * kv_heads) * D)
    check::fail(op, "qkv is ", qkv.shape(), ", keys [B, Hkv, Tmax, D] is ", keys.shape(), ", num_heads ", num_heads,
                ": qkv must be [B, S, (num_heads + 2 Hkv) D]");
  const std::int64_t k_at = num_heads * D, v_at = k_at + kv_heads * D;
  return attend_next(op, {qkv, 0}, {qkv, k_at}, {qkv, v_at}, keys, values, length, num_heads, options);
}

}  // namespace fit
