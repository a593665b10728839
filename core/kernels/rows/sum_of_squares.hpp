#pragma once
#include <cstdint>

#include "kernels/simd/isa.hpp"

namespace fit::kernels {

/// The sum of squares in double, with 16 chains of additions, in an order that depends on n only.
template <class T>
using SumOfSquares = double (*)(const T* x, std::int64_t n);
template <class IsaTag, class T>
SumOfSquares<T> sum_of_squares_of();

template <class T>
SumOfSquares<T> sum_of_squares() {
  return FIT_KERNELS(sum_of_squares_of, T);
}

}  // namespace fit::kernels
