#pragma once
#include <algorithm>

#include "base/scratch.hpp"
#include "int8/product.hpp"

// Matmul of x, rounded to bytes, with weights in 8 or 4 bits, split among threads.
namespace fit::kernels {

inline const ByteKernels& byte_kernels() { return int8_kernels().bytes; }

/// The weights in panels: sizes, and how they are made. After the last of k, bytes up to a multiple of byte_step can be
/// read: they are multiplied by the zeros of x.
inline std::int64_t byte_panels_bytes(std::int64_t n, std::int64_t k, const Int8Weights& w) {
  return panels(n) * panel_width * ((w.bytes(k) + byte_step - 1) / byte_step * byte_step);
}
inline std::int64_t byte_panels_scales(std::int64_t n, std::int64_t k, const Int8Weights& w) {
  return panels(n) * panel_width * w.groups(k);
}
inline void pack_byte_panels(std::int64_t n, std::int64_t k, const Int8Weights& w, std::int8_t* out) {
  parallel_for(panels(n), (1 << 15) / (panel_width * k) + 1, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i)
      byte_kernels().pack(std::min(panel_width, n - i * panel_width), w.bytes(k), rows_from(w, k, i * panel_width),
                          out + i * byte_panels_bytes(1, k, w));
  });
}
inline void pack_scale_panels(std::int64_t n, std::int64_t k, const Int8Weights& w, float* out) {
  const std::int64_t groups = w.groups(k);
  for (std::int64_t col = 0; col < n; col += panel_width)
    for (std::int64_t g = 0; g < groups; ++g)
      for (std::int64_t j = col; j < col + panel_width; ++j) *out++ = j < n ? w.scales[j * groups + g] : 0.0F;
}
inline BytePanels byte_panels(std::int64_t k, const Int8Weights& w, const std::int8_t* bytes, const float* scales) {
  return {bytes, scales, byte_panels_bytes(1, k, w), byte_panels_scales(1, k, w)};
}

/// The rows of x [m, k], rounded. Holds their memory.
class RoundedRows {
 public:
  template <class X>
  RoundedRows(std::int64_t m, std::int64_t k, const X* x, std::int64_t ldx, const Int8Weights& w)
      : stride_((k + byte_step - 1) / byte_step * byte_step),
        span_(byte_span(k, w)),
        spans_((k + span_ - 1) / span_),
        bytes_(m * stride_),
        scales_(m * spans_),
        sums_(m * spans_) {
    parallel_for(m, (1 << 14) / k + 1, [&](std::int64_t i, std::int64_t end) {
      if constexpr (std::is_same_v<X, float>) {
        byte_kernels().round_rows(end - i, k, x + i * ldx, ldx, rows().from(i));
      } else {
        const Scratch<float> wide(k);
        for (; i < end; ++i) {
          bf16_kernels().from_bf16.widen(1, k, x + i * ldx, k, wide.get(), k);
          byte_kernels().round_rows(1, k, wide.get(), k, rows().from(i));
        }
      }
    });
  }
  ByteRows rows() const { return {bytes_.get(), scales_.get(), sums_.get(), stride_, span_, spans_}; }

 private:
  std::int64_t stride_, span_, spans_;
  Scratch<std::int8_t> bytes_;
  Scratch<float> scales_;
  Scratch<std::int32_t> sums_;
};

/// The product of a task, for x [m, k] rounded to bytes and k > 0. kept, done: see Int8Product.
inline void gemm_rounded_parallel(std::int64_t m, const ByteRows& x, const Int8Task& task, const BytePanels* kept,
                                  TileDone done) {
  const std::int64_t n = task.n, k = task.k;
  // Packing takes longer than reading weights as they are.
  if (!kept && m <= gemv_max_m && x.spans == 1 && task.w.bits == 8)
    return gemv_parallel(m, n, k, sizeof(std::int8_t), [&](Part part) {
      byte_kernels().gemv(m, x, task, part, [&](std::int64_t col, std::int64_t cols) { done({0, m, col, cols}); });
    });
  const Scratch<std::int8_t> bytes(kept ? 0 : byte_panels_bytes(n, k, task.w));
  const Scratch<float> scales(kept ? 0 : byte_panels_scales(n, k, task.w));
  if (!kept) pack_byte_panels(n, k, task.w, bytes.get()), pack_scale_panels(n, k, task.w, scales.get());
  const BytePanels all = kept ? *kept : byte_panels(k, task.w, bytes.get(), scales.get());
  const auto multiply = [&](const Tile& tile) {
    constexpr std::int64_t together = 64;  // rows that are still in the cache when they are done
    for (std::int64_t row = tile.row, end = row + tile.rows; row < end; row += together) {
      const Tile rows{row, std::min(together, end - row), tile.col, tile.cols};
      byte_kernels().panels(rows.rows, x.from(row), task.at(row, tile.col, tile.cols), all.from(tile.col));
      done(rows);
    }
  };
  if (m <= gemv_max_m_transposed) {
    const std::int64_t tiles = gemv_tiling(m, n, k, sizeof(std::int8_t)).count();
    return parallel_for(panels(n), (panels(n) + tiles - 1) / tiles, guided_schedule,
                        [&](std::int64_t i, std::int64_t end) {
                          const std::int64_t col = i * panel_width;
                          multiply({0, m, col, std::min(end * panel_width, n) - col});
                        });
  }
  constexpr double faster = 4;  // than products of floats
  const double flops = 2 / faster * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const Tiling t = tiling(m, n, flops, num_threads());
  parallel_for(t.count(), 1, dynamic_schedule, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) multiply(t.tile(i, m, n));
  });
}

/// Like gemm_int8_parallel(), with x rounded to bytes and k > 0.
template <class X, class C>
void gemm_bytes_parallel(const Int8Product<X, C>& p) {
  if (p.m == 0 || p.n == 0) return;
  const RoundedRows rounded(p.m, p.k, p.x, p.ldx, p.w);
  const FloatSums sums(p);
  gemm_rounded_parallel(p.m, rounded.rows(), sums.task(), p.kept, [&](const Tile& t) {
    sums.finish(t);
    p.done(t);
  });
}

}  // namespace fit::kernels
