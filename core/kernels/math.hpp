#pragma once
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/simd.hpp"

// Functions on vectors, right everywhere: at infinities, NaN, -0 and denormal numbers. Errors in units in the last
// place, as tests/core/functions_test.cpp checks them (float, double):
//   exp 3, 2   expm1 2, 2   log 1, 1   log1p 1, 1   sin 3, 3   cos 3, 3   tanh 2, 2   erf 3, 1   sigmoid 3, 3
// normal_cdf: 2e-7, 1e-15 absolute. What is not defined here is xsimd's.
namespace fit::kernels::math {

template <class V>
using Element = typename V::value_type;

template <class V>
inline constexpr bool is_float = std::is_same_v<Element<V>, float>;

// The numbers low … high nearest to x; NaN stays. (The vector min and max give their second operand if one is NaN.)
template <class V>
inline V clamp(const V& x, Element<V> low, Element<V> high) {
  return xsimd::min(V(high), xsimd::max(V(low), x));
}

template <class V>
inline V exp(const V& x) {
  // xsimd's gives infinity and zero a little before the result leaves the range: there e^x = (e^(x/2))^2.
  const V y = xsimd::exp(x);
  const auto far = xsimd::abs(x) > V(is_float<V> ? 87 : 708);
  if (!xsimd::any(far)) return y;
  const V half = xsimd::exp(V(0.5) * x);
  return xsimd::select(far, half * half, y);
}

template <class V>
inline V log(const V& x) {
  const V y = xsimd::log(x);
  if constexpr (!is_float<V>) {
    // xsimd's is wrong for denormal doubles: ln x = ln(2^54 x) - 54 ln 2.
    const auto denormal = x > V(0.) && x < V(std::numeric_limits<double>::min());
    if (xsimd::any(denormal)) {
      const V scaled = xsimd::log(x * V(0x1p54)) - V(37.42994775023704670);
      return xsimd::select(denormal, scaled, y);
    }
  }
  return y;
}

// c0 + c1 t + c2 t^2 + …
template <class V, class... C>
inline V polynomial(const V& t, Element<V> c0, C... rest) {
  if constexpr (sizeof...(rest) == 0)
    return V(c0);
  else
    return xsimd::fma(polynomial(t, static_cast<Element<V>>(rest)...), t, V(c0));
}

// f lane by lane, where there is no good vector form.
template <class V, class F>
inline V each_lane(const V& x, const F& f) {
  alignas(64) Element<V> lane[V::size];
  x.store_aligned(lane);
  for (auto& v : lane) v = f(v);
  return V::load_aligned(lane);
}

template <class V>
inline V erf(const V& x) {
  if constexpr (is_float<V>)
    return xsimd::erf(x);
  else
    return each_lane(x, [](double v) { return ::erf(v); });  // xsimd's is off by 70 units for double
}

template <class V>
inline V sigmoid(const V& x) {
  // Only e to the power of what is negative is taken, so nothing overflows.
  const V z = math::exp(-xsimd::abs(x));
  return xsimd::select(x < V(0), z, V(1)) / (V(1) + z);
}

// The normal distribution, Phi(x) = (1 + erf(x / sqrt 2)) / 2, exact also far below 0.
template <class V>
inline V normal_cdf(const V& x) {
  if constexpr (is_float<V>) {
    // Phi(-a) = e^(-a^2 / 2) p(1 / (1 + 0.3 a)), after Abramowitz & Stegun 7.1.26, with a minimax fit p (error 6e-8).
    const V a = xsimd::abs(x), t = V(1) / (V(1) + V(0.3f) * a);
    const V p = polynomial(t, 7.339106093795511e-06f, 0.11948478255131656f, 0.12194117607253756f, 0.09460192614414835f,
                           0.1427274451666436f, -0.07678473895119303f, 0.22890364234856486f, -0.16928413522941427f,
                           0.03840259184325136f);
    const V tail = math::exp(V(-0.5f) * a * a) * p;
    return xsimd::select(x < V(0), tail, V(1) - tail);
  } else {
    return each_lane(x, [](double v) { return 0.5 * ::erfc(v * -0.70710678118654752440); });
  }
}

}  // namespace fit::kernels::math
