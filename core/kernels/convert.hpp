#pragma once
#include <cstdint>

#include "fit/base/bfloat16.hpp"
#include "kernels/simd/isa.hpp"

// Conversions between BFloat16 and float in contiguous memory. They use integer operations only, so every instruction
// set gives the bits of BFloat16's own conversions. Widening is exact.
namespace fit::kernels {

template <class T>
struct ConvertKernels {
  void (*widen)(float* y, const T* x, std::int64_t n);
  void (*round)(T* y, const float* x, std::int64_t n);
};

template <class IsaTag, class T>
const ConvertKernels<T>& convert_table();

inline void widen(float* y, const BFloat16* x, std::int64_t n) { FIT_KERNELS(convert_table, BFloat16).widen(y, x, n); }
inline void round(BFloat16* y, const float* x, std::int64_t n) { FIT_KERNELS(convert_table, BFloat16).round(y, x, n); }

}  // namespace fit::kernels
