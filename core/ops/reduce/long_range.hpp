#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace fit {

/// A number with a double's fraction and an exponent of 64 bits: products neither overflow nor underflow on the way.
/// Rounds as double does.
class LongRange {
 public:
  LongRange(double v) : fraction_(v) {
    if (v == 0 || !std::isfinite(v)) return;
    int e = 0;
    fraction_ = std::frexp(v, &e);
    exponent_ = e;
  }
  explicit operator double() const {
    return std::ldexp(fraction_, static_cast<int>(std::clamp<std::int64_t>(exponent_, -4096, 4096)));
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
    const auto shift = static_cast<int>(std::max<std::int64_t>(b.exponent_ - a.exponent_, -4096));
    LongRange z(a.fraction_ + std::ldexp(b.fraction_, shift));
    if (z.fraction_ != 0) z.exponent_ += a.exponent_;
    return z;
  }

 private:
  double fraction_;  // in ±[0.5, 1), 0, infinite or NaN
  std::int64_t exponent_ = 0;
};

}  // namespace fit
