#pragma once
#include <cmath>
#include <cstdint>

#include "fit/base/bfloat16.hpp"
#include "kernels/simd/isa.hpp"
#include "kernels/simd/reference.hpp"

// Reductions of float and double, accumulated in double. Rounded by operation in double, with at least 4 chains of
// additions; e^x 2 units in the last place; max, min and find are exact.
namespace fit::kernels {

/// Reference implementations: they reduce n numbers x, starting with the accumulator a. Some ignore the centre c.
namespace reference {

/// a + x[0] + … + x[n - 1]
template <class N>
N sum(const N& a, const N* x, std::int64_t n, const N&) {
  return sum_of<N>(n + 1, [&](std::int64_t i) { return i == 0 ? a : x[i - 1]; });
}

/// a + sum((x - c)^2)
template <class N>
N squares(const N& a, const N* x, std::int64_t n, const N& c) {
  return sum_of<N>(n + 1, [&](std::int64_t i) { return i == 0 ? a : (x[i - 1] - c) * (x[i - 1] - c); });
}

/// a + sum(e^(x - c))
template <class N>
N exps(const N& a, const N* x, std::int64_t n, const N& c) {
  using std::exp;
  return sum_of<N>(n + 1, [&](std::int64_t i) { return i == 0 ? a : exp(x[i - 1] - c); });
}

/// a x[0] … x[n - 1]
template <class N>
N prod(const N& a, const N* x, std::int64_t n, const N&) {
  N p = a;
  for (std::int64_t i = 0; i < n; ++i) p = p * x[i];
  return p;
}

/// Maximum of a and x; NaN if there is one.
template <class N>
N max(const N& a, const N* x, std::int64_t n, const N&) {
  using std::isnan;
  N m = a;
  for (std::int64_t i = 0; i < n; ++i)
    if (!isnan(m) && (isnan(x[i]) || m < x[i])) m = x[i];
  return m;
}

/// Minimum of a and x; NaN if there is one.
template <class N>
N min(const N& a, const N* x, std::int64_t n, const N&) {
  using std::isnan;
  N m = a;
  for (std::int64_t i = 0; i < n; ++i)
    if (!isnan(m) && (isnan(x[i]) || x[i] < m)) m = x[i];
  return m;
}

/// Index of the first element equal to `value` or NaN; n if there is none.
template <class N>
std::int64_t find(const N* x, std::int64_t n, const N& value) {
  using std::isnan;
  std::int64_t i = 0;
  while (i < n && !(x[i] == value) && !isnan(x[i])) ++i;
  return i;
}

}  // namespace reference

// The block is contiguous along one axis: rs = 1 (rows), or ks = 1 (columns; also if reduced = 1). A null centre is 0.
template <class T>
using Fold = void (*)(double* acc, const T* x, const double* centre, std::int64_t kept, std::int64_t ks,
                      std::int64_t reduced, std::int64_t rs);

template <class T>
struct Reduce {
  Fold<T> sum;      // x
  Fold<T> squares;  // (x - centre)^2
  Fold<T> exps;     // e^(x - centre)
  Fold<T> prod;     // product of x
  Fold<T> max;      // NaN wins
  Fold<T> min;
  // Index of the first element equal to `value` or NaN; n if there is none.
  std::int64_t (*find)(const T* x, std::int64_t n, T value);
};

template <class IsaTag, class T>
const Reduce<T>& reduce_table();

/// acc[k] += the sum of the elements of output k, for T = int64 or bool; it wraps around.
template <class T>
using IntegerSum = void (*)(std::int64_t* acc, const T* x, std::int64_t kept, std::int64_t ks, std::int64_t reduced,
                            std::int64_t rs);
template <class IsaTag, class T>
IntegerSum<T> integer_sum();
/// Reduce<T>::sum, also for BFloat16.
template <class IsaTag, class T>
Fold<T> floating_sum();

template <class T>
const Reduce<T>& reduce() {
  return FIT_KERNELS(reduce_table, T);
}

}  // namespace fit::kernels
