#pragma once
#include <immintrin.h>

#include "kernels/product_bf16.hpp"
#include "kernels/simd/isa_namespace.hpp"

// Blocks of products of BFloat16 on the processor's own instructions. For *.simd.cpp files that are compiled for
// AVX-512: only what bears one of these targets may use more, and is called where isa.hpp says that it is there.
#define FIT_TARGET_AVX512_BF16 __attribute__((target("avx512bf16")))
#define FIT_TARGET_AMX __attribute__((target("avx512bf16,amx-tile,amx-bf16")))

namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// sums [rows, panel_width] (+)= a [rows, k] times the first `cols` columns of a panel of b; columns after them are
// undefined. `rows` is up to Way::rows; begin(rows) was called before, end() is called after the last.

// vdpbf16ps adds the products of two pairs to a float, one after the other.
struct Avx512Bf16 {
  static constexpr std::int64_t rows = 30;
  static void begin(std::int64_t) {}
  static void end() {}

  template <int M, int V>
  FIT_TARGET_AVX512_BF16 static void block(std::int64_t k, const BFloat16* a, std::int64_t lda, const BFloat16* b,
                                           float* sums, bool add) {
    __m512 sum[M][V];
    FIT_UNROLL for (int i = 0; i < M; ++i) FIT_UNROLL for (int j = 0; j < V; ++j) sum[i][j] =
        add ? _mm512_loadu_ps(sums + i * panel_width + j * 16) : _mm512_setzero_ps();
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
        _mm512_storeu_ps(sums + i * panel_width + j * 16, sum[i][j]);
  }

  template <int V>
  FIT_TARGET_AVX512_BF16 static void columns(std::int64_t m, std::int64_t k, const BFloat16* a, std::int64_t lda,
                                             const BFloat16* b, float* sums, bool add) {
    std::int64_t i = 0;
    for (; i + 6 <= m; i += 6) block<6, V>(k, a + i * lda, lda, b, sums + i * panel_width, add);
    for (; i + 2 <= m; i += 2) block<2, V>(k, a + i * lda, lda, b, sums + i * panel_width, add);
    if (i < m) block<1, V>(k, a + i * lda, lda, b, sums + i * panel_width, add);
  }

  static void multiply(std::int64_t m, std::int64_t cols, std::int64_t k, const BFloat16* a, std::int64_t lda,
                       const BFloat16* b, float* sums, bool add) {
    cols <= panel_width / 2 ? columns<2>(m, k, a, lda, b, sums, add) : columns<4>(m, k, a, lda, b, sums, add);
  }
};

// Tiles of 16 rows by 64 bytes: 0 … 3 are sums of 32 rows and 32 columns, 4 and 5 rows of a, 6 and 7 columns of b.
struct Amx {
  static constexpr std::int64_t rows = 32;

  FIT_TARGET_AMX static void begin(std::int64_t m) {
    struct alignas(64) Config {
      std::uint8_t palette = 1, start_row = 0, zero[14] = {};
      std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {};
    } config;
    const auto upper = static_cast<std::uint8_t>(m < 16 ? m : 16),
               lower = static_cast<std::uint8_t>(m < 16 ? 16 : m - 16);
    const std::uint8_t tile_rows[] = {upper, upper, lower, lower, upper, lower, 16, 16};
    for (int i = 0; i < 8; ++i) config.rows[i] = tile_rows[i] == 0 ? std::uint8_t{16} : tile_rows[i];
    __asm__ volatile("" ::: "memory");
    _tile_loadconfig(&config);
  }
  FIT_TARGET_AMX static void end() { _tile_release(); }

  // 32 columns; Both: more than 16 rows.
  template <bool Both>
  FIT_TARGET_AMX static void columns(std::int64_t k, const BFloat16* a, std::int64_t lda, const BFloat16* b,
                                     float* sums, bool add) {
    constexpr std::int64_t line = panel_width * sizeof(float);  // of sums, and of pairs of b
    const std::int64_t a_line = lda * static_cast<std::int64_t>(sizeof(BFloat16));
    float* const lower = sums + 16 * panel_width;
    if (add) {
      _tile_loadd(0, sums, line);
      _tile_loadd(1, sums + 16, line);
      if constexpr (Both) {
        _tile_loadd(2, lower, line);
        _tile_loadd(3, lower + 16, line);
      }
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    for (std::int64_t p = 0; p < k; p += bf16_step) {
      const BFloat16* const pairs = b + p * panel_width;
      _tile_loadd(6, pairs, line);
      _tile_loadd(4, a + p, a_line);
      _tile_loadd(7, pairs + 32, line);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      if constexpr (Both) {
        _tile_loadd(5, a + 16 * lda + p, a_line);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
    }
    _tile_stored(0, sums, line);
    _tile_stored(1, sums + 16, line);
    if constexpr (Both) {
      _tile_stored(2, lower, line);
      _tile_stored(3, lower + 16, line);
    }
  }

  FIT_TARGET_AMX static void multiply(std::int64_t m, std::int64_t cols, std::int64_t k, const BFloat16* a,
                                      std::int64_t lda, const BFloat16* b, float* sums, bool add) {
    __asm__ volatile("" ::: "memory");  // the compiler doesn't know that tiles read memory
    for (std::int64_t j = 0; j < cols; j += 32)
      m > 16 ? columns<true>(k, a, lda, b + 2 * j, sums + j, add) : columns<false>(k, a, lda, b + 2 * j, sums + j, add);
  }
};

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
