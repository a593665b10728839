#pragma once
#include "base/acc_type.hpp"
#include "kernels/simd/pack.hpp"

// Scaled copies and dot products of rows; those of BFloat16 are computed in float. For *.simd.cpp files.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// Whether no lane is NaN.
template <class V>
inline bool no_nan(const V& v) {
  return !xsimd::any(xsimd::isnan(v));
}

template <class X, class Y, class W = AccT<X>>
inline Vec<W> copy_row(const X* x, W factor, std::int64_t n, Y* to) {
  using V = Vec<W>;
  const V f(factor), zero(W(0));  // x times 0 is 0 or NaN
  V sum(W(0));
  for_each_vector<V>(n, [&](std::int64_t c, auto access) {
    const V y = access.template load<V>(x + c, X(0.f)) * f;
    access.store(y, to + c);
    sum = xsimd::fma(y, zero, sum);
  });
  return sum;
}

// to = factor x. Returns a register of zeros, with a NaN if a number is not finite.
template <class X, class Y, class W = AccT<X>>
FIT_ONE_COPY Vec<W> copy_scaled(const X* x, W factor, std::int64_t n, Y* to) {
  return copy_row(x, factor, n, to);
}

// The same for a matrix [rows, cols]: row r times factors[r factor_step]. Returns whether all numbers are finite.
template <class T, class W = AccT<T>>
FIT_ONE_COPY bool copy_rows(std::int64_t rows, std::int64_t cols, const W* factors, std::int64_t factor_step,
                            const W* x, std::int64_t x_row, T* to, std::int64_t to_row) {
  Vec<W> zero(W(0));
  for (std::int64_t r = 0; r < rows; ++r)
    zero = zero + copy_row(x + r * x_row, factors[r * factor_step], cols, to + r * to_row);
  return no_nan(zero);
}
template <class T, class W = AccT<T>>
bool copy_finite(std::int64_t rows, std::int64_t cols, W factor, const W* x, std::int64_t x_row, T* to,
                 std::int64_t to_row) {
  return copy_rows(rows, cols, &factor, 0, x, x_row, to, to_row);
}

// dots[r] = sum over c of x[r, c] y[r, c]
template <class T, class W = AccT<T>>
FIT_ONE_COPY void row_dots(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t x_row, const T* y,
                           std::int64_t y_row, W* dots) {
  using V = Vec<W>;
  for (std::int64_t r = 0; r < rows; ++r, x += x_row, y += y_row) {
    Accumulators<W, 1> sum(W(0));
    accumulate<W, 1>(cols, [&](std::int64_t c, auto access, int j) {
      sum[j] = fma(access.template load<V>(x + c, T(0.f)), access.template load<V>(y + c, T(0.f)), sum[j]);
    });
    dots[r] = sum.sum();
  }
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
