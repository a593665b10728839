#pragma once
#include <cstdint>
#include <cstring>

namespace fit {

/// A floating number of 16 bits: sign, the 8 bits of float's exponent, and the first 7 of its fraction. It reaches as
/// far as float does (3.4e38) with 2 to 3 decimal digits. Every value is a float, exactly; a float becomes the nearest
/// BFloat16, of two as near the even one. NaN stays NaN. It computes nothing: operations work in float.
struct BFloat16 {
  std::uint16_t bits;  // the upper half of the float's

  BFloat16() = default;
  explicit BFloat16(float x) {
    std::uint32_t b;
    std::memcpy(&b, &x, sizeof b);
    const bool nan = (b & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(nan ? (b >> 16) | 0x40u : (b + 0x7fffu + (b >> 16 & 1u)) >> 16);
  }
  /// The same value, exactly.
  operator float() const {
    const std::uint32_t b = static_cast<std::uint32_t>(bits) << 16;
    float x;
    std::memcpy(&x, &b, sizeof x);
    return x;
  }
};

}  // namespace fit
