#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "fit/base/bfloat16.hpp"
#include "kernels/simd/isa.hpp"
#include "matmul/gemm_kernels.hpp"

// The kernels of matmul with weights in 8 or 4 bits. product.hpp splits the work among threads.
namespace fit::kernels {

// Four bytes hold 8 numbers of 4 bits: byte b has number b in its lower and number 4 + b in its upper half, plus 8.
constexpr std::int64_t int4_group = 32;
inline int int4_at(const std::int8_t* row, std::int64_t l) {
  const int byte = static_cast<std::uint8_t>(row[l / 8 * 4 + l % 4]);
  return (l % 8 < 4 ? byte & 15 : byte >> 4) - 8;
}

// Weights [n, k] with row stride ld in bytes: element (j, l) is scales[j groups + l / group] at(j, l), where groups =
// ceil(k / group). A group is a full row (group >= k), or 32, 64 or 128 neighbours in a row; of 4 bits always 32, and k
// is a multiple.
struct Int8Weights {
  Int8Weights() {}
  const std::int8_t* data = nullptr;
  const float* scales = nullptr;
  std::int64_t ld = 0, group = 0;
  int bits = 8;
  std::int64_t groups(std::int64_t k) const { return (k + group - 1) / group; }
  std::int64_t bytes(std::int64_t k) const { return k * bits / 8; }
  int at(std::int64_t j, std::int64_t l) const { return bits == 4 ? int4_at(data + j * ld, l) : data[j * ld + l]; }
};

// c [m, n] = x w' + bias; bias is [n], or null.
struct Int8Task {
  std::int64_t n, k;
  Int8Weights w;
  const float* bias;
  float* c;
  std::int64_t ldc;
  // From a row and column of c on, for `cols` columns. w stays that of all columns.
  Int8Task at(std::int64_t row, std::int64_t col, std::int64_t cols) const {
    return {cols, k, w, bias ? bias + col : nullptr, c + row * ldc + col, ldc};
  }
};

// A row of x in whole numbers: digit i of number l is digits[i stride + l]. See digits.hpp.
struct Int8Row {
  const std::int8_t* digits;
  std::int64_t stride;
  double unit, middle;
};
constexpr int int8_digits = 4;
constexpr std::int64_t int8_step = 64;  // the stride is a multiple

// Rows of x rounded to bytes, in spans of neighbours: x(i, l) is nearly scales[i spans + l / span] bytes[i stride + l].
// The scale is max |x| / 127 in the span. `sums` are those of the bytes of a span. A span with NaN or infinity has the
// scale NaN and bytes 0; one whose numbers are all smaller than byte_least has the scale 0.
struct ByteRows {
  std::int8_t* bytes;
  float* scales;
  std::int32_t* sums;
  std::int64_t stride, span, spans;  // bytes after the last of a row are 0
  ByteRows from(std::int64_t row) const {
    return {bytes + row * stride, scales + row * spans, sums + row * spans, stride, span, spans};
  }
};
constexpr std::int64_t byte_step = 64;           // the stride is a multiple
constexpr std::int64_t byte_max_span = 1 << 16;  // then sums of products fit 32 bits
constexpr float byte_least = 0x1p-100F;

/// A span is a group of weights, or a part of a long one.
inline std::int64_t byte_span(std::int64_t k, const Int8Weights& w) { return std::min({w.group, k, byte_max_span}); }

// Weights in panels: byte 4 l + b of row j of the weights is bytes[(l panel_width + j) 4 + b] of the panel of j. Its
// scales are [groups, panel_width]. Both have zeros where there is no column or no number.
struct BytePanels {
  const std::int8_t* bytes;
  const float* scales;
  std::int64_t panel_bytes, panel_scales;
  // From column col on, the first of a panel.
  BytePanels from(std::int64_t col) const {
    return {bytes + col / panel_width * panel_bytes, scales + col / panel_width * panel_scales, panel_bytes,
            panel_scales};
  }
};

// Products of bytes by bytes, with the same bits on every processor. k is at least 1.
struct ByteKernels {
  // Rounds x [rows, k] to the nearest, ties to even.
  void (*round_rows)(std::int64_t rows, std::int64_t k, const float* x, std::int64_t ldx, const ByteRows& to);
  // Packs the bytes of up to panel_width rows of w, the columns of a panel.
  void (*pack)(std::int64_t cols, std::int64_t k, const Int8Weights& w, std::int8_t* bytes);
  // c [m, n] with weights in panels; of task.w, only group and bits are read.
  void (*panels)(std::int64_t m, const ByteRows& x, const Int8Task& task, const BytePanels& panels);
  // A part of the columns. Reads the weights as they are; for 8 bits, and one span in a row.
  void (*gemv)(std::int64_t m, const ByteRows& x, const Int8Task& task, Part part, ColumnsDone done);
};

/// Reference, against which the kernels are tested: equal.
namespace reference {
inline void round_span(std::int64_t n, const float* x, std::int8_t* bytes, float* scale, std::int32_t* sum) {
  float largest = 0;
  bool finite = true;
  for (std::int64_t l = 0; l < n; ++l) {
    finite = finite && std::isfinite(x[l]);
    largest = std::max(largest, std::abs(x[l]));
  }
  const bool rounds = finite && largest >= byte_least;
  *scale = rounds ? largest / 127 : finite ? 0.0F : NAN;
  *sum = 0;
  for (std::int64_t l = 0; l < n; ++l) {
    bytes[l] = static_cast<std::int8_t>(rounds ? std::nearbyint(x[l] * (127 / largest)) : 0.0F);
    *sum += bytes[l];
  }
}
// The element of c for a row of x and a row j of w.
inline float byte_product(std::int64_t k, const ByteRows& x, const Int8Weights& w, std::int64_t j, float bias) {
  float c = bias;
  for (std::int64_t s = 0; s < x.spans; ++s) {
    std::int32_t sum = 0;
    for (std::int64_t l = s * x.span; l < std::min(k, (s + 1) * x.span); ++l) sum += x.bytes[l] * w.at(j, l);
    c += static_cast<float>(sum) * x.scales[s] * w.scales[j * w.groups(k) + s * x.span / w.group];
  }
  return c;
}
}  // namespace reference

struct Int8Kernels {
  // A part of the columns, for m up to gemv_max_m; x has row stride ldx. Reads the weights once, without packing, and
  // converts them to float. The sum of each group is multiplied by its scale; rounded by operation.
  void (*gemv)(std::int64_t m, const float* x, std::int64_t ldx, const Int8Task& task, Part part, ColumnsDone done);
  // The columns of a panel, for the same m, in the order of products of many rows: for Reproducible. Weights are
  // rounded to float or BFloat16. Of task.w, only the group is read; adds no bias.
  void (*gemv_in_order)(std::int64_t m, const float* x, std::int64_t ldx, const Int8Task& task,
                        const BytePanels& panel);
  void (*gemv_in_order_bf16)(std::int64_t m, const float* x, std::int64_t ldx, const Int8Task& task,
                             const BytePanels& panel);
  // Writes the digits of x [k]. Returns false if x is not finite, or if its largest number is more than 256 times the
  // mean of the magnitudes: then small numbers would lose digits. Null without instructions for bytes.
  bool (*digits_of)(std::int64_t k, const float* x, std::int64_t stride, std::int8_t* digits, Int8Row& row);
  // The same for rows of x in digits, and 8 bits. Each group of weights is a full row. Null like digits_of.
  void (*gemv_digits)(std::int64_t m, const Int8Row* x, const Int8Task& task, Part part, ColumnsDone done);
  // Converts rows of weights to out [rows, k], rounded once.
  void (*to_float)(std::int64_t rows, std::int64_t k, const Int8Weights& w, float* out);
  void (*to_bf16)(std::int64_t rows, std::int64_t k, const Int8Weights& w, BFloat16* out);
  ByteKernels bytes;
};

template <class IsaTag, class T>
const Int8Kernels& int8_table();

/// The kernels for this processor.
inline const Int8Kernels& int8_kernels() { return FIT_KERNELS(int8_table, std::int8_t); }

}  // namespace fit::kernels
