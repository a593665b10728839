#pragma once
#include <cstdint>

#include "fit/bfloat16.hpp"
#include "kernels/simd/isa.hpp"

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

struct Int8Kernels {
  // c [m, n] = x w', m up to gemv_max_m. x [m, k] is contiguous; c has row stride ldc. Reads the weights once, without
  // packing, and converts them to float. The sum of each group is multiplied by its scale; rounded by operation.
  void (*gemv)(std::int64_t m, std::int64_t n, std::int64_t k, const float* x, const Int8Weights& w, float* c,
               std::int64_t ldc);
  // Converts rows of weights to out [rows, k], rounded once.
  void (*to_float)(std::int64_t rows, std::int64_t k, const Int8Weights& w, float* out);
  void (*to_bf16)(std::int64_t rows, std::int64_t k, const Int8Weights& w, BFloat16* out);
};

template <class IsaTag, class T>
const Int8Kernels& int8_table();

/// The kernels for this processor.
inline const Int8Kernels& int8_kernels() { return FIT_KERNELS(int8_table, std::int8_t); }

}  // namespace fit::kernels
