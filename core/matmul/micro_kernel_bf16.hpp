#pragma once
#include <immintrin.h>

#include "matmul/amx_tiles.hpp"
#include "matmul/gemv.hpp"
#include "matmul/macro_kernel.hpp"
#include "matmul/pack_bf16.hpp"

// Micro-kernels of bfloat16 with the processor's instructions. For the same files as pack_bf16.hpp.

namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// sums [m, cols] (stride ld) (+)= a [m, k] times the first `cols` columns of a panel of b. Later columns, up to a
// multiple of 32, are undefined. Way::rows is the best number of rows for the L1 cache. The caller calls begin(rows)
// before and end() after all macro-kernels. m equals `rows`; after begin(Way::rows) it may be any number, and then Amx
// reads and writes rows up to a multiple of 16.

// vdpbf16ps adds the products of two pairs to a float, one after another.
struct Avx512Bf16 {
  static constexpr std::int64_t rows = 30;
  static void begin(std::int64_t) {}
  static void end() {}

  template <int M, int V>
  FIT_TARGET_AVX512_BF16 static void micro_kernel(std::int64_t k, const BFloat16* a, std::int64_t lda,
                                                  const BFloat16* b, float* sums, std::int64_t ld, bool add) {
    __m512 sum[M][V];
    FIT_UNROLL for (int i = 0; i < M; ++i) FIT_UNROLL for (int j = 0; j < V; ++j) sum[i][j] =
        add ? _mm512_loadu_ps(sums + i * ld + j * 16) : _mm512_setzero_ps();
    for (std::int64_t p = 0; p < k; p += 2) {
      __m512bh row[V];
      FIT_UNROLL for (int j = 0; j < V; ++j) row[j] = (__m512bh)_mm512_loadu_si512(b + p * panel_width + j * 32);
      FIT_UNROLL for (int i = 0; i < M; ++i) {
        int pair;
        __builtin_memcpy(&pair, a + i * lda + p, sizeof pair);
        const auto x = (__m512bh)_mm512_set1_epi32(pair);
        FIT_UNROLL for (int j = 0; j < V; ++j) sum[i][j] = _mm512_dpbf16_ps(sum[i][j], x, row[j]);
      }
    }
    FIT_UNROLL for (int i = 0; i < M; ++i) FIT_UNROLL for (int j = 0; j < V; ++j)
        _mm512_storeu_ps(sums + i * ld + j * 16, sum[i][j]);
  }

  // Divides the rows evenly: a block of few rows would wait for its own sums.
  template <int V>
  static void columns(std::int64_t m, std::int64_t k, const BFloat16* a, std::int64_t lda, const BFloat16* b,
                      float* sums, std::int64_t ld, bool add) {
    constexpr int max_rows = 6;
    for (std::int64_t blocks = (m + max_rows - 1) / max_rows; blocks > 0; --blocks) {
      const std::int64_t some = (m + blocks - 1) / blocks;
      with_rows<max_rows>(some, [&](auto M) { micro_kernel<M, V>(k, a, lda, b, sums, ld, add); });
      m -= some;
      a += some * lda;
      sums += some * ld;
    }
  }

  static void macro_kernel(std::int64_t m, std::int64_t cols, std::int64_t k, const BFloat16* a, std::int64_t lda,
                           const BFloat16* b, float* sums, std::int64_t ld, bool add, const Ahead& = {}) {
    cols <= panel_width / 2 ? columns<2>(m, k, a, lda, b, sums, ld, add) : columns<4>(m, k, a, lda, b, sums, ld, add);
  }
};

struct Amx {
  static constexpr std::int64_t rows = amx_rows;

  FIT_TARGET_AMX static void begin(std::int64_t m) { configure_tiles(m); }
  FIT_TARGET_AMX static void end() { _tile_release(); }

  FIT_TARGET_AMX static void macro_kernel(std::int64_t m, std::int64_t cols, std::int64_t k, const BFloat16* a,
                                          std::int64_t lda, const BFloat16* b, float* sums, std::int64_t ld, bool add,
                                          const Ahead& ahead = {}) {
    constexpr std::int64_t size = sizeof(BFloat16);
    const Ahead next{size * ahead.distance, ahead.first, ahead.last};
    for (std::int64_t i = 0; i < m; i += rows)
      for (std::int64_t j = 0; j < cols; j += amx_cols) {
        const TileOperands of{a + i * lda, size * lda, b + 2 * j, size * k, size * bf16_step, next};
        tile_sums<BFloat16>(m - i, of, sums + i * ld + j, ld, add);
      }
  }
};

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
