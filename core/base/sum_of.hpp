#pragma once
#include <type_traits>

#include "fit/bfloat16.hpp"

namespace fit::kernels {

// What products of T are added up in, and what scores, factors and statistics are made of.
template <class T>
using SumOf = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;

}  // namespace fit::kernels
