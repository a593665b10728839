#pragma once
#include <algorithm>
#include <type_traits>

#include "kernels/simd/pack.hpp"
#include "matmul/gemm_kernels.hpp"

// gemv for few rows. It is limited by reading b, and reads b once, without packing. For *.simd.cpp files only.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// The distance at which kernels of narrow weights prefetch. They load few bytes at a time, and the processor itself
// prefetches too late. Kernels of floats gain nothing.
constexpr std::int64_t prefetch_bytes = 1024;

// Calls f(m) with m, 1 … max_rows, as a compile-time constant.
template <int max_rows, class F>
void with_rows(std::int64_t m, const F& f) {
  if constexpr (max_rows > 0)
    m == max_rows ? f(std::integral_constant<int, max_rows>()) : with_rows<max_rows - 1>(m, f);
}

// Multiplies c by beta. Returns whether the matmul is added to c.
template <class T>
bool apply_beta(const GemmParams<T>& p, T* c) {
  if (p.beta != T(0) && p.beta != T(1))
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) c[i * p.ldc + j] *= p.beta;
  return p.beta != T(0);
}

// The number of columns of c (rows of b) computed side by side: one for each of `streams`, or fewer if registers are
// short. Registers hold `sums` packs for each element of c, M vectors of a, and one of b.
template <int M, int sums, int streams>
constexpr int columns_at_once() {
  int columns = streams;
  while (columns > 1 && sums * M * columns * pack_registers + M + 1 > vector_registers) columns /= 2;
  return columns;
}

// Calls dots(R, j, step) for a part of the n columns: for R columns j, j + step, …, which are as far apart as possible.
// If R doesn't divide n, the last columns are single ones.
template <int M, int sums = 1, class Dots>
void each_columns(std::int64_t n, Part part, const Dots& dots, ColumnsDone done) {
  const auto by = [&](auto R) {
    const std::int64_t step = n / R, begin = step * part.begin / Part::units, end = step * part.end / Part::units;
    for (std::int64_t j = begin; j < end; ++j) dots(R, j, step);
    for (int r = 0; r < R && begin < end; ++r) done(r * step + begin, end - begin);
    if (part.end < Part::units || step * R == n) return;
    for (std::int64_t j = step * R; j < n; ++j) dots(std::integral_constant<int, 1>(), j, std::int64_t{0});
    done(step * R, n - step * R);
  };
  memory_streams == 8 ? by(std::integral_constant<int, columns_at_once<M, sums, 8>()>())
                      : by(std::integral_constant<int, columns_at_once<M, sums, 4>()>());
}

// Calls store(i, r, dot) with the sums of the lanes.
template <int M, int R, class T, class Store>
inline void store_dots(const Accumulators<T, 1> (&sum)[R][M], const Store& store) {
  constexpr int N = std::min(R, 4);
  FIT_UNROLL for (int i = 0; i < M; ++i) FIT_UNROLL for (int r = 0; r < R; r += N) {
    T dots[N];
    Pack<T> lanes[N];
    FIT_UNROLL for (int n = 0; n < N; ++n) lanes[n] = sum[r + n][i].packs[0];
    sum_lanes(lanes, dots);
    FIT_UNROLL for (int n = 0; n < N; ++n) store(i, r + n, dots[n]);
  }
}

// M rows of c and R columns, `step` apart: each vector of b is read once for all rows of a.
template <int M, int R, class T, class B>
void dot_block(const GemmParams<T>& p, std::int64_t step, const T* a, const B* b, T* c) {
  using V = Vec<T>;
  Accumulators<T, 1> sum[R][M];
  const auto add = [&](std::int64_t k, auto access, int j) {
    V x[M];
    FIT_UNROLL for (int i = 0; i < M; ++i) x[i] = access.template load<V>(a + i * p.lda + k, T(0));
    FIT_UNROLL for (int r = 0; r < R; ++r) {
      const B* const from = b + r * step * p.ldb + k;
      if constexpr (sizeof(B) < sizeof(T)) __builtin_prefetch(from + prefetch_bytes / sizeof(B));
      const V w = access.template load<V>(from, B(0.f));
      FIT_UNROLL for (int i = 0; i < M; ++i) sum[r][i][j] = fma(x[i], w, sum[r][i][j]);
    }
  };
  accumulate<T, 1>(p.k, add);
  store_dots<M, R, T>(sum, [&](int i, int r, T dot) {
    T& to = c[i * p.ldc + r * step];
    to = p.alpha * dot + (p.beta == T(0) ? T(0) : p.beta * to);
  });
}

