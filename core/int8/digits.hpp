#pragma once
#include <immintrin.h>

#include <cstdint>

#include "int8/kernels.hpp"
#include "matmul/gemv.hpp"
#include "matmul/pack_bf16.hpp"

#define FIT_TARGET_AVX512_VNNI __attribute__((target("avx512vnni")))

// gemv with int8 weights in whole numbers: the processor multiplies and adds bytes, and no weight is converted to
// float. For the same files as pack_bf16.hpp.
//
// A row of x becomes whole numbers X, smaller than 2^30, with a common unit: x = unit X. The unit is a power of two. A
// float has 24 bits, so numbers from 1 / 64 of the largest on are exact. X has four signed digits of one byte:
//   X = sum over i of 256^i d_i
// The instruction multiplies an unsigned by a signed byte. So w + 128 stands for w:
//   x w' = unit (sum over i of 256^i ((w + 128) d_i') - 128 sum(X))
// The sums of bytes are exact, so the result does not depend on the order of the additions.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// The sum of 65,536 products of bytes, each at most 255 * 128, fits 32 bits.
constexpr std::int64_t digits_max_k = 1 << 16;

// Adds products of 64 unsigned bytes by the digits of 64 numbers.
FIT_TARGET_AVX512_VNNI inline void add_products(__m512i bytes, const Int8Row& x, std::int64_t l,
                                                __m512i (&sum)[int8_digits]) {
  FIT_UNROLL for (int i = 0; i < int8_digits; ++i) sum[i] =
      _mm512_dpbusd_epi32(sum[i], bytes, _mm512_loadu_si512(x.digits + i * x.stride + l));
}

// sum over i of 256^i sum[i], over all lanes
inline double joined(const __m512i (&sum)[int8_digits]) {
  double all = 0;
  FIT_UNROLL for (int i = int8_digits - 1; i >= 0; --i) all = 256 * all + _mm512_reduce_add_epi32(sum[i]);
  return all;
}

// See Int8Kernels. The error of a number is at most unit / 2 <= 2^-30 largest <= 2^-22 mean.
FIT_TARGET_AVX512_VNNI inline bool digits_of(std::int64_t k, const float* x, std::int64_t stride, std::int8_t* digits,
                                             Int8Row& row) {
  constexpr int parts = int8_step / 16;
  const auto part = [&](std::int64_t l) { return _mm512_maskz_loadu_ps(lanes16(k - l), x + l); };
  __m512 most[parts] = {}, total[parts] = {};
  for (std::int64_t l = 0; l < stride; l += int8_step) FIT_UNROLL for (int p = 0; p < parts; ++p) {
      const __m512 size = _mm512_abs_ps(part(l + 16 * p));
      most[p] = _mm512_max_ps(most[p], size);
      total[p] = _mm512_add_ps(total[p], size);
    }
  const float sum = _mm512_reduce_add_ps(total[0] + total[1] + total[2] + total[3]);
  const float largest =
      _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(most[0], most[1]), _mm512_max_ps(most[2], most[3])));
  // NaN fails each comparison, and infinity the second.
  const bool narrow = largest >= 0x1p-90F && largest <= 0x1p90F && largest * static_cast<float>(k) <= 256 * sum;
  if (!narrow || k > digits_max_k) return false;
  // unit = 2^exponent, from the bits: the functions of the library take longer.
  std::uint32_t bits;
  __builtin_memcpy(&bits, &largest, sizeof bits);
  const std::int64_t exponent = static_cast<std::int64_t>(bits >> 23) - 127 - 29, unit_bits = (1023 + exponent) << 52;
  __builtin_memcpy(&row.unit, &unit_bits, sizeof unit_bits);
  const __m512 units = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(127 - exponent) << 23));
  const __m512i carry = _mm512_set1_epi32(0x00808080);  // the byte b of X + carry is the digit b - 128
  __m512i all = _mm512_setzero_si512();                 // the sum of X
  for (std::int64_t l = 0; l < stride; l += 16) {
    const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(part(l), units));
    const __m512i bytes = _mm512_xor_si512(_mm512_add_epi32(whole, carry), carry);
    FIT_UNROLL for (int i = 0; i < int8_digits; ++i) _mm_storeu_si128(
        reinterpret_cast<__m128i*>(digits + i * stride + l), _mm512_cvtepi32_epi8(_mm512_srli_epi32(bytes, 8 * i)));
    FIT_UNROLL for (int half = 0; half < 2; ++half) all = _mm512_add_epi64(
        all, _mm512_cvtepi32_epi64(half ? _mm512_extracti64x4_epi64(whole, 1) : _mm512_castsi512_si256(whole)));
  }
  row.digits = digits;
  row.stride = stride;
  row.middle = 128 * static_cast<double>(_mm512_reduce_add_epi64(all));
  return true;
}

// Columns j, j + step, … of a row of c. With so little work for each byte, it must prefetch three times as far.
template <int R>
FIT_TARGET_AVX512_VNNI void digit_dots(const Int8Row& x, const Int8Task& task, std::int64_t j, std::int64_t step,
                                       float* c) {
  const std::int64_t k = task.k;
  const Int8Weights& w = task.w;
  const std::int8_t* const from = w.data + j * w.ld;
  __m512i sum[R][int8_digits] = {};
  const auto add = [&](std::int64_t l, const auto& get) FIT_TARGET_AVX512_VNNI {
    FIT_UNROLL for (int r = 0; r < R; ++r)
        add_products(_mm512_xor_si512(get(from + r * step * w.ld + l), _mm512_set1_epi8(-128)), x, l, sum[r]);
  };
  std::int64_t l = 0;
  for (; l + int8_step <= k; l += int8_step) {
    FIT_UNROLL for (int r = 0; r < R; ++r) __builtin_prefetch(from + r * step * w.ld + l + 3 * prefetch_bytes);
    add(l, [](const std::int8_t* at) FIT_TARGET_AVX512_VNNI { return _mm512_loadu_si512(at); });
  }
  if (const __mmask64 lanes = (__mmask64{1} << (k - l)) - 1)
    add(l, [lanes](const std::int8_t* at) FIT_TARGET_AVX512_VNNI { return _mm512_maskz_loadu_epi8(lanes, at); });
  FIT_UNROLL for (int r = 0; r < R; ++r) {
    const std::int64_t at = j + r * step;
    const auto dot = static_cast<float>(x.unit * w.scales[at] * (joined(sum[r]) - x.middle));
    c[at] = task.bias ? dot + task.bias[at] : dot;
  }
}

inline void gemv_digits(std::int64_t m, const Int8Row* x, const Int8Task& task, Part part, ColumnsDone done) {
  each_columns<1, int8_digits>(
      task.n, part,
      [&](auto columns, std::int64_t j, std::int64_t step) {
        for (std::int64_t i = 0; i < m; ++i) digit_dots<columns>(x[i], task, j, step, task.c + i * task.ldc);
      },
      done);
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
