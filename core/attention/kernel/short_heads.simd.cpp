#include "attention/kernel/short_heads.hpp"

#include <limits>

#include "kernels/simd/arena.hpp"
#include "kernels/simd/exp2.hpp"
#include "kernels/simd/matrix_rows.hpp"
#include "kernels/simd/transpose.hpp"
#include "matmul/macro_kernel.hpp"

namespace fit::kernels {
namespace {

// The queries that attend to each key of a head, as bits.
class Columns {
 public:
  explicit Columns(const Visibility& a) : a_(a), restricts_(a.restricts()) {}

  void take_head(std::int64_t b, std::int64_t h) {
    if (!restricts_) return;
    const std::int64_t tile = a_.tiles.data ? a_.tile_of(b, h, 0, 0) : Visibility::full_tile;
    if (tile == tile_) return;
    tile_ = tile;
    std::uint64_t rows[query_block];
    for (std::int64_t i = 0; i < a_.Sq; ++i) rows[i] = a_.row(b, h, i, 0);
    for (std::int64_t j = 0; j < a_.Sk; ++j) {
      std::uint64_t column = ~Visibility::bits_below(a_.Sq);  // lanes without a query have finite numbers
      for (std::int64_t i = 0; i < a_.Sq; ++i) column |= (rows[i] >> j & 1) << i;
      attends_[j] = column;
    }
  }
  // Scores s of key j and the queries from i on: -inf where they do not attend.
  Vec<float> masked(std::int64_t j, std::int64_t i, const Vec<float>& s) const {
    using V = Vec<float>;
    if (!restricts_) return s;
    return xsimd::select(mask_of_bits<V>(attends_[j] >> i), s, V(-std::numeric_limits<float>::infinity()));
  }

 private:
  const Visibility& a_;
  const bool restricts_;
  std::int64_t tile_ = Visibility::full_tile - 1;  // that of no head
  std::uint64_t attends_[key_block];
};

// Heads of a call, one after another. Matrices with columns have n, one for each query and up to full vectors.
class Heads {
  using V = Vec<float>;
  static constexpr std::int64_t size = V::size;

 public:
  Heads(const Attention<float>& a, float* workspace) : a_(a), visible_(a) {
    Arena<float> arena(workspace);
    s_ = arena.take(a.Sk * n_);
    ds_ = arena.take(a.Sk * n_);
    x_ = arena.take((a.D > a.Dv ? a.D : a.Dv) * n_);
  }

  bool forward(std::int64_t b, std::int64_t h, const HeadView<float>& out, const SoftmaxStats<float>& stats) {
    take_scores(b, h);
    alignas(64) float inv_l[query_block];
    for (std::int64_t i = 0; i < n_; i += size) {
      V m(-std::numeric_limits<float>::infinity()), l(0.0F);
      each_key(i, [&](std::int64_t j, float* s) {
        const V x = visible_.masked(j, i, load<V>(s));
        store(x, s);
        m = xsimd::max(m, x);
      });
      each_key(i, [&](std::int64_t, float* s) {
        const V p = exp_of(load<V>(s) - m);
        store(p, s);
        l = l + p;
      });
      const V inverse = V(1.0F) / l;
      store(inverse, inv_l + i);
      const std::int64_t row = (b * a_.H + h) * a_.Sq + i;
      store_queries(m, i, stats.m + row), store_queries(inverse, i, stats.inv_l + row);
    }
    const float* const v = a_.v.at(b, h / a_.group(), 0);
    macro_kernel({a_.Dv, n_, a_.Sk}, 1.0F, transpose_of(v, a_.v.row), {s_, n_}, {x_, n_}, Write::set);
    for (std::int64_t c = 0; c < a_.Dv; ++c)
      for (std::int64_t i = 0; i < n_; i += size) store(load<V>(x_ + c * n_ + i) * load<V>(inv_l + i), x_ + c * n_ + i);
    return write_rows(a_.Dv, out.at(b, h, 0), out.row);
  }

  // The gradients of a head of keys and values, and of the heads of queries that share it.
  bool backward(const AttentionBackward<float>& call, std::int64_t b, std::int64_t kv) {
    const AttentionGradients<float>& d = call.d;
    const float scale = static_cast<float>(a_.scale);
    float *const dk = d.dk.at(b, kv, 0), *const dv = d.dv.at(b, kv, 0);
    bool finite = true;
    for (std::int64_t h = kv * a_.group(); h < (kv + 1) * a_.group(); ++h) {
      const bool add = h > kv * a_.group();
      const float *const q = a_.q.at(b, h, 0), *const k = a_.k.at(b, kv, 0), *const dout = call.dout.at(b, h, 0);
      take_score_gradients(call, b, h);
      macro_kernel({a_.Sk, a_.Dv, a_.Sq}, 1.0F, {s_, n_}, {dout, call.dout.row}, {dv, d.dv.row}, adding(add));
      macro_kernel({a_.Sk, a_.D, a_.Sq}, scale, {ds_, n_}, {q, a_.q.row}, {dk, d.dk.row}, adding(add));
      macro_kernel({a_.D, n_, a_.Sk}, scale, transpose_of(k, a_.k.row), {ds_, n_}, {x_, n_}, Write::set);
      finite &= write_rows(a_.D, d.dq.at(b, h, 0), d.dq.row);
    }
    // Copied to themselves: whether they are finite.
    finite &= copy_finite(a_.Sk, a_.D, 1.0F, dk, d.dk.row, dk, d.dk.row);
    return copy_finite(a_.Sk, a_.Dv, 1.0F, dv, d.dv.row, dv, d.dv.row) && finite;
  }

