#pragma once
#include <immintrin.h>

#include "int8/bytes.hpp"
#include "matmul/amx_tiles.hpp"

// Products of bytes by AMX. The panels of bytes.hpp have the order that its instructions read. The sums are whole
// numbers, so the bits are those of other sets. For *.simd.cpp files that are compiled for AVX-512.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// scales: scales_of_span().
FIT_TARGET_AMX inline void byte_block_amx(std::int64_t k, const ByteBlock& b, std::int64_t depth, std::int64_t scales,
                                          const Ahead& ahead) {
  using V = Vec<float>;
  constexpr int N = panel_width / ints;
  alignas(64) std::int32_t sums[amx_rows * panel_width];
  for (std::int64_t s = 0; s < b.x.spans; ++s) {
    const std::int64_t begin = s * b.x.span, end = begin + b.x.span < k ? begin + b.x.span : k;
    for (std::int64_t col = 0; col < panel_width; col += amx_cols) {
      const TileOperands of{b.x.bytes + begin,
                            b.x.stride,
                            b.panel.bytes + begin * panel_width + 4 * col,
                            (end - begin + depth - 1) / depth * depth,
                            depth,
                            ahead};
      tile_sums<std::int8_t>(b.rows, of, sums + col, panel_width, false);
    }
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
// of rows stays in the L1 cache and panels in the L2 cache. Each of several blocks of rows fetches its share of the
// next panels.
FIT_TARGET_AMX inline void byte_panels_amx(std::int64_t m, const ByteRows& x, const Int8Task& task,
                                           const BytePanels& panels) {
  if (task.w.bits == 4 || m <= BytesByVnni::rows) return byte_panels<BytesByVnni>(m, x, task, panels);
  constexpr std::int64_t l2 = 1 << 19;
  const std::int64_t few = l2 / panels.panel_bytes, together = few < 1 ? 1 : few;
  const std::int64_t depth = x.spans == 1 || x.span >= byte_step ? byte_step : x.span;
  const std::int64_t scales = scales_of_span(x, task), all = (task.n + panel_width - 1) / panel_width;
  const std::int64_t next = (together < all ? together : all) * panels.panel_bytes;
  std::int64_t configured = 0;
  each_byte_block<amx_rows>(m, x, task, panels, together, [&](const ByteBlock& b) FIT_TARGET_AMX {
    if (b.rows != configured) configure_tiles(b.rows, static_cast<int>(depth));
    configured = b.rows;
    byte_block_amx(task.k, b, depth, scales, b.count == 1 ? Ahead{} : share_of_ahead(next, b.i, b.count));
  });
  _tile_release();
}

constexpr ByteKernels byte_kernels_amx{round_rows, pack_bytes, byte_panels_amx, byte_gemv<BytesByVnni>};

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
