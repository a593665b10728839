#pragma once
#include <immintrin.h>

#include <cstring>

#include "kernels/product_bf16.hpp"
#include "kernels/simd/for_each_vector.hpp"
#include "kernels/simd/transpose.hpp"

// Operands of float or BFloat16 put into the order in which BFloat16 are multiplied: for *.simd.cpp files.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// Two neighbours along k.
struct Bf16Pair {
  BFloat16 even, odd;
};

// The bits of BFloat16 are in the upper halves of words.
template <class Access>
inline FloatBits bf16_bits(const Access& access, const float* p) {
  return round_bf16(access.template load<Vec<float>>(p, 0.0F));
}
template <class Access>
inline FloatBits bf16_bits(const Access& access, const BFloat16* p) {
  return bits_of(access.template load<Vec<float>>(p, BFloat16(0)));
}

// x [rows, cols] as BFloat16, each row filled up with zeros to `filled` elements.
template <class From>
void bf16_copy(std::int64_t rows, std::int64_t cols, std::int64_t filled, const From* x, std::int64_t ld, BFloat16* out,
               std::int64_t out_ld) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const From* const from = x + r * ld;
    BFloat16* const to = out + r * out_ld;
    if constexpr (std::is_same_v<From, BFloat16>)
      std::memcpy(to, from, static_cast<std::size_t>(cols) * sizeof(BFloat16));
    else
      for_each_vector<Vec<float>>(cols, [&](std::int64_t j, auto access, int) {
        access.store(access.template load<Vec<float>>(from + j, 0.0F), to + j);
      });
    for (std::int64_t j = cols; j < filled; ++j) to[j] = BFloat16(0);
  }
}

// Two rows of BFloat16 as pairs: bits are moved, none are rounded.
inline void zip_rows(std::int64_t cols, const BFloat16* even, const BFloat16* odd, Bf16Pair* out) {
  alignas(64) std::uint16_t turns[2][32];
  for (std::uint16_t l = 0; l < 32; ++l) {
    turns[0][l] = static_cast<std::uint16_t>(l / 2 + l % 2 * 32);
    turns[1][l] = static_cast<std::uint16_t>(turns[0][l] + 16);
  }
  const __m512i first = _mm512_load_si512(turns[0]), second = _mm512_load_si512(turns[1]);
  std::int64_t j = 0;
  for (; j + 32 <= cols; j += 32) {
    const __m512i low = _mm512_loadu_si512(even + j), high = _mm512_loadu_si512(odd + j);
    _mm512_storeu_si512(out + j, _mm512_permutex2var_epi16(low, first, high));
    _mm512_storeu_si512(out + j + 16, _mm512_permutex2var_epi16(low, second, high));
  }
  for (; j < cols; ++j) out[j] = {even[j], odd[j]};
}

// Rows 2 i and 2 i + 1 of x [k, cols] as pairs, out [filled / 2, cols] with zeros after the last row.
template <class From>
void bf16_zip(std::int64_t k, std::int64_t cols, std::int64_t filled, const From* x, std::int64_t ld, Bf16Pair* out,
              std::int64_t out_ld) {
  for (std::int64_t i = 0; i < filled; i += 2) {
    const From* const even = x + i * ld;
    if constexpr (std::is_same_v<From, BFloat16>)
      if (i + 1 < k) {
        zip_rows(cols, even, even + ld, out + i / 2 * out_ld);
        continue;
      }
    auto* const to = reinterpret_cast<float*>(out + i / 2 * out_ld);  // only bits are moved
    for_each_vector<Vec<float>>(cols, [&](std::int64_t j, auto access, int) {
      const FloatBits low = i < k ? bf16_bits(access, even + j) : FloatBits{};
      const FloatBits high = i + 1 < k ? bf16_bits(access, even + ld + j) : FloatBits{};
      access.store(float_of(low >> 16 | (high & 0xffff0000u)), to + j);
    });
  }
}

// Elements along k that are transposed at a time: what they are put together in stays in the L1 cache.
constexpr std::int64_t bf16_turned = 64;

template <class From>
void bf16_rows(bool transposed, std::int64_t rows, std::int64_t k, const From* x, std::int64_t ld, BFloat16* out,
               std::int64_t out_ld) {
  const std::int64_t filled = bf16_filled(k);
  if (!transposed) return bf16_copy(rows, k, filled, x, ld, out, out_ld);
  alignas(64) Bf16Pair pairs[bf16_turned / 2 * panel_width];
  for (std::int64_t r = 0; r < rows; r += panel_width)
    for (std::int64_t k0 = 0; k0 < filled; k0 += bf16_turned) {
      const std::int64_t width = rows - r < panel_width ? rows - r : panel_width;
      const std::int64_t depth = filled - k0 < bf16_turned ? filled - k0 : bf16_turned;
      bf16_zip(k - k0 < depth ? k - k0 : depth, width, depth, x + k0 * ld + r, ld, pairs, panel_width);
      transpose(depth / 2, width, pairs, panel_width, reinterpret_cast<Bf16Pair*>(out + r * out_ld + k0), out_ld / 2);
    }
}

template <class From>
void bf16_panel(bool transposed, std::int64_t cols, std::int64_t k, const From* x, std::int64_t ld, BFloat16* out) {
  const std::int64_t filled = bf16_filled(k);
  auto* const pairs = reinterpret_cast<Bf16Pair*>(out);
  if (cols < panel_width) std::memset(out, 0, static_cast<std::size_t>(filled * panel_width) * sizeof(BFloat16));
  if (!transposed) return bf16_zip(k, cols, filled, x, ld, pairs, panel_width);
  alignas(64) BFloat16 together[panel_width * bf16_turned];
  for (std::int64_t k0 = 0; k0 < filled; k0 += bf16_turned) {
    const std::int64_t depth = filled - k0 < bf16_turned ? filled - k0 : bf16_turned;
    Bf16Pair* const to = pairs + k0 / 2 * panel_width;
    if constexpr (std::is_same_v<From, BFloat16>)
      if (k0 + depth <= k && ld % 2 == 0) {  // whole pairs: they are transposed from where they lie
        transpose(cols, depth / 2, reinterpret_cast<const Bf16Pair*>(x + k0), ld / 2, to, panel_width);
        continue;
      }
    bf16_copy(cols, k - k0 < depth ? k - k0 : depth, depth, x + k0, ld, together, bf16_turned);
    transpose(cols, depth / 2, reinterpret_cast<const Bf16Pair*>(together), bf16_turned / 2, to, panel_width);
  }
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
