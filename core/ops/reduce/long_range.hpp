#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace fit {

/// v 2^e for |v| in [0.5, 1). A result in double's normal range needs no call.
inline double times_power_of_two(double v, std::int64_t e) {
  if (e < -1021 || e > 1023) return std::ldexp(v, static_cast<int>(std::clamp<std::int64_t>(e, -4096, 4096)));
  const std::int64_t bits = (e + 1023) << 52;
  double power;
  std::memcpy(&power, &bits, sizeof power);
  return v * power;
}

/// A number with a double's fraction and an exponent of 64 bits: products neither overflow nor underflow on the way.
/// Rounds as double does.
class LongRange {
 public:
  LongRange(double v) : fraction_(v) {
    constexpr std::int64_t exponents = 0x7ff, one_half = 1022;
    std::int64_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    const std::int64_t e = bits >> 52 & exponents;
    if (e == 0 && v != 0) {  // denormal
      int shift = 0;
      fraction_ = std::frexp(v, &shift);
      exponent_ = shift;
    } else if (e != 0 && e != exponents) {
      bits += (one_half - e) * (std::int64_t{1} << 52);
      std::memcpy(&fraction_, &bits, sizeof bits);
      exponent_ = e - one_half;
    }
  }
  explicit operator double() const { return times_power_of_two(fraction_, exponent_); }
  explicit operator float() const {  // below half of the least number: 0, without slow operations on denormal doubles
    return static_cast<float>(exponent_ < -149 ? std::copysign(0., fraction_) : static_cast<double>(*this));
  }
  friend LongRange operator*(const LongRange& a, const LongRange& b) {
    LongRange z(a.fraction_ * b.fraction_);
    if (z.fraction_ != 0) z.exponent_ += a.exponent_ + b.exponent_;
    return z;
  }
  friend LongRange operator+(const LongRange& a, const LongRange& b) {
    if (a.fraction_ == 0) return b;
    if (b.fraction_ == 0) return a;
    if (a.exponent_ < b.exponent_) return b + a;
    LongRange z(a.fraction_ + times_power_of_two(b.fraction_, b.exponent_ - a.exponent_));
    if (z.fraction_ != 0) z.exponent_ += a.exponent_;
    return z;
  }

 private:
  double fraction_;  // in ±[0.5, 1), 0, infinite or NaN
  std::int64_t exponent_ = 0;
};

}  // namespace fit
