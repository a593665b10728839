#pragma once
#include <cstring>

#include "int8/kernels.hpp"
#include "kernels/simd/transpose.hpp"
#include "matmul/gemv.hpp"
#include "matmul/macro_kernel.hpp"

// Products of bytes: weights in 8 or 4 bits by rows of x that are rounded to int8 (see kernels.hpp). The sums of
// products are whole numbers and exact, so all instruction sets agree. What follows is rounded by operation in one
// order:
//   c = bias + float(sum of span 0) * scale of x * scale of w + the same for span 1 + …
// For *.simd.cpp files only.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

using Ints = Vec<std::int32_t>;
constexpr int ints = static_cast<int>(Ints::size), register_bytes = 4 * ints;

// add(sum, w, x) adds to each lane of sum the four products of its signed bytes: of w + offset by x. add_small() is the
// same for w in 0 … 15, without offset. A block of rows x vectors sums stays in registers.
#if defined(__AVX2__)
// The instruction multiplies unsigned by signed bytes. Without an intrinsic, whose target is that of its caller, the
// loops below are written once.
struct BytesByVnni {
  static constexpr int offset = 128, rows = 6, vectors = vector_registers == 32 ? 4 : 2;
  static Ints add(Ints sum, const Ints& w, const Ints& x) {
    return add_small(sum, w ^ Ints(static_cast<std::int32_t>(0x80808080)), x);
  }
  static Ints add_small(Ints sum, const Ints& w, const Ints& x) {
#if defined(__AVX512F__)
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum.data) : "v"(w.data), "v"(x.data));
#else
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.data) : "x"(w.data), "x"(x.data));
#endif
    return sum;
  }
};
#endif
// Products in 16 bits.
struct Bytes {
  static constexpr int offset = 0, rows = 4, vectors = vector_registers == 32 ? 4 : 2;
  static Ints add(const Ints& sum, const Ints& w, const Ints& x) {
#if defined(__AVX512F__)  // the bytes 0 and 2 of a lane, and 1 and 3, as numbers of 16 bits
    const auto even = [](__m512i v) { return _mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8); };
    const auto odd = [](__m512i v) { return _mm512_srai_epi16(v, 8); };
    return Ints(_mm512_add_epi32(sum.data, _mm512_add_epi32(_mm512_madd_epi16(even(w.data), even(x.data)),
                                                            _mm512_madd_epi16(odd(w.data), odd(x.data)))));
#elif defined(__AVX2__)  // |w| by x with the sign of w: two products are at most 2 * 128 * 127 < 2^15
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w.data), _mm256_sign_epi8(x.data, w.data));
    return Ints(_mm256_add_epi32(sum.data, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
#elif defined(__SSE2__)
    const auto even = [](__m128i v) { return _mm_srai_epi16(_mm_slli_epi16(v, 8), 8); };
    const auto odd = [](__m128i v) { return _mm_srai_epi16(v, 8); };
    return Ints(_mm_add_epi32(
        sum.data, _mm_add_epi32(_mm_madd_epi16(even(w.data), even(x.data)), _mm_madd_epi16(odd(w.data), odd(x.data)))));
#elif defined(__ARM_FEATURE_DOTPROD)
    return Ints(vdotq_s32(sum.data, vreinterpretq_s8_s32(w.data), vreinterpretq_s8_s32(x.data)));
#elif defined(__aarch64__)
    const int8x16_t a = vreinterpretq_s8_s32(w.data), b = vreinterpretq_s8_s32(x.data);
    const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b))),
                    high = vpaddlq_s16(vmull_high_s8(a, b));
    return Ints(vaddq_s32(sum.data, vpaddq_s32(low, high)));
#else
    alignas(64) std::int32_t all[ints], a[ints], b[ints];
    sum.store_aligned(all), w.store_aligned(a), x.store_aligned(b);
    for (int i = 0; i < ints; ++i)
      for (int byte = 0; byte < 32; byte += 8)
        all[i] += static_cast<std::int8_t>(a[i] >> byte) * static_cast<std::int8_t>(b[i] >> byte);
    return Ints::load_aligned(all);
