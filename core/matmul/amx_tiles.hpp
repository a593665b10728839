#pragma once
#include <immintrin.h>

#include <cstdint>

// The tiles of AMX, for products of a block of 32 rows of a by 32 columns of b: tiles 0 … 3 are sums, 4 and 5 rows of
// a, 6 and 7 columns of b. A tile has up to 16 rows of 64 bytes. For the same files as pack_bf16.hpp.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

constexpr std::int64_t amx_rows = 32;

// For m <= 32 rows of a. depth: the bytes along k that an instruction multiplies, 64 or 32; b has them in rows of four.
__attribute__((target("amx-tile"))) inline void configure_tiles(std::int64_t m, int depth = 64) {
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

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
