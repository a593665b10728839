#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/acc_type.hpp"

namespace fit {

/// Whether elements of type T are floating.
template <class T>
inline constexpr bool is_floating_element = std::is_floating_point_v<T> || std::is_same_v<T, BFloat16>;

/// Converts a number to another element type, always with a defined result. To boolean: v != 0 (NaN is true). From a
/// floating type to int64: the fraction is removed, values beyond int64 become its maximum or minimum, and NaN becomes
/// 0. To int8: the same, also from integers.
template <class To, class From>
To convert(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != 0;
  } else if constexpr (std::is_same_v<From, BFloat16>) {
    return convert<To>(static_cast<float>(v));
  } else if constexpr (std::is_same_v<To, std::int8_t>) {
    using Limits = std::numeric_limits<std::int8_t>;
    const auto whole = convert<std::int64_t>(v);
    return static_cast<To>(whole < Limits::min() ? Limits::min() : whole > Limits::max() ? Limits::max() : whole);
  } else if constexpr (std::is_same_v<To, std::int64_t> && std::is_floating_point_v<From>) {
    using Limits = std::numeric_limits<std::int64_t>;
    constexpr From end = 0x1p63;
    if (v >= end) return Limits::max();
    if (v < -end) return Limits::min();
    return std::isnan(v) ? 0 : static_cast<std::int64_t>(v);
  } else {
    return static_cast<To>(v);
  }
}

}  // namespace fit