 private:
  // Calls f(j, the numbers of key j and the queries from i on, in the tile of scores).
  template <class F>
  void each_key(std::int64_t i, const F& f) const {
    for (std::int64_t j = 0; j < a_.Sk; ++j) f(j, s_ + j * n_ + i);
  }
  std::int64_t queries_from(std::int64_t i) const { return a_.Sq - i < size ? a_.Sq - i : size; }
  V load_queries(const float* x, std::int64_t i) const {
    return queries_from(i) == size ? load<V>(x) : load_part<V>(x, queries_from(i));
  }
  void store_queries(const V& v, std::int64_t i, float* to) const {
    queries_from(i) == size ? store(v, to) : store_part(v, to, queries_from(i));
  }

  // x_ [features, n] = x' [features, Sq], and zeros.
  void take_columns(std::int64_t features, const float* x, std::int64_t row) {
    transpose(a_.Sq, features, x, row, x_, n_);
    for (std::int64_t c = 0; c < features; ++c)
      for (std::int64_t i = a_.Sq; i < n_; ++i) x_[c * n_ + i] = 0;
  }
  // to [Sq, features] = x_'. Returns whether it is finite.
  FIT_ONE_COPY bool write_rows(std::int64_t features, float* to, std::int64_t row) const {
    V zero(0.0F);
    for (std::int64_t i = 0; i < features * n_; i += size) zero = xsimd::fma(load<V>(x_ + i), V(0.0F), zero);
    transpose(features, a_.Sq, x_, n_, to, row);  // NOLINT(readability-suspicious-call-argument)
    return no_nan(zero);
  }
  // s_ [Sk, n] = scale k q'
  FIT_ONE_COPY void take_scores(std::int64_t b, std::int64_t h) {
    visible_.take_head(b, h);
    take_columns(a_.D, a_.q.at(b, h, 0), a_.q.row);
    macro_kernel({a_.Sk, n_, a_.D}, static_cast<float>(a_.scale), {a_.k.at(b, h / a_.group(), 0), a_.k.row}, {x_, n_},
                 {s_, n_}, Write::set);
  }
  // s_ [Sk, n] = P', ds_ [Sk, n] = dS'. delta, sum(dout out), is added up as sum(P dP).
  void take_score_gradients(const AttentionBackward<float>& call, std::int64_t b, std::int64_t h) {
    take_scores(b, h);
    take_columns(a_.Dv, call.dout.at(b, h, 0), call.dout.row);
    const float* const v = a_.v.at(b, h / a_.group(), 0);
    macro_kernel({a_.Sk, n_, a_.Dv}, 1.0F, {v, a_.v.row}, {x_, n_}, {ds_, n_}, Write::set);
    for (std::int64_t i = 0; i < n_; i += size) {
      const std::int64_t row = (b * a_.H + h) * a_.Sq + i;
      const V m = load_queries(call.stats.m + row, i), inv_l = load_queries(call.stats.inv_l + row, i);
      V delta(0.0F);
      each_key(i, [&](std::int64_t j, float* s) {
        const V p = exp_of(visible_.masked(j, i, load<V>(s)) - m) * inv_l;
        store(p, s);
        delta = xsimd::fma(p, load<V>(ds_ + j * n_ + i), delta);
      });
      each_key(i, [&](std::int64_t j, const float* s) {
        float* const ds = ds_ + j * n_ + i;
        store(load<V>(s) * (load<V>(ds) - delta), ds);
      });
    }
  }

  const Attention<float>& a_;
  const std::int64_t n_ = filled_to(size, a_.Sq);
  Columns visible_;
  float *s_, *ds_, *x_;
};

bool forward(const Attention<float>& a, std::int64_t begin, std::int64_t end, const HeadView<float>& out,
             const SoftmaxStats<float>& stats, float* workspace) {
  Heads heads(a, workspace);
  bool finite = true;
  for (std::int64_t i = begin; i < end; ++i) finite &= heads.forward(i / a.H, i % a.H, out, stats);
  return finite;
}
bool backward(const AttentionBackward<float>& call, std::int64_t begin, std::int64_t end, float* workspace) {
  Heads heads(call.a, workspace);
  bool finite = true;
  for (std::int64_t i = begin; i < end; ++i) finite &= heads.backward(call, i / call.a.kv_heads, i % call.a.kv_heads);
  return finite;
}

}  // namespace

template <class IsaTag, class T>
const ShortHeads& short_heads_table() {
  static constexpr ShortHeads table{forward, backward};
  return table;
}

template const ShortHeads& short_heads_table<FIT_ISA, float>();

}  // namespace fit::kernels