#endif
  }
  static Ints add_small(const Ints& sum, const Ints& w, const Ints& x) { return add(sum, w, x); }
};

inline Ints load_bytes(const std::int8_t* p) {
  Ints all;
  __builtin_memcpy(&all.data, p, register_bytes);
  return all;
}
inline Ints four_bytes(const std::int8_t* p) {
  std::int32_t all;
  __builtin_memcpy(&all, p, sizeof all);
  return Ints(all);
}

// Rounds a span of n numbers; writes full vectors. A number x / scale is whole after 1.5 * 2^23 is added to it.
inline void round_span(std::int64_t n, const float* x, std::int8_t* bytes, float* scale, std::int32_t* total) {
  using V = Vec<float>;
  Ints most(0);
  for_each_vector<V>(n, [&](std::int64_t l, auto access) {
    const V v = access.template load<V>(x + l, 0.0F);
    most = xsimd::max(most, xsimd::bitwise_cast<Ints>(v) & Ints(0x7fffffff));  // NaN is larger than infinity
  });
  alignas(64) std::int32_t lanes[ints];
  most.store_aligned(lanes);
  std::int32_t bits = 0;
  for (const std::int32_t lane : lanes) bits = lane > bits ? lane : bits;
  float largest;
  __builtin_memcpy(&largest, &bits, sizeof largest);
  const bool finite = bits < 0x7f800000, zero = largest < byte_least;
  *scale = finite && !zero ? largest / 127 : finite ? 0.0F : __builtin_nanf("");
  const V per_step(finite && !zero ? 127 / largest : 0.0F), magic(0x1.8p23F);
  Ints sum(0);
  for_each_vector<V>(n, [&](std::int64_t l, auto access) {
    const V v = finite ? access.template load<V>(x + l, 0.0F) : V(0.0F);
    const Ints whole = xsimd::bitwise_cast<Ints>(V(v * per_step + magic)) - xsimd::bitwise_cast<Ints>(magic);
    sum = sum + whole;
#if defined(__AVX512F__)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes + l), _mm512_cvtepi32_epi8(whole.data));
#else
    whole.store_aligned(lanes);
    for (int i = 0; i < ints; ++i) bytes[l + i] = static_cast<std::int8_t>(lanes[i]);
#endif
  });
  sum.store_aligned(lanes);
  *total = 0;
  for (const std::int32_t lane : lanes) *total += lane;
}

// See Int8Kernels.
inline void round_rows(std::int64_t rows, std::int64_t k, const float* x, std::int64_t ldx, const ByteRows& to) {
  for (std::int64_t i = 0; i < rows; ++i) {
    std::int8_t* const bytes = to.bytes + i * to.stride;
    std::memset(bytes + to.stride - byte_step, 0, byte_step);
    for (std::int64_t s = 0; s < to.spans; ++s) {
      const std::int64_t first = s * to.span, n = k - first < to.span ? k - first : to.span;
      round_span(n, x + i * ldx + first, bytes + first, to.scales + i * to.spans + s, to.sums + i * to.spans + s);
    }
  }
}

// See Int8Kernels.
inline void pack_bytes(std::int64_t cols, std::int64_t k, const Int8Weights& w, std::int8_t* bytes) {
  constexpr std::int64_t depth = 256;
  alignas(64) std::uint32_t together[panel_width * depth / 4] = {};
  auto* const to = reinterpret_cast<std::uint32_t*>(bytes);
  for (std::int64_t l = 0; l < k; l += depth) {
    const std::int64_t n = k - l < depth ? k - l : depth, fours = (n + 3) / 4;
    for (std::int64_t j = 0; j < cols; ++j) {
      if (n % 4 != 0) together[j * depth / 4 + fours - 1] = 0;
      std::memcpy(together + j * depth / 4, w.data + j * w.ld + l, static_cast<std::size_t>(n));
    }
    transpose(panel_width, fours, together, depth / 4, to + l / 4 * panel_width, panel_width);
  }
}

