#pragma once
#include <cstdint>

#include "fit/base/bfloat16.hpp"
#include "kernels/simd/isa.hpp"
#include "matmul/gemm_kernels.hpp"

// The kernels of matmul with int8 weights. gemm_int8.hpp splits the work among threads.
namespace fit::kernels {

// Weights [n, k] with row stride ld: element (j, l) is scales[j groups + l / group] data[j ld + l], where groups =
// ceil(k / group). A group is a full row (group >= k), or 32, 64 or 128 neighbours in a row.
struct Int8Weights {
  Int8Weights() {}
  const std::int8_t* data = nullptr;
  const float* scales = nullptr;
  std::int64_t ld = 0, group = 0;
  std::int64_t groups(std::int64_t k) const { return (k + group - 1) / group; }
};

// c [m, n] = x w' + bias; bias is [n], or null.
struct Int8Task {
  std::int64_t n, k;
  Int8Weights w;
  const float* bias;
  float* c;
  std::int64_t ldc;
};

// A row of x in whole numbers: digit i of number l is digits[i stride + l]. See gemv_int8.hpp.
struct Int8Row {
  const std::int8_t* digits;
  std::int64_t stride;
  double unit, middle;
};
constexpr int int8_digits = 4;
constexpr std::int64_t int8_step = 64;  // the stride is a multiple

struct Int8Kernels {
  // A part of the columns, for m up to gemv_max_m; x has row stride ldx. Reads the weights once, without packing, and
  // converts them to float. The sum of each group is multiplied by its scale; rounded by operation.
  void (*gemv)(std::int64_t m, const float* x, std::int64_t ldx, const Int8Task& task, Part part, ColumnsDone done);
  // Writes the digits of x [k]. Returns false if x is not finite, or if its largest number is more than 256 times the
  // mean of the magnitudes: then small numbers would lose digits. Null without instructions for bytes.
  bool (*digits_of)(std::int64_t k, const float* x, std::int64_t stride, std::int8_t* digits, Int8Row& row);
  // The same for rows of x in digits. Each group of weights is a full row. Null like digits_of.
  void (*gemv_digits)(std::int64_t m, const Int8Row* x, const Int8Task& task, Part part, ColumnsDone done);
  // Converts rows of weights to out [rows, k], rounded once.
  void (*to_float)(std::int64_t rows, std::int64_t k, const Int8Weights& w, float* out);
  void (*to_bf16)(std::int64_t rows, std::int64_t k, const Int8Weights& w, BFloat16* out);
};

template <class IsaTag, class T>
const Int8Kernels& int8_table();

/// The kernels for this processor.
inline const Int8Kernels& int8_kernels() { return FIT_KERNELS(int8_table, std::int8_t); }

}  // namespace fit::kernels
