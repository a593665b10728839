#pragma once
#include <immintrin.h>

#include <cstdint>
#include <type_traits>

#include "matmul/macro_kernel.hpp"

// Products by AMX, of BFloat16 with sums in float and of int8 with sums in int32. An instruction adds the products of
// 16 rows of a, 16 columns of b and 64 bytes along k. For the same files as pack_bf16.hpp.
#define FIT_TARGET_AMX __attribute__((target("avx512bf16,amx-tile,amx-bf16,amx-int8")))

namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

constexpr std::int64_t amx_rows = 32, amx_cols = 32;  // of a block of sums

// For m <= 32 rows of a: tiles 0 … 3 are the sums of 32 rows and 32 columns, 4 and 5 rows of a, 6 and 7 columns of b.
// depth: the bytes along k that an instruction multiplies, 64 or 32.
FIT_TARGET_AMX inline void configure_tiles(std::int64_t m, int depth = 64) {
  struct alignas(64) Config {
    std::uint8_t palette = 1, start_row = 0, zero[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {};
  } config;
  const auto upper = static_cast<std::uint8_t>(m < 16 ? m : 16),
             lower = static_cast<std::uint8_t>(m < 16 ? 16 : m - 16);
  const auto of_b = static_cast<std::uint8_t>(depth / 4);
  const std::uint8_t rows[] = {upper, upper, lower, lower, upper, lower, of_b, of_b};
  for (int i = 0; i < 8; ++i) config.rows[i] = rows[i] == 0 ? std::uint8_t{16} : rows[i];
  config.row_bytes[4] = config.row_bytes[5] = static_cast<std::uint16_t>(depth);
  __asm__ volatile("" ::: "memory");
  _tile_loadconfig(&config);
}

// The operands of a block. Rows of a lie a_line bytes apart; b is a panel, whose rows hold four bytes of each of
// panel_width columns. `size` is the bytes along k, a multiple of `depth`. The distance of `ahead` is in bytes.
struct TileOperands {
  const void* a;
  std::int64_t a_line;
  const void* b;
  std::int64_t size, depth;
  Ahead ahead;
};

// Adds the products to the tiles of sums. b is read once for a block of rows, and must leave the rows in the L1 cache.
// The instructions name their tiles, so T can't choose one by a function.
template <class T, bool Both>
FIT_TARGET_AMX void tile_products(const TileOperands& of) {
#define FIT_TILE_PRODUCT(sum, rows, cols)       \
  if constexpr (std::is_same_v<T, std::int8_t>) \
    _tile_dpbssd(sum, rows, cols);              \
  else                                          \
    _tile_dpbf16ps(sum, rows, cols)

  constexpr std::int64_t b_line = panel_width * 4;
  const auto fetch = [&](const char* tile) {
    for (std::int64_t r = of.ahead.first; r < of.ahead.last; ++r)
      _mm_prefetch(tile + of.ahead.distance + r * b_line, _MM_HINT_T1);
  };
  for (std::int64_t l = 0; l < of.size; l += of.depth) {
    const char* const left = static_cast<const char*>(of.b) + l * panel_width;
    const char* const upper = static_cast<const char*>(of.a) + l;
    _tile_stream_loadd(6, left, b_line);
    _tile_loadd(4, upper, of.a_line);
    _tile_stream_loadd(7, left + 64, b_line);
    FIT_TILE_PRODUCT(0, 4, 6);
    fetch(left);
    FIT_TILE_PRODUCT(1, 4, 7);
    fetch(left + 64);
    if constexpr (Both) {
      _tile_loadd(5, upper + 16 * of.a_line, of.a_line);
      FIT_TILE_PRODUCT(2, 5, 6);
      FIT_TILE_PRODUCT(3, 5, 7);
    }
  }
#undef FIT_TILE_PRODUCT
}

// Both: the sums have more than 16 rows.
template <class T, bool Both, class Sum>
FIT_TARGET_AMX void tile_sums_of(const TileOperands& of, Sum* sums, std::int64_t ld, bool add) {
  static_assert(sizeof(Sum) == 4);
  const std::int64_t line = ld * 4;
  Sum* const lower = sums + 16 * ld;
  __asm__ volatile("" ::: "memory");  // the compiler does not know that tiles read and write memory
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
  tile_products<T, Both>(of);
  _tile_stored(0, sums, line);
  _tile_stored(1, sums + 16, line);
  if constexpr (Both) {
    _tile_stored(2, lower, line);
    _tile_stored(3, lower + 16, line);
  }
  __asm__ volatile("" ::: "memory");
}

// sums [m, 32] (+)= the products of T, BFloat16 or int8; those of the first 32 rows if m is larger. Sum is float or
// int32, with row stride ld.
template <class T, class Sum>
FIT_TARGET_AMX void tile_sums(std::int64_t m, const TileOperands& of, Sum* sums, std::int64_t ld, bool add) {
  m > 16 ? tile_sums_of<T, true>(of, sums, ld, add) : tile_sums_of<T, false>(of, sums, ld, add);
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
