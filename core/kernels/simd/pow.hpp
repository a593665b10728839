#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/simd/simd.hpp"

// x^e on vectors, with all special cases of C's pow; 1 unit in the last place. The C library's pow() has other last
// digits in each version. For *.simd.cpp files only.
namespace fit::kernels::math {
inline namespace FIT_ISA_NAMESPACE {

// Compiler vectors, which convert between types.
constexpr int doubles = sizeof(Vec<double>) / sizeof(double);
typedef double Doubles __attribute__((vector_size(doubles * sizeof(double))));
typedef std::uint64_t DoubleBits __attribute__((vector_size(doubles * sizeof(double))));
typedef float HalfFloats __attribute__((vector_size(doubles * sizeof(float))));

// x y + z, rounded once.
inline Doubles fused_doubles(const Doubles& x, const Doubles& y, const Doubles& z) {
  Vec<double> a, b, c;
  __builtin_memcpy(&a, &x, sizeof a), __builtin_memcpy(&b, &y, sizeof b), __builtin_memcpy(&c, &z, sizeof c);
  a = xsimd::fma(a, b, c);
  Doubles sum;
  __builtin_memcpy(&sum, &a, sizeof sum);
  return sum;
}

// c[0] + c[1] t + c[2] t^2 + …
template <int N>
inline Doubles series(const Doubles& t, const double (&c)[N]) {
  Doubles p = c[N - 1] + Doubles{};
  for (int i = N - 2; i >= 0; --i) p = fused_doubles(p, t, c[i] + Doubles{});
  return p;
}

// a = 2^exponent m with m near 1, for a > 0, finite and normal.
struct Split {
  explicit Split(const Doubles& a) {
    constexpr std::uint64_t root_half = 0x3fe6a09e667f3bcd, two_52 = 0x4330000000000000;
    const DoubleBits k = ((DoubleBits)a + (0x3ff0000000000000 - root_half)) >> 52;  // with the bias of 1023
    exponent = (Doubles)(k | two_52) - (0x1p52 + 1023);
    m = (Doubles)((DoubleBits)a - ((k - 1023) << 52));
  }
  Doubles exponent, m;
};

// log2 a. log2 m is an odd function of (m - 1) / (m + 1), computed by a minimax fit (relative error 3e-14).
inline Doubles log2_of(const Doubles& a) {
  constexpr double c[] = {2.88539008177785,    0.9617966941134005, 0.5770779423468428,
                          0.41220925432246486, 0.3199056120068346, 0.28290144493216884};
  const Split x(a);
  const Doubles s = (x.m - 1) / (x.m + 1);
  return x.exponent + s * series(s * s, c);
}

// 2^t for |t| <= 1000: a minimax fit for the fraction in -1/2 … 1/2 (relative error 8e-13).
inline Doubles exp2_of(const Doubles& t) {
  constexpr double c[] = {0.9999999999997624,    0.6931471805465143,    0.24022650698879927,
                          0.05550410939342075,   0.009618128542962722,  0.0013333452061766655,
                          0.0001540385167825075, 1.530973755616362e-05, 1.3175873074298738e-06};
  const Doubles n = t + 0x1.8p52;  // its last bits are t as an integer
  return (Doubles)((DoubleBits)series(t - (n - 0x1.8p52), c) + ((DoubleBits)n << 52));
}

// A number with twice the digits: high + low.
struct TwoDoubles {
  Doubles high, low;
};
inline TwoDoubles product(const TwoDoubles& x, const TwoDoubles& y) {
  const Doubles p = x.high * y.high;
  return {p, fused_doubles(x.high, y.high, -p) + (x.high * y.low + x.low * y.high)};
}
// For |x| >= |y|, or x = 0.
inline TwoDoubles sum(const TwoDoubles& x, const TwoDoubles& y) {
  const Doubles s = x.high + y.high;
  return {s, (x.high - s) + y.high + (x.low + y.low)};
}

// log2 a + n, with a relative error of 2^-64: s A + s^3 (A / 3 + s^2 f(s^2)) with A = 2 / ln 2, and f by a minimax fit
// (relative error 3e-20).
inline TwoDoubles long_log2_of(const Doubles& a, const Doubles& n) {
  constexpr double c[] = {0.5770780163555853,  0.4121985831111323,  0.3205988979754155,
                          0.26230818922113863, 0.22195308867765953, 0.19235880545936873,
                          0.16975933300475415, 0.15085062147328382, 0.15528951812251857};
  const Doubles zero{};
  const Split x(a);
  const Doubles u = x.m - 1, v = x.m + 1, v_low = x.m - (v - 1), q = u / v;
  const TwoDoubles s{q, (fused_doubles(-q, v, u) - q * v_low) / v}, square = product(s, s);
  const TwoDoubles rest =
      sum({zero + 0.9617966939259756, zero + 5.0577616648125907e-17}, {square.high * series(square.high, c), zero});
  const TwoDoubles linear = product(s, {zero + 2.8853900817779268, zero + 4.0710547481862066e-17});
  return sum({x.exponent + n, zero}, sum(linear, product(product(s, square), rest)));
}

// 2^t for |t| <= 1100: 1 + f ln 2 + f^2 g(f) for the fraction f in -1/2 … 1/2, and g by a minimax fit (relative error
// 3e-18).
inline Doubles exp2_of(const TwoDoubles& t) {
  constexpr double c[] = {0.24022650695910072,   0.0555041086648216,     0.009618129107628466,  0.001333355814641678,
                          0.0001540353039341438, 1.5252733830103841e-05, 1.321548676003282e-06, 1.0178062279649616e-07,
                          7.054919457625766e-09, 4.4549942894991816e-10, 2.5694034812660164e-11};
  const Doubles zero{}, n = (t.high + 0x1.8p52) - 0x1.8p52, f = (t.high - n) + t.low;
  const TwoDoubles linear = product({f, zero}, {zero + 0.6931471805599453, zero + 2.3190468138462996e-17});
  const TwoDoubles all = sum({zero + 1, zero}, {linear.high, linear.low + f * f * series(f, c)});
  // 2^n in two parts: the result may be denormal, or 2^1024 times a half.
  const Doubles half = (n * 0.5 + 0x1.8p52) - 0x1.8p52;
  const auto power = [](const Doubles& k) { return (Doubles)((DoubleBits)(k + (0x1.8p52 + 1023)) << 52); };
  return (all.high + all.low) * power(half) * power(n - half);
}

inline auto is_integer(const Doubles& size) { return (size >= 0x1p52) | ((size + 0x1p52) - 0x1p52 == size); }

// x^e by `power`, for a = |x| and e: 2^(e log2 a) where a is neither 0 nor infinite.
template <class Power>
inline Doubles pow_by(const Power& power, const Doubles& x, const Doubles& e) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Doubles zero{}, a = (Doubles)((DoubleBits)x & 0x7fffffffffffffff);
  const Doubles size = (Doubles)((DoubleBits)e & 0x7fffffffffffffff);
  const auto ordinary = (a > 0) & (a < infinity) & (size < infinity);
  const Doubles log = a == 0 ? zero - infinity : a == infinity ? a : a - 1;  // its sign and NaN; infinite for 0
  const Doubles limit = e * log;
  const Doubles end = limit > 0 ? zero + infinity : limit < 0 ? zero : limit;
  Doubles y = ordinary ? power(a, e) : end;
  // Also where e * log would be 0 times infinity or NaN: x^0, 1^e, (-1)^infinity.
  y = ((e == 0) | (x == 1) | ((a == 1) & (size == infinity))) ? zero + 1 : y;
  const auto whole = is_integer(size), odd = whole & ~is_integer(size * 0.5);
  const auto negative = (DoubleBits)x >> 63 != 0;
  const Doubles signed_y = (negative & odd) ? -y : y;
  return (negative & ~whole & (a > 0) & (a < infinity)) ? std::numeric_limits<double>::quiet_NaN() : signed_y;
}

// For doubles converted from float; much more accurate than float.
struct PowerOfFloats {
  Doubles operator()(const Doubles& a, const Doubles& e) const {
    const Doubles t = e * log2_of(a);
    return exp2_of(t < -300 ? -300. : t > 300 ? 300. : t);
  }
};
struct PowerOfDoubles {
  Doubles operator()(const Doubles& a, const Doubles& e) const {
    const Doubles zero{};
    const auto denormal = a < std::numeric_limits<double>::min();
    const TwoDoubles log = long_log2_of(denormal ? a * 0x1p54 : a, denormal ? zero - 54 : zero);
    const TwoDoubles t = product({e, zero}, log);
    const auto far = ~((t.high > -1100) & (t.high < 1100));
    return exp2_of(TwoDoubles{far ? (t.high > 0 ? zero + 1100 : zero - 1100) : t.high, far ? zero : t.low});
  }
};

template <class V>
inline V pow(const V& x, const V& e) {
  using T = typename V::value_type;
  if constexpr (sizeof(T) == 4) {
    alignas(64) T base[V::size], exponent[V::size];
    x.store_aligned(base);
    e.store_aligned(exponent);
    for (std::size_t i = 0; i < V::size; i += doubles) {
      HalfFloats b, p;
      __builtin_memcpy(&b, base + i, sizeof b);
      __builtin_memcpy(&p, exponent + i, sizeof p);
      b = __builtin_convertvector(
          pow_by(PowerOfFloats(), __builtin_convertvector(b, Doubles), __builtin_convertvector(p, Doubles)),
          HalfFloats);
      __builtin_memcpy(base + i, &b, sizeof b);
    }
    return V::load_aligned(base);
  } else {
    Doubles a, b;
    __builtin_memcpy(&a, &x, sizeof a), __builtin_memcpy(&b, &e, sizeof b);
    a = pow_by(PowerOfDoubles(), a, b);
    V y;
    __builtin_memcpy(&y, &a, sizeof y);
    return y;
  }
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels::math
