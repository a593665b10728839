#pragma once
#include "kernels/simd/arena.hpp"
#include "kernels/simd/math.hpp"
#include "kernels/simd/matrix_rows.hpp"
#include "kernels/simd/transform.hpp"
#include "kernels/simd/transpose.hpp"
#include "linear_attention/kernel/kernel.hpp"
#include "matmul/macro_kernel.hpp"

// The factors of a chunk, and products of its pairs of steps. The letters are those of kernel.hpp. For
// *.simd.cpp files.
//
// Matrices of pairs are [n, C], with zeros above the diagonal in the blocks on it, and undefined beyond these blocks.
// Other matrices are contiguous.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

constexpr std::int64_t C = linear_chunk, linear_block = 16;

// Calls f(first, rows) for the blocks on the diagonal.
template <class F>
void each_block(std::int64_t n, const F& f) {
  for (std::int64_t i = 0; i < n; i += linear_block) f(i, n - i < linear_block ? n - i : linear_block);
}
// out (+)= alpha pairs x, for x [n, cols]
template <class T>
void multiply_pairs(std::int64_t n, std::int64_t cols, T alpha, const T* pairs, const T* x, T* out, bool add) {
  each_block(n, [&](std::int64_t i, std::int64_t rows) {
    macro_kernel({rows, cols, i + rows}, alpha, {pairs + i * C, C}, {x, cols}, {out + i * cols, cols}, adding(add));
  });
}
// out (+)= alpha pairs' x
template <class T>
void multiply_pairs_transposed(std::int64_t n, std::int64_t cols, T alpha, const T* pairs, const T* x, T* out,
                               bool add) {
  each_block(n, [&](std::int64_t i, std::int64_t rows) {
    macro_kernel({rows, cols, n - i}, alpha, transpose_of(pairs + i * C + i, C), {x + i * cols, cols},
                 {out + i * cols, cols}, adding(add));
  });
}
// pairs = alpha x y', for x [n, cols] and y transposed, [cols, C]; not yet 0 above the diagonal
template <class T>
void products_of_pairs(std::int64_t n, std::int64_t cols, T alpha, const T* x, const T* y_transposed, T* pairs) {
  each_block(n, [&](std::int64_t i, std::int64_t rows) {
    macro_kernel({rows, i + rows, cols}, alpha, {x + i * cols, cols}, {y_transposed, C}, {pairs + i * C, C},
                 Write::set);
  });
}

template <class T>
void fill(std::int64_t n, T value, T* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = value;
}

// A factor or a faded key; 0 where it is so small that it changes no sum. Products of it would be subnormal numbers,
// which Intel's processors multiply a hundred times as slowly.
template <class V>
V faded(const V& x) {
  using T = typename V::value_type;
  constexpr T least = sizeof(T) == 4 ? static_cast<T>(0x1p-100) : static_cast<T>(0x1p-900);
  return xsimd::select(xsimd::abs(x) < V(least), V(T(0)), x);
}

// The factors a, P and E of a chunk: [n], or [n, D] if ByFeature.
template <class T, bool ByFeature>
class Factors {
 public:
  using V = Vec<T>;
  const std::int64_t n, D;
  T *const a, *const P, *const E;

  Factors(const LinearAttention<T>& call, const LinearChunk& c, Arena<T>& arena)
      : n(c.n), D(call.D), a(arena.take(n * width())), P(arena.take(n * width())), E(arena.take(n * width())) {
    if (call.decay)
      transform(
          a, n * width(), [](const V& x) { return faded(math::exp(x)); }, call.decay + c.first * width());
    else
      fill(n * width(), T(1), a);
    fill(width(), T(1), at(E, n - 1));
    for (std::int64_t i = 0; i < width(); ++i) P[i] = a[i];
    for (std::int64_t t = 1; t < n; ++t) multiply(at(P, t - 1), at(a, t), at(P, t));
    for (std::int64_t t = n - 1; t > 0; --t) multiply(at(E, t), at(a, t), at(E, t - 1));
  }