// The weights of 8 bits, or a half of each byte.
template <int bits>
Ints numbers(const Ints& w, int part) {
  if constexpr (bits == 8) return w;
  return (part == 0 ? w : w >> 4) & Ints(0x0f0f0f0f);
}

// Few rows read their panels from memory, and the processor fetches one stream too late. The distance in bytes.
constexpr std::int64_t prefetch_panels = 8192;

// c with the sums of one more span.
inline Vec<float> with_span(const Vec<float>& c, const Ints& sum, const Vec<float>& x_scale,
                            const Vec<float>& w_scale) {
  return c + xsimd::to_float(sum) * x_scale * w_scale;
}

// A block of c, the i-th of `count` below each other: `rows` rows, and the columns of a panel. Where the panel has
// fewer, c and the bias are buffers.
struct ByteBlock {
  std::int64_t i, count, rows;
  ByteRows x;
  BytePanels panel;
  const float* bias;
  float* c;
  std::int64_t ldc;
};

// For M rows. scales: scales_of_span().
template <class By, int bits, int M>
void byte_block(std::int64_t k, const ByteBlock& b, std::int64_t scales) {
  using V = Vec<float>;
  constexpr int N = M == 1 ? panel_vectors<1>() : By::vectors, parts = 8 / bits, offset = bits == 8 ? By::offset : 8;
  for (int col = 0; col < panel_width; col += N * ints)
    for (std::int64_t s = 0, l = 0; s < b.x.spans; ++s) {
      Ints sum[M][N];
      FIT_UNROLL for (int i = 0; i < M; ++i) FIT_UNROLL for (int n = 0; n < N; ++n) sum[i][n] =
          Ints(-offset * b.x.sums[i * b.x.spans + s]);
      for (const std::int64_t end = l + b.x.span < k ? l + b.x.span : k; l < end; l += 4 * parts) {
        const std::int8_t* const from = b.panel.bytes + l / parts * panel_width + 4 * col;
        if constexpr (M <= gemv_max_m)
          FIT_UNROLL for (int n = 0; n < N; ++n) __builtin_prefetch(from + n * register_bytes + prefetch_panels);
        FIT_UNROLL for (int part = 0; part < parts; ++part) {
          Ints w[N];
          FIT_UNROLL for (int n = 0; n < N; ++n) w[n] = numbers<bits>(load_bytes(from + n * register_bytes), part);
          FIT_UNROLL for (int i = 0; i < M; ++i) {
            const Ints four = four_bytes(b.x.bytes + i * b.x.stride + l + 4 * part);
            FIT_UNROLL for (int n = 0; n < N; ++n) sum[i][n] =
                bits == 8 ? By::add(sum[i][n], w[n], four) : By::add_small(sum[i][n], w[n], four);
          }
        }
      }
      V scale[N];
      FIT_UNROLL for (int n = 0; n < N; ++n) scale[n] = load<V>(b.panel.scales + s * scales + col + n * ints);
      FIT_UNROLL for (int i = 0; i < M; ++i) {
        const V x_scale(b.x.scales[i * b.x.spans + s]);
        float* const to = b.c + i * b.ldc + col;
        const float* const before = s > 0 ? to : b.bias + col;
        FIT_UNROLL for (int n = 0; n < N; ++n)
            store(with_span(load<V>(before + n * ints), sum[i][n], x_scale, scale[n]), to + n * ints);
      }
    }
}

