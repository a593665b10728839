#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace fit {

namespace detail {
/// x if it is a float, else of the two floats around it the one whose last bit is 1: rounded again, to fewer bits, it
/// comes out as x itself would.
inline float odd_float(double x) {
  float f = static_cast<float>(x);
  if (static_cast<double>(f) == x || x != x) return f;
  std::uint32_t b;
  std::memcpy(&b, &f, sizeof b);
  if ((x < 0 ? -static_cast<double>(f) : static_cast<double>(f)) > (x < 0 ? -x : x)) --b;  // towards 0
  b |= 1;
  std::memcpy(&f, &b, sizeof f);
  return f;
}
/// The same for a whole number as a double.
inline double odd_double(std::int64_t n) {
  constexpr std::int64_t exact = std::int64_t{1} << 53;
  if (-exact <= n && n <= exact) return static_cast<double>(n);
  return static_cast<double>(n >> 10 | ((n & 1023) != 0)) * 1024;
}
}  // namespace detail

/// A floating number of 16 bits: sign, the 8 bits of float's exponent, and the first 7 of its fraction. It reaches as
/// far as float does (3.4e38) with 2 to 3 decimal digits. Every value is a float, exactly; a number becomes the nearest
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
  /// The nearest to the number itself, which is not rounded to float first.
  explicit BFloat16(double x) : BFloat16(detail::odd_float(x)) {}
  template <class I, class = std::enable_if_t<std::is_integral_v<I>>>
  explicit BFloat16(I n) : BFloat16(detail::odd_double(static_cast<std::int64_t>(n))) {}
  /// The same value, exactly.
  operator float() const {
    const std::uint32_t b = static_cast<std::uint32_t>(bits) << 16;
    float x;
    std::memcpy(&x, &b, sizeof x);
    return x;
  }
};

}  // namespace fit