  std::int64_t width() const { return ByFeature ? D : 1; }
  T* at(T* factors, std::int64_t t) const { return factors + t * width(); }
  // z = x y, of the factors of one step.
  void multiply(const T* x, const T* y, T* z) const {
    if constexpr (ByFeature)
      transform(
          z, D, [](const V& u, const V& v) { return faded(u * v); }, x, y);
    else
      *z = faded(V(*x * *y)).get(0);
  }
  // out_t = alpha f_t x_t for the `count` rows of x [count, D]
  void scale_rows(std::int64_t count, T alpha, const T* f, const T* x, T* out) const {
    for (std::int64_t t = 0; t < count; ++t, x += D, out += D) {
      const V factor(alpha);
      if constexpr (ByFeature)
        transform(
            out, D, [&](const V& u, const V& v) { return factor * u * v; }, f + t * D, x);
      else
        copy_scaled(x, alpha * f[t], D, out);
    }
  }
  // out_t += f_t x_t
  void add_scaled_rows(std::int64_t count, const T* f, const T* x, T* out) const {
    for (std::int64_t t = 0; t < count; ++t, x += D, out += D) {
      if constexpr (ByFeature) {
        transform(
            out, D, [](const V& o, const V& u, const V& v) { return xsimd::fma(u, v, o); }, out, f + t * D, x);
      } else {
        const V factor(f[t]);
        transform(
            out, D, [&](const V& o, const V& v) { return xsimd::fma(factor, v, o); }, out, x);
      }
    }
  }
  // S1 = P_n S0
  void fade(std::int64_t Dv, const T* S0, T* S1) const {
    const T* const last = P + (n - 1) * width();
    for (std::int64_t d = 0; d < D; ++d) copy_scaled(S0 + d * Dv, last[ByFeature ? d : 0], Dv, S1 + d * Dv);
  }
};

// Products of steps x_t with faded keys of the steps before: pairs_ts = alpha x_t (W_ts k_s) for s <= t, or s < t if
// strict. With a factor for each step, W is a matrix of pairs.
template <class T, bool ByFeature>
class Pairs {
 public:
  Pairs(const Factors<T, false>& f, const T* k, Arena<T>& arena)
      : f_(f), k_(k), k_transposed_(arena.take(f.D * C)), W_(arena.take(f.n * C)) {
    transpose(f.n, f.D, k, f.D, k_transposed_, C);
    for (std::int64_t t = 0; t < f.n; ++t) {
      if (t > 0)
        transform(
            W_ + t * C, t, [factor = Vec<T>(f.a[t])](const Vec<T>& w) { return faded(factor * w); }, W_ + (t - 1) * C);
      W_[t * C + t] = 1;
      fill(C - t - 1, T(0), W_ + t * C + t + 1);
    }
  }
  void products(T alpha, const T* x, bool strict, T* pairs) const {
    products_of_pairs(f_.n, f_.D, alpha, x, k_transposed_, pairs);
    fade(pairs);
    for (std::int64_t t = 0; t < f_.n && strict; ++t) pairs[t * C + t] = 0;
  }
  // Adds the gradients of x and k. dpairs is overwritten.
  void gradients(T alpha, const T* x, T* dpairs, T* dx, T* dk) const {
    fade(dpairs);
    multiply_pairs(f_.n, f_.D, alpha, dpairs, k_, dx, true);
    multiply_pairs_transposed(f_.n, f_.D, alpha, dpairs, x, dk, true);
  }

 private:
  void fade(T* pairs) const {
    each_block(f_.n, [&](std::int64_t i, std::int64_t rows) {
      for (std::int64_t t = i; t < i + rows; ++t)
        transform(
            pairs + t * C, i + rows, [](const Vec<T>& x, const Vec<T>& w) { return x * w; }, pairs + t * C, W_ + t * C);
    });
  }

  const Factors<T, false>& f_;
  const T* const k_;
  T *const k_transposed_, *const W_;
};

// With factors for each feature, W_ts is a product of two factors for the pairs of two neighbours of 32 or 16 steps:
// from s to their border, and from there to t. So these are products of matrices. The pairs of a block of 16 steps are
// computed one by one.
template <class T>
class Pairs<T, true> {
  static constexpr std::int64_t half = C / 2;

 public:
  using V = Vec<T>;
  Pairs(const Factors<T, true>& f, const T* k, Arena<T>& arena)
      : f_(f),
        k_(k),
        to_border_(arena.take(half * f.D)),
        from_border_(arena.take(half * f.D)),
        left_(arena.take(half * f.D)),
        right_(arena.take(half * f.D)),
        transposed_(arena.take(f.D * C)) {}

