#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

// The bits of a float16: 1 sign, 5 exponent and 10 fraction bits.
namespace fit::io {

inline float half_to_float(std::uint16_t h) {
  const std::uint32_t sign = std::uint32_t{h & 0x8000u} << 16, exponent = h >> 10 & 0x1F, fraction = h & 0x3FFu;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
    const float f = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -f : f;
  }
  const std::uint32_t bits = sign | (exponent == 31 ? 0xFFu : exponent + 112) << 23 | fraction << 13;
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

/// Rounds to the nearest float16, ties to even.
inline std::uint16_t float_to_half(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const std::uint32_t sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);   // NaN
  if (size >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 2^16 and more
  if (size < 0x38800000u)                                                      // below 2^-14: a multiple of 2^-24
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(std::lrint(std::abs(x) * 0x1p24f)));
  return static_cast<std::uint16_t>(sign | (size - (112u << 23) + 0xfffu + (size >> 13 & 1u)) >> 13);
}

}  // namespace fit::io
