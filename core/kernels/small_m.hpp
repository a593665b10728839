#pragma once
#include "kernels/product.hpp"
#include "kernels/simd/for_each_vector.hpp"

// Products of few rows, which are bound by reading b: for *.simd.cpp files.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// Leaves beta c in c, and says whether the product is to be added to it.
template <class T>
bool prepare(const Product<T>& p, T* c) {
  if (p.beta != T(0) && p.beta != T(1))
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) c[i * p.ldc + j] *= p.beta;
  return p.beta != T(0);
}

// M rows of c and R columns: every vector of b that is read serves all rows of a. U sums side by side for each, so that
// additions don't wait for one another. Few rows of b at a time: memory is read fastest in few streams.
template <int M, int R, int U, class T, class B>
void dots_of(const Product<T>& p, const T* a, const B* b, T* c) {
  using V = Vec<T>;
  constexpr std::int64_t W = V::size;
  V sum[R][M][U];
  FIT_UNROLL for (int r = 0; r < R; ++r) FIT_UNROLL for (int i = 0; i < M; ++i) FIT_UNROLL for (int u = 0; u < U; ++u)
      sum[r][i][u] = V(T(0));
  const auto add = [&](int u, const auto& get) {
    V x[M];
    FIT_UNROLL for (int i = 0; i < M; ++i) x[i] = get(a + i * p.lda);
    FIT_UNROLL for (int r = 0; r < R; ++r) {
      const V w = get(b + r * p.ldb);
      FIT_UNROLL for (int i = 0; i < M; ++i) sum[r][i][u] = sum[r][i][u] + x[i] * w;
    }
  };
  std::int64_t k = 0;
  for (; k + U * W <= p.k; k += U * W)
    FIT_UNROLL for (int u = 0; u < U; ++u) add(u, [k, u](const auto* at) { return load<V>(at + k + u * W); });
  for (; k + W <= p.k; k += W) add(0, [k](const auto* at) { return load<V>(at + k); });
  if (k < p.k) add(0, [&p, k](const auto* at) { return load_part<V>(at + k, p.k - k); });
  FIT_UNROLL for (int r = 0; r < R; ++r) FIT_UNROLL for (int i = 0; i < M; ++i) {
    FIT_UNROLL for (int u = 1; u < U; ++u) sum[r][i][0] = sum[r][i][0] + sum[r][i][u];
    T& to = c[i * p.ldc + r];
    to = p.alpha * sum_lanes(sum[r][i][0]) + (p.beta == T(0) ? T(0) : p.beta * to);
  }
}

template <int M, class T, class B>
void dots_of_rows(const Product<T>& p, const T* a, const B* b, T* c) {
  constexpr int U = M <= 2 ? 2 : 1;
  std::int64_t j = 0;
  for (; j + 2 <= p.n; j += 2) dots_of<M, 2, U>(p, a, b + j * p.ldb, c + j);
  if (j < p.n) dots_of<M, 1, U>(p, a, b + j * p.ldb, c + j);
}

// c (+)= the next R rows of b, times R columns of a: c stays in the cache, and b is read in R streams.
template <int M, int R, class T, class B>
void add_rows(const Product<T>& p, std::int64_t k, const T* a, const B* b, T* c, bool add) {
  using V = Vec<T>;
  V x[R][M];
  FIT_UNROLL for (int r = 0; r < R; ++r) FIT_UNROLL for (int i = 0; i < M; ++i) x[r][i] =
      V(p.alpha * a[i * p.lda + k + r]);
  for_each_vector<V>(p.n, [&](std::int64_t j, auto access, int) {
    V sum[M];
    FIT_UNROLL for (int i = 0; i < M; ++i) sum[i] = add ? access.template load<V>(c + i * p.ldc + j, T(0)) : V(T(0));
    FIT_UNROLL for (int r = 0; r < R; ++r) {
      const V w = access.template load<V>(b + (k + r) * p.ldb + j, B(0));
      FIT_UNROLL for (int i = 0; i < M; ++i) sum[i] = sum[i] + x[r][i] * w;
    }
    FIT_UNROLL for (int i = 0; i < M; ++i) access.store(sum[i], c + i * p.ldc + j);
  });
}

template <int M, class T, class B>
void small_m_of(const Product<T>& p, const T* a, const B* b, T* c) {
  if (p.transpose_b) return dots_of_rows<M>(p, a, b, c);
  const bool add = prepare(p, c);
  std::int64_t k = 0;
  for (; k + 4 <= p.k; k += 4) add_rows<M, 4>(p, k, a, b, c, add || k > 0);
  for (; k < p.k; ++k) add_rows<M, 1>(p, k, a, b, c, add || k > 0);
}

// The product for m up to max_small_m and a not transposed: b, of T or of narrower numbers, is read once, as it lies.
template <class T, class B>
void small_m(const Product<T>& p, const T* a, const B* b, T* c) {
  switch (p.m) {
    case 1:
      return small_m_of<1>(p, a, b, c);
    case 2:
      return small_m_of<2>(p, a, b, c);
    case 3:
      return small_m_of<3>(p, a, b, c);
    case 4:
      return small_m_of<4>(p, a, b, c);
    default:
      return;
  }
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