  void products(T alpha, const T* x, bool strict, T* pairs) const {
    const std::int64_t D = f_.D;
    each_block(f_.n, [&](std::int64_t i, std::int64_t rows) {
      T* const keys = left_;  // W_ts k_s of the block, for the current t
      for (std::int64_t t = 0; t < rows; ++t) {
        T* const row = pairs + (i + t) * C + i;
        for (std::int64_t s = 0; s < t; ++s) f_.multiply(keys + s * D, f_.at(f_.a, i + t), keys + s * D);
        copy_scaled(k_ + (i + t) * D, T(1), D, keys + t * D);
        row_dots(strict ? t : t + 1, D, keys, D, x + (i + t) * D, std::int64_t{0}, row);
        for (std::int64_t s = 0; s < t; ++s) row[s] *= alpha;
        row[t] = strict ? T(0) : row[t] * alpha;
        fill(rows - t - 1, T(0), row + t + 1);
      }
    });
    each_border([&](std::int64_t begin, std::int64_t border, std::int64_t end) {
      take_border(begin, border, end, alpha, x);
      transpose(border - begin, D, left_, D, transposed_, C);
      macro_kernel({end - border, border - begin, D}, T(1), {right_, D}, {transposed_, C},
                   {pairs + border * C + begin, C}, Write::set);
    });
  }
  void gradients(T alpha, const T* x, T* dpairs, T* dx, T* dk) const {
    const std::int64_t D = f_.D;
    each_block(f_.n, [&](std::int64_t i, std::int64_t rows) {
      T* const W = left_;  // W_ts of the block, for the current t
      for (std::int64_t t = i; t < i + rows; ++t) {
        fill(D, T(1), W + (t - i) * D);
        for (std::int64_t s = i; s <= t; ++s) {
          T* const w = W + (s - i) * D;
          if (s < t) f_.multiply(w, f_.at(f_.a, t), w);
          const V g(alpha * dpairs[t * C + s]);
          for_each_vector<V>(D, [&](std::int64_t d, auto access) {
            const auto get = [&](const T* p) { return access.template load<V>(p + d, T(0)); };
            const V gw = g * get(w);
            access.store(xsimd::fma(gw, get(k_ + s * D), get(dx + t * D)), dx + t * D + d);
            access.store(xsimd::fma(gw, get(x + t * D), get(dk + s * D)), dk + s * D + d);
          });
        }
      }
    });
    each_border([&](std::int64_t begin, std::int64_t border, std::int64_t end) {
      take_border(begin, border, end, alpha, x);
      const std::int64_t below = end - border, beside = border - begin;
      const T* const g = dpairs + border * C + begin;
      T* const sum = transposed_;
      macro_kernel({below, D, beside}, alpha, {g, C}, {left_, D}, {sum, D}, Write::set);
      f_.add_scaled_rows(below, from_border_, sum, dx + border * D);
      macro_kernel({beside, D, below}, T(1), transpose_of(g, C), {right_, D}, {sum, D}, Write::set);
      f_.add_scaled_rows(beside, to_border_, sum, dk + begin * D);
    });
  }

 private:
  template <class F>
  void each_border(const F& f) const {
    for (std::int64_t size = half; size >= linear_block; size /= 2)
      for (std::int64_t begin = 0; begin + size < f_.n; begin += 2 * size) {
        const std::int64_t border = begin + size;
        f(begin, border, border + size < f_.n ? border + size : f_.n);
      }
  }
  // The factors, left_ = to_border_ k, and right_ = alpha from_border_ x.
  void take_border(std::int64_t begin, std::int64_t border, std::int64_t end, T alpha, const T* x) const {
    const std::int64_t D = f_.D, beside = border - begin, below = end - border;
    fill(D, T(1), to_border_ + (beside - 1) * D);
    for (std::int64_t s = beside - 1; s > 0; --s)
      f_.multiply(to_border_ + s * D, f_.at(f_.a, begin + s), to_border_ + (s - 1) * D);
    copy_scaled(f_.at(f_.a, border), T(1), D, from_border_);
    for (std::int64_t t = 1; t < below; ++t)
      f_.multiply(from_border_ + (t - 1) * D, f_.at(f_.a, border + t), from_border_ + t * D);
    f_.scale_rows(beside, T(1), to_border_, k_ + begin * D, left_);
    f_.scale_rows(below, alpha, from_border_, x + border * D, right_);
  }

  const Factors<T, true>& f_;
  const T* const k_;
  T *const to_border_, *const from_border_;  // [half, D]
  T *const left_, *const right_;             // [half, D]
  T* const transposed_;                      // [D, C], or a sum [half, D]
};

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
