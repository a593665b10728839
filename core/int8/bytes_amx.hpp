#pragma once
#include <immintrin.h>

#include "int8/bytes.hpp"
#include "matmul/amx_tiles.hpp"

#define FIT_TARGET_AMX_INT8 __attribute__((target("avx512vnni,amx-tile,amx-int8")))

// Products of bytes by AMX: an instruction adds those of 16 rows of x, 16 columns and 64 bytes along k. The panels of
// bytes.hpp have the order that it reads. The sums are whole numbers, so the bits are those of other sets. For
// *.simd.cpp files that are compiled for AVX-512.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// sums [32, panel_width] of the products of bytes begin … end - 1 along k, `depth` of them at once. Both: more than 16
// rows of x.
template <bool Both>
FIT_TARGET_AMX_INT8 void tile_sums(const ByteBlock& b, std::int64_t begin, std::int64_t end, std::int64_t depth,
                                   const Ahead& ahead, std::int32_t* sums) {
  constexpr std::int64_t line = panel_width * 4;
  const auto fetch = [&](const std::int8_t* tile) {
    for (std::int64_t r = ahead.first; r < ahead.last; ++r)
      _mm_prefetch(reinterpret_cast<const char*>(tile + ahead.distance + r * line), _MM_HINT_T1);
  };
  __asm__ volatile("" ::: "memory");  // the compiler does not know that tiles read and write memory
  for (std::int64_t col = 0; col < panel_width; col += amx_rows) {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (Both) {
      _tile_zero(2);
      _tile_zero(3);
    }
    for (std::int64_t l = begin; l < end; l += depth) {
      const std::int8_t* const left = b.panel.bytes + l * panel_width + 4 * col;
      _tile_stream_loadd(6, left, line);
      _tile_loadd(4, b.x.bytes + l, b.x.stride);
      _tile_stream_loadd(7, left + 64, line);
      _tile_dpbssd(0, 4, 6);
      fetch(left);
      _tile_dpbssd(1, 4, 7);
      fetch(left + 64);
      if constexpr (Both) {
        _tile_loadd(5, b.x.bytes + 16 * b.x.stride + l, b.x.stride);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
      }
    }
    _tile_stored(0, sums + col, line);
    _tile_stored(1, sums + col + 16, line);
    if constexpr (Both) {
      _tile_stored(2, sums + 16 * panel_width + col, line);
      _tile_stored(3, sums + 16 * panel_width + col + 16, line);
    }
  }
  __asm__ volatile("" ::: "memory");
}

// scales: scales_of_span().
inline void byte_block_amx(std::int64_t k, const ByteBlock& b, std::int64_t depth, std::int64_t scales,
                           const Ahead& ahead) {
  using V = Vec<float>;
  constexpr int N = panel_width / ints;
  alignas(64) std::int32_t sums[amx_rows * panel_width];
  for (std::int64_t s = 0; s < b.x.spans; ++s) {
    const std::int64_t begin = s * b.x.span, end = begin + b.x.span < k ? begin + b.x.span : k;
    (b.rows > 16 ? tile_sums<true> : tile_sums<false>)(b, begin, end, depth, ahead, sums);
    V scale[N];
    FIT_UNROLL for (int n = 0; n < N; ++n) scale[n] = load<V>(b.panel.scales + s * scales + n * ints);
    for (std::int64_t i = 0; i < b.rows; ++i) {
      const V x_scale(b.x.scales[i * b.x.spans + s]);
      float* const to = b.c + i * b.ldc;
      const float* const before = s > 0 ? to : b.bias;
      FIT_UNROLL for (int n = 0; n < N; ++n) {
        const Ints sum = Ints::load_aligned(sums + i * panel_width + n * ints);
        store(with_span(load<V>(before + n * ints), sum, x_scale, scale[n]), to + n * ints);
      }
    }
  }
}

// See Int8Kernels. Few rows, and weights of 4 bits, which are no operands of the instruction, are left to VNNI. A block
// of rows stays in the L1 cache and panels in the L2 cache. Each of several blocks of rows fetches
// its share of the next panels.
FIT_TARGET_AMX_INT8 inline void byte_panels_amx(std::int64_t m, const ByteRows& x, const Int8Task& task,
                                                const BytePanels& panels) {
  if (task.w.bits == 4 || m <= BytesByVnni::rows) return byte_panels<BytesByVnni>(m, x, task, panels);
  constexpr std::int64_t l2 = 1 << 19, most_ahead = 4;
  const std::int64_t few = l2 / panels.panel_bytes, together = few < 1 ? 1 : few;
  const std::int64_t depth = x.spans == 1 || x.span >= byte_step ? byte_step : x.span;
  const std::int64_t scales = scales_of_span(x, task), all = (task.n + panel_width - 1) / panel_width;
  const std::int64_t next = (together < all ? together : all) * panels.panel_bytes;
  std::int64_t configured = 0;
  each_byte_block<amx_rows>(m, x, task, panels, together,
                            [&](const ByteBlock& b, std::int64_t i, std::int64_t count) FIT_TARGET_AMX_INT8 {
                              if (b.rows != configured) configure_tiles(b.rows, static_cast<int>(depth));
                              configured = b.rows;
                              const std::int64_t from = 16 * i / count, share = 16 * (i + 1) / count - from;
                              const std::int64_t fetched = count == 1 ? 0 : share < most_ahead ? share : most_ahead;
                              byte_block_amx(task.k, b, depth, scales, {next, from, from + fetched});
                            });
  _tile_release();
}

constexpr ByteKernels byte_kernels_amx{round_rows, pack_bytes, byte_panels_amx, byte_gemv<BytesByVnni>};

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
