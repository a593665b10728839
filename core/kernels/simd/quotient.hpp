#pragma once
#include <cmath>
#include <limits>

#include "kernels/simd/simd.hpp"

// The rest and the whole part of a quotient.
namespace fit::kernels::math {
inline namespace FIT_ISA_NAMESPACE {

// C's fmod, lane by lane.
template <class V>
V fmod_of_lanes(const V& x, const V& y) {
  using T = typename V::value_type;
  alignas(64) T a[V::size], b[V::size];
  x.store_aligned(a);
  y.store_aligned(b);
  for (std::size_t i = 0; i < V::size; ++i) a[i] = std::fmod(a[i], b[i]);
  return V::load_aligned(a);
}

// x - n y for the whole number n of x / y, towards 0. It has the sign of x, and is exact: the quotient may be rounded
// up to the next n at most, and the rest by that n is a number, too, which has the other sign.
template <class V>
V fmod(const V& x, const V& y) {
  using T = typename V::value_type;
  const V q = x / y, size = xsimd::abs(y);
  const auto plain =
      xsimd::abs(q) < V(1 / std::numeric_limits<T>::epsilon() / 2) && size <= V(std::numeric_limits<T>::max());
  if (!xsimd::all(plain)) return fmod_of_lanes(x, y);
  const V r = xsimd::fnma(xsimd::trunc(q), y, x), zero(T(0));
  const auto beyond = (x < zero && r > zero) || (x > zero && r < zero);
  return xsimd::copysign(xsimd::select(beyond, size - xsimd::abs(r), r), x);
}

// Whether the rest of x / y has another sign than y, and is not 0.
template <class V>
auto is_below(const V& rest, const V& y) {
  const V zero(typename V::value_type(0));
  return (rest < zero && y > zero) || (rest > zero && y < zero);
}

// Python's %: the rest with the sign of y.
template <class V>
V remainder(const V& x, const V& y) {
  const V rest = math::fmod(x, y);
  return xsimd::select(is_below(rest, y), rest + y, rest);
}

// Python's //, from the rest, which is exact: x / y may round up to the next whole number.
template <class V>
V floor_divide(const V& x, const V& y) {
  using T = typename V::value_type;
  const V rest = math::fmod(x, y), q = x / y, zero(T(0));
  const V near = (x - rest) / y - xsimd::select(is_below(rest, y), V(T(1)), zero);  // whole, but for rounding
  const V whole = xsimd::select(near == zero, xsimd::copysign(zero, q), xsimd::nearbyint(near));
  return xsimd::select(y == zero, q, whole);
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels::math