// Calls multiply(block) for each block; the rows are divided evenly, at most max_rows in one. A block of rows is
// multiplied by `together` panels before the next one is.
template <int max_rows, class Multiply>
void each_byte_block(std::int64_t m, const ByteRows& x, const Int8Task& task, const BytePanels& panels,
                     std::int64_t together, const Multiply& multiply) {
  const std::int64_t blocks = (m + max_rows - 1) / max_rows, width = together * panel_width;
  alignas(64) float edge[max_rows * panel_width], edge_bias[panel_width] = {};
  const auto one = [&](std::int64_t i, std::int64_t col) {
    const std::int64_t row = i * m / blocks, rows = (i + 1) * m / blocks - row;
    const std::int64_t cols = task.n - col < panel_width ? task.n - col : panel_width;
    const bool full = cols == panel_width;
    if (task.bias && !full) std::memcpy(edge_bias, task.bias + col, static_cast<std::size_t>(cols) * sizeof(float));
    float* const c = task.c + row * task.ldc + col;
    multiply(ByteBlock{i, blocks, rows, x.from(row), panels.from(col), task.bias && full ? task.bias + col : edge_bias,
                       full ? c : edge, full ? task.ldc : panel_width});
    for (std::int64_t r = 0; r < rows && !full; ++r)
      std::memcpy(c + r * task.ldc, edge + r * panel_width, static_cast<std::size_t>(cols) * sizeof(float));
  };
  for (std::int64_t first = 0; first < task.n; first += width)
    for (std::int64_t i = 0; i < blocks; ++i)
      for (std::int64_t col = first; col < task.n && col < first + width; col += panel_width) one(i, col);
}

// The distance between the scales of two spans; 0 if all spans share those of the panel.
inline std::int64_t scales_of_span(const ByteRows& x, const Int8Task& task) {
  return task.w.groups(task.k) == x.spans ? panel_width : 0;
}

// See Int8Kernels.
template <class By>
void byte_panels(std::int64_t m, const ByteRows& x, const Int8Task& task, const BytePanels& panels) {
  const std::int64_t scales = scales_of_span(x, task);
  each_byte_block<By::rows>(m, x, task, panels, 1, [&](const ByteBlock& b) {
    with_rows<By::rows>(b.rows, [&](auto M) {
      const auto block = task.w.bits == 4 ? byte_block<By, 4, M> : byte_block<By, 8, M>;
      block(task.k, b, scales);
    });
  });
}

// Columns j, j + step, … of a row of c.
template <class By, int R>
void byte_dots(const ByteRows& x, const Int8Task& task, std::int64_t j, std::int64_t step, float* c) {
  const std::int64_t k = task.k;
  const Int8Weights& w = task.w;
  const std::int8_t* const from = w.data + j * w.ld;
  Ints sum[R];
  FIT_UNROLL for (int r = 0; r < R; ++r) sum[r] = Ints(0);
  std::int64_t l = 0;
  for (; l + register_bytes <= k; l += register_bytes) {
    const Ints four = load_bytes(x.bytes + l);
    FIT_UNROLL for (int r = 0; r < R; ++r) {
      __builtin_prefetch(from + r * step * w.ld + l + 3 * prefetch_bytes);
      sum[r] = By::add(sum[r], load_bytes(from + r * step * w.ld + l), four);
    }
  }
  if (l < k) {
    std::int8_t rest[register_bytes] = {};
    const Ints four = load_bytes(x.bytes + l);
    FIT_UNROLL for (int r = 0; r < R; ++r) {
      std::memcpy(rest, from + r * step * w.ld + l, static_cast<std::size_t>(k - l));
      sum[r] = By::add(sum[r], load_bytes(rest), four);
    }
  }
  FIT_UNROLL for (int r = 0; r < R; ++r) {
    const std::int64_t at = j + r * step;
    const auto all = static_cast<float>(xsimd::hadd(sum[r]) - By::offset * x.sums[0]);
    c[at] = (task.bias ? task.bias[at] : 0.0F) + all * x.scales[0] * w.scales[at];
  }
}

// See Int8Kernels.
template <class By>
void byte_gemv(std::int64_t m, const ByteRows& x, const Int8Task& task, Part part, ColumnsDone done) {
  each_columns<1>(
      task.n, part,
      [&](auto columns, std::int64_t j, std::int64_t step) {
        for (std::int64_t i = 0; i < m; ++i) byte_dots<By, columns>(x.from(i), task, j, step, task.c + i * task.ldc);
      },
      done);
}

template <class By>
constexpr ByteKernels byte_kernels{round_rows, pack_bytes, byte_panels<By>, byte_gemv<By>};

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
