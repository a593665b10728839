#pragma once
#include <cstdint>
#include <type_traits>

namespace fit {

namespace detail {
/// Rounds x to odd: x itself if it is a float; otherwise the one of its two float neighbours with 1 as the last bit.
/// Rounding the result to fewer bits then gives the same as rounding x directly.
inline float odd_float(double x) {
  const float f = static_cast<float>(x);
  if (static_cast<double>(f) == x || x != x) return f;
  auto b = __builtin_bit_cast(std::uint32_t, f);                                           // std::bit_cast of C++20
  if ((x < 0 ? -static_cast<double>(f) : static_cast<double>(f)) > (x < 0 ? -x : x)) --b;  // towards 0
  return __builtin_bit_cast(float, b | 1);
}
/// Same for an integer, as a double.
inline double odd_double(std::int64_t n) {
  constexpr std::int64_t exact = std::int64_t{1} << 53;
  if (-exact <= n && n <= exact) return static_cast<double>(n);
  return static_cast<double>(n >> 10 | ((n & 1023) != 0)) * 1024;
}
}  // namespace detail

/// A floating-point number of 16 bits: sign, float's 8 exponent bits, and the first 7 bits of its fraction. It has the
/// range of float (3.4e38) and 2 to 3 decimal digits. Every value is exactly a float. Conversion rounds to nearest,
/// ties to even. NaN stays NaN. It has no arithmetic: operations compute in float.
struct BFloat16 {
  std::uint16_t bits;  // the upper half of the float's bits

  BFloat16() = default;
  explicit BFloat16(float x) {
    const auto b = __builtin_bit_cast(std::uint32_t, x);
    const bool nan = (b & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(nan ? (b >> 16) | 0x40u : (b + 0x7fffu + (b >> 16 & 1u)) >> 16);
  }
  /// Rounds a double to the nearest BFloat16 directly, without rounding to float first.
  explicit BFloat16(double x) : BFloat16(detail::odd_float(x)) {}
  template <class I, class = std::enable_if_t<std::is_integral_v<I>>>
  explicit BFloat16(I n) : BFloat16(detail::odd_double(static_cast<std::int64_t>(n))) {}
  /// Exact.
  operator float() const { return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16); }
};

}  // namespace fit
