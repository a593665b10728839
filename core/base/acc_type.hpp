#pragma once
#include <type_traits>

#include "fit/base/bfloat16.hpp"
#include "fit/base/shape.hpp"

namespace fit {

/// The accumulate type of T, in which kernels compute and sum: float for BFloat16, otherwise T.
template <class T>
using AccT = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;
/// Same for a DType.
constexpr DType acc_dtype(DType t) { return t == bfloat16 ? float32 : t; }

}  // namespace fit
