#pragma once
#include <immintrin.h>

#include <cstring>

#include "kernels/simd/transpose.hpp"
#include "matmul/gemm_kernels_bf16.hpp"

// Packs operands of float or BFloat16 into the order of the processor's instructions for BFloat16. For *.simd.cpp files
// that are compiled for AVX-512: only functions with this target may use further instructions. They are called only if
// the processor has them (isa.hpp).
#define FIT_TARGET_AVX512_BF16 __attribute__((target("avx512bf16")))

namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// Two neighbours along k.
struct Bf16Pair {
  BFloat16 even, odd;
};

// A mask of the first n lanes; all 16 for n >= 16.
inline __mmask16 lanes16(std::int64_t n) {
  return n < 16 ? static_cast<__mmask16>((1u << (n < 0 ? 0 : n)) - 1) : 0xffff;
}

// Copies x [rows, cols] as BFloat16. Each row is padded with zeros to `filled` elements, a multiple of bf16_step.
FIT_TARGET_AVX512_BF16 inline void bf16_copy(std::int64_t rows, std::int64_t cols, std::int64_t filled, const float* x,
                                             std::int64_t ld, BFloat16* out, std::int64_t out_ld) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* const from = x + r * ld;
    BFloat16* const to = out + r * out_ld;
    std::int64_t j = 0;
    for (; j + 32 <= cols; j += 32) {
      const __m512 low = _mm512_loadu_ps(from + j), high = _mm512_loadu_ps(from + j + 16);
      _mm512_storeu_si512(to + j, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
    for (; j < filled; j += 32) {
      const __m512 low = _mm512_maskz_loadu_ps(lanes16(cols - j), from + j),
                   high = _mm512_maskz_loadu_ps(lanes16(cols - j - 16), from + j + 16);
      _mm512_storeu_si512(to + j, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
  }
}
inline void bf16_copy(std::int64_t rows, std::int64_t cols, std::int64_t filled, const BFloat16* x, std::int64_t ld,
                      BFloat16* out, std::int64_t out_ld) {
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(out + r * out_ld, x + r * ld, static_cast<std::size_t>(cols) * sizeof(BFloat16));
    for (std::int64_t j = cols; j < filled; ++j) out[r * out_ld + j] = BFloat16(0);
  }
}

// Permutation for interleaving: words 0, n, 1, n + 1, … of two vectors of n words, or of the two halves of one.
struct Turns {
  alignas(64) std::uint16_t words[2][32] = {};
  constexpr explicit Turns(int n) {
    for (int l = 0; l < 64; ++l) words[l / 32][l % 32] = static_cast<std::uint16_t>(l / 2 + l % 2 * n);
  }
  __m512i operator[](int i) const { return _mm512_load_si512(words[i]); }
};
constexpr Turns turns_of_halves(16), turns_of_two(32);

// Rounds 16 numbers of each of two rows and interleaves them as pairs; turns: turns_of_halves[0].
FIT_TARGET_AVX512_BF16 inline __m512i bf16_pairs(const __m512& even, const __m512& odd, const __m512i& turns) {
  return _mm512_permutexvar_epi16(turns, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
}

// Interleaves rows 2 i and 2 i + 1 of x [k, cols] as pairs: out [filled / 2, cols], with zeros after the last row.
FIT_TARGET_AVX512_BF16 inline void bf16_zip(std::int64_t k, std::int64_t cols, std::int64_t filled, const float* x,
                                            std::int64_t ld, Bf16Pair* out, std::int64_t out_ld) {
  const __m512i turns = turns_of_halves[0];
  for (std::int64_t i = 0; i < filled; i += 2) {
    const float *const even = x + i * ld, *const odd = even + ld;
    Bf16Pair* const to = out + i / 2 * out_ld;
    std::int64_t j = 0;
    if (i + 1 < k)
      for (; j + 16 <= cols; j += 16) {
        const __m512 first = _mm512_loadu_ps(even + j), second = _mm512_loadu_ps(odd + j);
        _mm512_storeu_si512(to + j, bf16_pairs(first, second, turns));
      }
    for (; j < cols; j += 16) {
      const __mmask16 lanes = lanes16(cols - j), none{0};
      const __m512 first = _mm512_maskz_loadu_ps(i < k ? lanes : none, even + j),
                   second = _mm512_maskz_loadu_ps(i + 1 < k ? lanes : none, odd + j);
      _mm512_mask_storeu_epi32(to + j, lanes, bf16_pairs(first, second, turns));
    }
  }
}
inline void bf16_zip(std::int64_t k, std::int64_t cols, std::int64_t filled, const BFloat16* x, std::int64_t ld,
                     Bf16Pair* out, std::int64_t out_ld) {
  const __m512i first = turns_of_two[0], second = turns_of_two[1];
  for (std::int64_t i = 0; i < filled; i += 2) {
    const BFloat16 *const even = x + i * ld, *const odd = even + ld;
    Bf16Pair* const to = out + i / 2 * out_ld;
    std::int64_t j = 0;
    if (i + 1 < k)
      for (; j + 32 <= cols; j += 32) {
        const __m512i low = _mm512_loadu_si512(even + j), high = _mm512_loadu_si512(odd + j);
        _mm512_storeu_si512(to + j, _mm512_permutex2var_epi16(low, first, high));
        _mm512_storeu_si512(to + j + 16, _mm512_permutex2var_epi16(low, second, high));
      }
    for (; j < cols; ++j) to[j] = {i < k ? even[j] : BFloat16(0), i + 1 < k ? odd[j] : BFloat16(0)};
  }
}

// Elements along k that are transposed at once: their buffer fits the L1 cache.
constexpr std::int64_t bf16_transpose_k = 64;

template <class From>
void pack_a_bf16(bool transposed, std::int64_t rows, std::int64_t k, const From* x, std::int64_t ld, BFloat16* out,
                 std::int64_t out_ld) {
  const std::int64_t filled = bf16_filled(k);
  if (!transposed) return bf16_copy(rows, k, filled, x, ld, out, out_ld);
  alignas(64) Bf16Pair pairs[bf16_transpose_k / 2 * panel_width];
  for (std::int64_t r = 0; r < rows; r += panel_width)
    for (std::int64_t k0 = 0; k0 < filled; k0 += bf16_transpose_k) {
      const std::int64_t width = rows - r < panel_width ? rows - r : panel_width;
      const std::int64_t depth = filled - k0 < bf16_transpose_k ? filled - k0 : bf16_transpose_k;
      bf16_zip(k - k0 < depth ? k - k0 : depth, width, depth, x + k0 * ld + r, ld, pairs, panel_width);
      transpose(depth / 2, width, pairs, panel_width, reinterpret_cast<Bf16Pair*>(out + r * out_ld + k0), out_ld / 2);
    }
}

template <class From>
void pack_b_bf16(bool transposed, std::int64_t cols, std::int64_t k, const From* x, std::int64_t ld, BFloat16* out) {
  const std::int64_t filled = bf16_filled(k);
  auto* const pairs = reinterpret_cast<Bf16Pair*>(out);
  if (cols < panel_width) std::memset(pairs, 0, static_cast<std::size_t>(filled / 2 * panel_width) * sizeof(Bf16Pair));
  if (!transposed) return bf16_zip(k, cols, filled, x, ld, pairs, panel_width);
  alignas(64) BFloat16 together[panel_width * bf16_transpose_k];
  for (std::int64_t k0 = 0; k0 < filled; k0 += bf16_transpose_k) {
    const std::int64_t depth = filled - k0 < bf16_transpose_k ? filled - k0 : bf16_transpose_k;
    Bf16Pair* const to = pairs + k0 / 2 * panel_width;
    if constexpr (std::is_same_v<From, BFloat16>)
      if (k0 + depth <= k && ld % 2 == 0) {  // only full pairs: transposed without a copy
        transpose(cols, depth / 2, reinterpret_cast<const Bf16Pair*>(x + k0), ld / 2, to, panel_width);
        continue;
      }
    bf16_copy(cols, k - k0 < depth ? k - k0 : depth, depth, x + k0, ld, together, bf16_transpose_k);
    transpose(cols, depth / 2, reinterpret_cast<const Bf16Pair*>(together), bf16_transpose_k / 2, to, panel_width);
  }
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
