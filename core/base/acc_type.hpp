#pragma once
#include <type_traits>

#include "fit/bfloat16.hpp"
#include "fit/shape.hpp"

namespace fit {

/// The accumulate type of T: kernels compute and add up elements of T in it. float for BFloat16, else T.
template <class T>
using AccT = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;
/// The same for a type at run time.
constexpr DType acc_dtype(DType t) { return t == bfloat16 ? float32 : t; }

}  // namespace fit
