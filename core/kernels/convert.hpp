#pragma once
#include <cstdint>

#include "fit/base/bfloat16.hpp"
#include "kernels/simd/isa.hpp"

// Conversions of contiguous memory between float, double, BFloat16, int64 and bool: the elements of convert() in
// tensor/convert.hpp, bit for bit.
namespace fit::kernels {

template <class To, class From>
using Conversion = void (*)(To* y, const From* x, std::int64_t n);

template <class IsaTag, class To, class From>
Conversion<To, From> conversion();

template <class To, class From>
void convert_run(To* y, const From* x, std::int64_t n) {
  FIT_KERNELS(conversion, To, From)(y, x, n);
}

inline void widen(float* y, const BFloat16* x, std::int64_t n) { convert_run(y, x, n); }
inline void round(BFloat16* y, const float* x, std::int64_t n) { convert_run(y, x, n); }

}  // namespace fit::kernels