inline constexpr auto nothing_more = [](std::int64_t, std::int64_t) {};

template <int M, class T, class B>
void gemv_dots(const GemmParams<T>& p, const T* a, const B* b, T* c, Part part = {}, ColumnsDone done = nothing_more) {
  each_columns<M>(
      p.n, part,
      [&](auto columns, std::int64_t j, std::int64_t step) { dot_block<M, columns>(p, step, a, b + j * p.ldb, c + j); },
      done);
}

// c (+)= R columns of a times R rows of b: c stays in the cache, and b is read in R streams.
template <int M, int R, class T, class B>
void axpy_block(const GemmParams<T>& p, std::int64_t k, const T* a, const B* b, T* c, bool add) {
  using V = Vec<T>;
  V x[R][M];
  FIT_UNROLL for (int r = 0; r < R; ++r) FIT_UNROLL for (int i = 0; i < M; ++i) x[r][i] =
      V(p.alpha * a[i * p.lda + k + r]);
  for_each_vector<V>(p.n, [&](std::int64_t j, auto access) {
    V sum[M];
    FIT_UNROLL for (int i = 0; i < M; ++i) sum[i] = add ? access.template load<V>(c + i * p.ldc + j, T(0)) : V(T(0));
    FIT_UNROLL for (int r = 0; r < R; ++r) {
      const V w = access.template load<V>(b + (k + r) * p.ldb + j, B(0));
      FIT_UNROLL for (int i = 0; i < M; ++i) sum[i] = xsimd::fma(x[r][i], w, sum[i]);
    }
    FIT_UNROLL for (int i = 0; i < M; ++i) access.store(sum[i], c + i * p.ldc + j);
  });
}

template <int M, class T, class B>
void gemv_axpys(const GemmParams<T>& p, const T* a, const B* b, T* c) {
  const bool add = apply_beta(p, c);
  std::int64_t k = 0;
  for (; k + 4 <= p.k; k += 4) axpy_block<M, 4>(p, k, a, b, c, add || k > 0);
  for (; k < p.k; ++k) axpy_block<M, 1>(p, k, a, b, c, add || k > 0);
}

// See GemmKernels. b has type T, or a narrower one.
template <class T, class B>
void gemv_part(const GemmParams<T>& p, const T* a, const B* b, T* c, Part part, ColumnsDone done) {
  with_rows<gemv_max_m>(
      p.m, [&](auto m) { p.transpose_b ? gemv_dots<m>(p, a, b, c, part, done) : gemv_axpys<m>(p, a, b, c); });
}

// See GemmKernels.
template <class T>
void gemv(const GemmParams<T>& p, const T* a, const T* b, T* c) {
  if (p.m <= gemv_max_m) return gemv_part(p, a, b, c, {}, nothing_more);
  constexpr int max_rows = 6;
  if (p.m <= max_rows) return with_rows<max_rows>(p.m, [&](auto m) { gemv_dots<m>(p, a, b, c); });
  // More rows are computed in parts; all parts except the first read b from the cache.
  const std::int64_t parts = (p.m + max_rows - 1) / max_rows, cols = (1 << 17) / p.k + 1;
  for (std::int64_t j = 0; j < p.n; j += cols)
    for (std::int64_t i = 0, part = 0; part < parts; ++part) {
      GemmParams<T> some = p;
      some.n = p.n - j < cols ? p.n - j : cols;
      some.m = (p.m - i) / (parts - part);
      gemv(some, a + i * p.lda, b + j * p.ldb, c + i * p.ldc + j);
      i += some.m;
    }
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
