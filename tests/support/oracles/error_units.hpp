#pragma once
#include <cstdint>
#include <type_traits>

// Errors in units in the last place (ulp) of the exact number.
namespace fit::test {

/// The type of exact numbers for T.
template <class T>
using Exact = std::conditional_t<sizeof(T) == 4, double, long double>;

/// The largest error so far: where, what was computed, and what is exact.
struct WorstUnits {
  double units = 0, at = 0, got = 0, want = 0;
};

/// Which numbers count: all, or those that are exactly normal numbers of T.
enum class Range { all, normal };

/// Sets `worst` to the largest error of got[i] against want[i], i < n, if that is larger. Infinity stands for the power
/// of two that follows the largest number. The error is infinite if only one of the two is NaN.
template <class T>
void keep_worst(const T* x, const T* got, const Exact<T>* want, std::int64_t n, Range range, WorstUnits& worst);

}  // namespace fit::test
