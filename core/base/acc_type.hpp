#pragma once
#include <limits>
#include <type_traits>

#include "fit/base/bfloat16.hpp"
#include "fit/base/shape.hpp"

namespace fit {

/// The accumulate type of T, in which kernels compute and sum: float for BFloat16, otherwise T.
template <class T>
using AccT = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;
/// Same for a DType.
constexpr DType acc_dtype(DType t) { return t == bfloat16 ? float32 : t; }
/// Whether kernels compute in a wider type.
template <class T>
inline constexpr bool narrow = !std::is_same_v<T, AccT<T>>;
constexpr bool is_narrow(DType t) { return acc_dtype(t) != t; }

/// The smallest normal number of a floating type. That of bfloat16 is float's.
constexpr double smallest_normal(DType t) {
  return t == float64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
}

}  // namespace fit
