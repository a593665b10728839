#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/simd/simd.hpp"

// x^e on vectors, with all special cases of C's pow; 1 unit in the last place. For *.simd.cpp files only.
namespace fit::kernels::math {
inline namespace FIT_ISA_NAMESPACE {

// Compiler vectors, which convert between types.
constexpr int doubles = sizeof(Vec<double>) / sizeof(double);
typedef double Doubles __attribute__((vector_size(doubles * sizeof(double))));
typedef std::uint64_t DoubleBits __attribute__((vector_size(doubles * sizeof(double))));
typedef float HalfFloats __attribute__((vector_size(doubles * sizeof(float))));

// The nearest integer, for |x| up to 2^51.
inline Doubles nearest(const Doubles& x) { return (x + 0x1.8p52) - 0x1.8p52; }

// c[0] + c[1] t + c[2] t^2 + …
template <int N>
inline Doubles series(const Doubles& t, const double (&c)[N]) {
  Vec<double> x, p(c[N - 1]);
  __builtin_memcpy(&x, &t, sizeof x);
  for (int i = N - 2; i >= 0; --i) p = xsimd::fma(p, x, Vec<double>(c[i]));
  Doubles sum;
  __builtin_memcpy(&sum, &p, sizeof sum);
  return sum;
}

// log2 a for a > 0, finite and normal. With a = 2^k m and m near 1, log2 m is an odd function of (m - 1) / (m + 1),
// computed by a minimax fit (relative error 3e-14).
inline Doubles log2_of(const Doubles& a) {
  constexpr std::uint64_t root_half = 0x3fe6a09e667f3bcd, two_52 = 0x4330000000000000;
  constexpr double c[] = {2.88539008177785,    0.9617966941134005, 0.5770779423468428,
                          0.41220925432246486, 0.3199056120068346, 0.28290144493216884};
  const DoubleBits k = ((DoubleBits)a + (0x3ff0000000000000 - root_half)) >> 52;  // with the bias of 1023
  const Doubles m = (Doubles)((DoubleBits)a - ((k - 1023) << 52)), s = (m - 1) / (m + 1);
  return ((Doubles)(k | two_52) - (0x1p52 + 1023)) + s * series(s * s, c);
}

// 2^t for |t| <= 1000: a minimax fit for the fraction in -1/2 … 1/2 (relative error 8e-13).
inline Doubles exp2_of(const Doubles& t) {
  constexpr double c[] = {0.9999999999997624,    0.6931471805465143,    0.24022650698879927,
                          0.05550410939342075,   0.009618128542962722,  0.0013333452061766655,
                          0.0001540385167825075, 1.530973755616362e-05, 1.3175873074298738e-06};
  const Doubles n = t + 0x1.8p52;  // its last bits are t as an integer
  return (Doubles)((DoubleBits)series(t - (n - 0x1.8p52), c) + ((DoubleBits)n << 52));
}

// 2^(e log2 |x|) for doubles converted from float; much more accurate than float.
inline Doubles pow_of(const Doubles& x, const Doubles& e) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Doubles a = (Doubles)((DoubleBits)x & 0x7fffffffffffffff);
  const Doubles size = (Doubles)((DoubleBits)e & 0x7fffffffffffffff);
  const Doubles log = a == 0 ? -infinity : a < infinity ? log2_of(a) : a;
  // 1 where e * log would be 0 times infinity or NaN: x^0, 1^e, (-1)^infinity.
  const Doubles t = ((e == 0) | (x == 1) | ((a == 1) & (size == infinity))) ? 0. : e * log;
  const Doubles y = exp2_of(t < -300 ? -300. : t > 300 ? 300. : t);
  // Every float above 2^25 is even.
  const Doubles near = size > 0x1p25 ? 0x1p25 : e, half = near * 0.5;
  const auto is_integer = nearest(near) == near, odd = is_integer & (nearest(half) != half);
  const auto negative = (DoubleBits)x >> 63 != 0;
  const Doubles signed_y = (negative & odd) ? -y : y;
  return (negative & ~is_integer & (a > 0) & (a < infinity)) ? std::numeric_limits<double>::quiet_NaN() : signed_y;
}

template <class V>
inline V pow(const V& x, const V& e) {
  using T = typename V::value_type;
  alignas(64) T base[V::size], exponent[V::size];
  x.store_aligned(base);
  e.store_aligned(exponent);
  if constexpr (sizeof(T) == 4) {
    for (std::size_t i = 0; i < V::size; i += doubles) {
      HalfFloats b, p;
      __builtin_memcpy(&b, base + i, sizeof b);
      __builtin_memcpy(&p, exponent + i, sizeof p);
      b = __builtin_convertvector(pow_of(__builtin_convertvector(b, Doubles), __builtin_convertvector(p, Doubles)),
                                  HalfFloats);
      __builtin_memcpy(base + i, &b, sizeof b);
    }
  } else {
    for (std::size_t i = 0; i < V::size; ++i) base[i] = ::pow(base[i], exponent[i]);
  }
  return V::load_aligned(base);
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels::math
