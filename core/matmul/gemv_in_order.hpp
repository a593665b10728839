#pragma once
#include "kernels/simd/transpose.hpp"
#include "matmul/gemv.hpp"

// gemv for Reproducible: c [m, n] = a b' for few rows, added in the order of gemm_packed. An element is one chain of
// additions along each block of kc elements, one block after another. b is read once, without packing: blocks of its
// rows are transposed in registers. For *.simd.cpp files only.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// columns[l] = element l of each of `rows` rows of b, for l < count. Other lanes and columns are 0.
template <class V, class B>
inline void load_columns(const B* b, std::int64_t ld, std::int64_t rows, std::int64_t count, V (&columns)[V::size]) {
  constexpr int W = V::size;
  using Word = Words<typename V::value_type, W>;
  typename Word::Vector words[W];
  FIT_UNROLL for (int r = 0; r < W; ++r) {
    const V row = r >= rows ? V(0) : count == W ? load<V>(b + r * ld) : load_part<V>(b + r * ld, count);
    __builtin_memcpy(&words[r], &row, sizeof row);
  }
  transpose_words<W, typename V::value_type>(words);
  FIT_UNROLL for (int l = 0; l < W; ++l) __builtin_memcpy(&columns[l], &words[l], sizeof words[l]);
}

// M rows of c and up to R vectors of its columns: `cols` columns, full vectors if Full.
template <int M, int R, bool Full, class T, class B>
void chain_block(const GemmParams<T>& p, const T* a, const B* b, T* c, std::int64_t cols) {
  using V = Vec<T>;
  constexpr std::int64_t W = V::size;
  V total[R][M];
  for (std::int64_t k0 = 0; k0 < p.k; k0 += kc) {
    V sum[R][M];
    FIT_UNROLL for (int r = 0; r < R; ++r) FIT_UNROLL for (int i = 0; i < M; ++i) sum[r][i] = V(T(0));
    const std::int64_t end = p.k - k0 < kc ? p.k : k0 + kc;
    const auto add = [&](std::int64_t l, auto count) {
      const auto add_vector = [&](auto r) {
        V w[V::size];
        load_columns(b + r * W * p.ldb + l, p.ldb, Full ? W : cols - r * W, count, w);
        const auto add_column = [&](std::int64_t t) {
          FIT_UNROLL for (int i = 0; i < M; ++i) sum[r][i] = xsimd::fma(V(a[i * p.lda + l + t]), w[t], sum[r][i]);
        };
        FIT_UNROLL for (int t = 0; t < W; ++t) if (t < count) add_column(t);
      };
      static_assert(R <= 2);
      add_vector(std::integral_constant<int, 0>());
      if constexpr (R == 2) add_vector(std::integral_constant<int, 1>());
    };
    std::int64_t l = k0;
    for (; l + W <= end; l += W) add(l, std::integral_constant<std::int64_t, W>());
    if (l < end) add(l, end - l);
    FIT_UNROLL for (int r = 0; r < R; ++r) FIT_UNROLL for (int i = 0; i < M; ++i) total[r][i] =
        k0 == 0 ? sum[r][i] : sum[r][i] + total[r][i];
  }
  FIT_UNROLL for (int r = 0; r < R; ++r) FIT_UNROLL for (int i = 0; i < M; ++i) Full
      ? store(total[r][i], c + i * p.ldc + r * W)
      : store_part(total[r][i], c + i * p.ldc + r * W, cols - r * W);
}

// See GemmKernels. b has type T, or a narrower one.
template <class T, class B>
void gemv_in_order(const GemmParams<T>& p, const T* a, const B* b, T* c) {
  constexpr std::int64_t W = Vec<T>::size;
  // More rows are computed in parts; all parts except the first read b from the cache.
  for (std::int64_t j = 0; j < p.n; j += panel_width)
    for (std::int64_t row = 0; row < p.m; row += gemv_max_m)
      with_rows<gemv_max_m>(p.m - row < gemv_max_m ? p.m - row : gemv_max_m, [&](auto M) {
        constexpr int R = M <= 2 ? 2 : 1;  // independent chains hide the latency
        const std::int64_t end = p.n - j < panel_width ? p.n : j + panel_width;
        const auto part = [&](auto block, std::int64_t from) {
          block(p, a + row * p.lda, b + from * p.ldb, c + row * p.ldc + from, end - from);
        };
        std::int64_t from = j;
        for (; from + R * W <= end; from += R * W) part(chain_block<M, R, true, T, B>, from);
        for (; from + W <= end; from += W) part(chain_block<M, 1, true, T, B>, from);
        if (from < end) part(chain_block<M, 1, false, T, B>, from);
      });
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
