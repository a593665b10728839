#pragma once
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/simd/exp2.hpp"

// Functions on vectors, correct for infinities, NaN, -0 and denormal numbers: one sequence of IEEE operations for all
// widths. Errors in units in the last place, checked by tests/core/table/functions_test.cpp (float, double):
//   exp 3, 2   expm1 2, 2   log 1, 1   log1p 1, 1   sin 3, 3   cos 3, 3   tanh 2, 2   erf 3, 2   sigmoid 3, 3
// Functions that are missing here are xsimd's.
namespace fit::kernels::math {
inline namespace FIT_ISA_NAMESPACE {

template <class V>
using Element = typename V::value_type;

template <class V>
inline constexpr bool is_float = std::is_same_v<Element<V>, float>;

// Limits x to low … high; NaN stays. (The vector min and max return their second operand if one is NaN.)
template <class V>
inline V clamp(const V& x, Element<V> low, Element<V> high) {
  return xsimd::min(V(high), xsimd::max(V(low), x));
}

// high + low is x, with twice the digits of float.
struct Parts {
  explicit constexpr Parts(double x)
      : high(static_cast<float>(x)), low(static_cast<float>(x - static_cast<double>(high))) {}
  float high, low;
};
constexpr double log2_of_e = 1.4426950408889634;

// e^x for x <= 90 (double: any x). For double, 0 below the smallest normal number, and possibly infinite slightly too
// early.
template <class V>
inline V exp_limited(const V& x) {
  if constexpr (is_float<V>) {
    // x = (n + f) ln 2, with 1 / ln 2 in two parts. The product from which n is subtracted must not be rounded.
    constexpr Parts log2_e(log2_of_e);
    const V c = exponent_from(x, -176), high(log2_e.high), t = xsimd::fma(c, high, V(exponent_bits));
    const V n = t - V(exponent_bits);
    const V y = pow2_of_fraction(xsimd::fma(c, V(log2_e.low), xsimd::fms(c, high, n)));
    return scaled(zero_below(y, n, -150), t, n);
  } else {
    return xsimd::exp(x);
  }
}
// The same for all x.
template <class V>
inline V exp_normal(const V& x) {
  if constexpr (is_float<V>)
    return exp_limited(xsimd::min(V(90), x));
  else
    return exp_limited(x);
}

template <class V>
inline V exp(const V& x) {
  const V y = exp_normal(x);
  if constexpr (!is_float<V>) {
    // Near the ends of the range, xsimd::exp returns infinity or zero too early: there e^x = (e^(x/2))^2.
    const auto far = xsimd::abs(x) > V(708);
    if (xsimd::any(far)) {
      const V half = xsimd::exp(V(0.5) * x);
      return xsimd::select(far, half * half, y);
    }
  }
  return y;
}

template <class V>
inline V log(const V& x) {
  const V y = xsimd::log(x);
  if constexpr (!is_float<V>) {
    // xsimd::log is wrong for denormal doubles: ln x = ln(2^54 x) - 54 ln 2.
    const auto denormal = x > V(0.) && x < V(std::numeric_limits<double>::min());
    if (xsimd::any(denormal)) {
      const V scaled = xsimd::log(x * V(0x1p54)) - V(37.42994775023704670);
      return xsimd::select(denormal, scaled, y);
    }
  }
  return y;
}

// e^x - 1. xsimd::expm1 is infinite slightly too early; for large x the 1 is negligible.
template <class V>
inline V expm1(const V& x) {
  const V y = xsimd::expm1(x);
  const auto far = x > V(is_float<V> ? 80 : 700);
  return xsimd::any(far) ? xsimd::select(far, math::exp(x), y) : y;
}

// ln(1 + x) of a vector or a number.
template <class V>
inline V log1p(const V& x) {
  if constexpr (std::is_arithmetic_v<V>)
    return xsimd::log1p(Vec<V>(x)).get(0);
  else
    return xsimd::log1p(x);
}

template <class V>
inline V log2(const V& x) {
  const V y = xsimd::log2(x);
  if constexpr (!is_float<V>) {
    const auto denormal = x > V(0.) && x < V(std::numeric_limits<double>::min());
    if (xsimd::any(denormal)) return xsimd::select(denormal, xsimd::log2(x * V(0x1p54)) - V(54.), y);
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

// e^(x^2) erfc(x) for double x >= 0, from t = 1 / (1 + 0.3 x): t p(2 t - 1) with a minimax fit p (error 2e-18).
template <class V>
inline V scaled_erfc(const V& t) {
  return t * polynomial(t + t - V(1), 0.32497992185979685, 0.2765235567560654, 0.19878107804432832, 0.11871867470892795,
                        0.05696163804318275, 0.02040144693028929, 0.004356100079285792, -0.00018173754566558058,
                        -0.0004813481298098308, -0.00010700087600470761, 3.2732149343042427e-05, 1.910053582350065e-05,
                        -1.7495429567878134e-06, -2.8593647929259496e-06, 7.134573399061095e-08, 4.4413526126855123e-07,
                        -1.033759113635203e-08, -7.312190825585278e-08, 5.7458085681655455e-09, 1.1560790866221517e-08,
                        -2.12153098153703e-09, -1.252314385044143e-09, 3.979370095669852e-10);
}

template <class V>
inline V erf(const V& x) {
  if constexpr (is_float<V>) {
    return xsimd::erf(x);
  } else {  // xsimd::erf has an error of 70 units
    // x + x p(x^2) for |x| < 1, with a minimax fit p (error 7e-18); 1 - erfc(x) beyond
    const V a = xsimd::abs(x), square = x * x;
    const V p =
        polynomial(square, 0.1283791670955126, -0.3761263890318352, 0.112837916709442, -0.026866170643113415,
                   0.005223977606130842, -0.0008548325929766244, 0.0001205529358693695, -1.4924712439534814e-05,
                   1.6447132699786621e-06, -1.6206318752969208e-07, 1.3710988704190523e-08, -7.779462971761597e-10);
    const V tail = math::exp(-square) * scaled_erfc(V(1) / xsimd::fma(V(0.3), a, V(1)));
    return xsimd::select(a < V(1), xsimd::fma(x, p, x), xsimd::copysign(V(1) - tail, x));
  }
}

// a - b, and the rounding error of the difference (Knuth).
template <class V>
inline V difference(const V& a, const V& b, V& error) {
  const V d = a - b, part = a - d;
  error = (a - (d + part)) + (part - b);
  return d;
}

// Subtracts n quarter turns, n pi / 2, from x >= 0: |rest| is at most about pi / 4. Returns n modulo 4. pi / 2 is in
// parts whose products with n are exact. Close to a multiple of pi / 2 the first parts cancel: there, the rounding
// errors and a fourth part count. The size of a lane alone decides on its way, not the sizes of its neighbours.
template <class V>
inline V quarter_turns(const V& x, V& rest) {
  namespace constants = xsimd::constants;
  rest = x;
  if (xsimd::all(x < V(0.78))) return V(0);  // n is 0 below, too
  const V n = xsimd::nearbyint(x * constants::twoopi<V>());
  const V first = xsimd::fnma(n, constants::pio2_1<V>(), x);
  rest = xsimd::fnma(n, constants::pio2_3<V>(), xsimd::fnma(n, constants::pio2_2<V>(), first));
  V turns = xsimd::kernel::detail::quadrant(n);
  const auto close = xsimd::abs(rest) < V(0x1p-20) && n > V(0);
  if (xsimd::any(close)) {
    V error, last_error;
    const V two = difference<V>(first, n * constants::pio2_2<V>(), error);
    const V three = difference<V>(two, n * constants::pio2_3<V>(), last_error);
    rest = xsimd::select(close, three + ((error + last_error) - n * constants::pio2_3t<V>()), rest);
  }
  const auto very_far = x > constants::mediumpi<V>();
  if (!xsimd::any(very_far)) return turns;
  alignas(64) Element<V> xs[V::size], rests[V::size], all[V::size];
  x.store_aligned(xs);
  rest.store_aligned(rests);
  turns.store_aligned(all);
  const V limit = constants::mediumpi<V>();
  for (std::size_t i = 0; i < V::size; ++i) {
    if (!(xs[i] > limit.get(0))) continue;
    double y[2] = {std::numeric_limits<double>::quiet_NaN(), 0};
    all[i] =
        std::isinf(xs[i]) ? Element<V>(0) : static_cast<Element<V>>(xsimd::detail::__ieee754_rem_pio2(xs[i], y) & 3);
    rests[i] = static_cast<Element<V>>(y[0]);
  }
  rest = V::load_aligned(rests);
  return V::load_aligned(all);
}

// (-1)^(turns / 2) times the sine of rest if turns is even, else the cosine.
template <class V>
inline V sine_of(const V& turns, const V& rest, const V& sign) {
  const auto second_half = turns >= V(2);
  const auto odd = turns - xsimd::select(second_half, V(2), V(0)) != V(0);
  const V square = rest * rest;
  const V y =
      xsimd::select(odd, xsimd::kernel::detail::cos_eval(square), xsimd::kernel::detail::sin_eval(square, rest));
  return y ^ sign ^ xsimd::select(second_half, xsimd::constants::signmask<V>(), V(0));
}

template <class V>
inline V sin(const V& x) {
  V rest;
  const V turns = quarter_turns(xsimd::abs(x), rest);
  return sine_of(turns, rest, xsimd::bitofsign(x));
}

// sin(x + pi / 2)
template <class V>
inline V cos(const V& x) {
  V rest;
  const V turns = quarter_turns(xsimd::abs(x), rest) + V(1);
  return sine_of(xsimd::select(turns == V(4), V(0), turns), rest, V(0));
}

template <class V>
inline V tan(const V& x) {
  V rest;
  const V turns = quarter_turns(xsimd::abs(x), rest);
  const auto even = turns == V(0) || turns == V(2);
  return xsimd::kernel::detail::tan_eval(rest, even) ^ xsimd::bitofsign(x);
}

template <class V>
inline V sigmoid(const V& x) {
  // The exponent is never positive, so nothing overflows.
  const V z = math::exp(-xsimd::abs(x));
  return xsimd::select(x < V(0), z, V(1)) / (V(1) + z);
}

// m e^x in two steps, for an e^x beyond the range. Rare, but no call: constants would not stay in registers around one.
template <class V>
inline V times_far_exp(const V& m, const V& x) {
  const V half = exp_normal(V(0.5) * x);
  return (m * half) * half;
}

// m e^x; `power` is exp_normal(x). Accurate to the last digits, even if e^x alone is beyond the range: where x is
// `far`.
template <class V>
inline V times_exp(const V& m, const V& x, const V& power, const typename V::batch_bool_type& far) {
  const V y = m * power;
  return xsimd::any(far) ? xsimd::select(far, times_far_exp(m, x), y) : y;
}
template <class V>
inline constexpr Element<V> far_exponent = is_float<V> ? 87 : 708;
template <class V>
inline V times_exp(const V& m, const V& x) {
  return times_exp(m, x, exp_normal(x), xsimd::abs(x) > V(far_exponent<V>));
}

// e^a for a <= 0, as a number and as a factor of m.
template <class V>
struct ExpOfNegative {
  explicit ExpOfNegative(const V& exponent) : a(exponent), power(exp_limited(a)) {}
  V value() const { return power; }
  V times(const V& m) const { return times_exp(m, a, power, a < V(-far_exponent<V>)); }

  V a, power;
};

// The same without a branch, and for exponents with more digits than the type has. float: a power of 2 and a fraction,
// so m is multiplied before it is scaled; e^a is at least 2^-252. |m| < 2^9, or 2^99 for an exponent that is given.
// (Where e^a is needed as a number, too, the branch of ExpOfNegative costs less than to scale twice.)
template <class V, bool = is_float<V>>
class Decay {
 public:
  explicit Decay(const V& a) {
    constexpr Parts log2_e(log2_of_e);
    const V c = xsimd::max(V(-174), a);  // keeps NaN
    begin(xsimd::fma(c, V(log2_e.high), V(exponent_bits)));
    end(xsimd::fma(c, V(log2_e.low), xsimd::fms(c, V(log2_e.high), n)), -250);
  }
  // e^(-f x^2) for f x^2 <= 174. The error of the square counts, as it grows with x.
  static Decay gaussian(const V& x, double f) {
    const Parts factor(-f * log2_of_e);
    const V square = x * x, error = xsimd::fms(x, x, square);
    Decay d;
    d.begin(xsimd::fma(square, V(factor.high), V(exponent_bits)));
    const V rest = xsimd::fma(error, V(factor.high), xsimd::fms(square, V(factor.high), d.n));
    d.end(xsimd::fma(square, V(factor.low), rest));
    return d;
  }
  // 2^(x y + rest)
  static Decay of_product(const V& x, const V& y, const V& rest) {
    Decay d;
    d.begin(xsimd::fma(x, y, V(exponent_bits)));
    d.end(xsimd::fms(x, y, d.n) + rest);
    return d;
  }
  V value() const { return scaled(fraction, t, n); }
  V times(const V& m) const { return scaled(m * fraction, t, n); }

 private:
  Decay() = default;
  void begin(const V& sum) { t = sum, n = t - V(exponent_bits); }
  void end(const V& rest, float least = -160) { fraction = zero_below(pow2_of_fraction(rest), n, least); }

  V t, n, fraction;  // e^a = fraction 2^n; for t see scaled()
};
// double: e^(a + more) = e^a (1 + more)
template <class V>
class Decay<V, false> {
 public:
  explicit Decay(const V& a, const V& small = V(0)) : e(a), more(small) {}
  static Decay gaussian(const V& x, double f) {
    const V square = x * x;
    return Decay(V(-f) * square, V(-f) * xsimd::fms(x, x, square));
  }
  V value() const { return e.value(); }
  V times(const V& m) const { return e.times(xsimd::fma(m, more, m)); }

 private:
  ExpOfNegative<V> e;
  V more;
};

// |x|, limited to where e^(-f x^2) is 0: to `limit` for float, and 40 for double.
template <class V>
inline V size_to(const V& x, float limit) {
  return xsimd::min(V(is_float<V> ? limit : 40), xsimd::abs(x));
}

// s = sigmoid(x), as a factor, as 1 - s and as the slope s (1 - s). Nothing cancels where s has rounded to 1. Note that
// (1 + tanh u) / 2 = sigmoid(2 u).
template <class V, class E = ExpOfNegative<V>>
struct Sigmoid {
  explicit Sigmoid(const V& x) : Sigmoid(E(-xsimd::abs(x)), x) {}
  // For e^-|x|, and a number with the sign of x.
  Sigmoid(const E& power_of_e, const V& x)
      : e(power_of_e), power(e.value()), r(V(1) / (V(1) + power)), negative(x < V(0)) {}
  V times(const V& m) const {  // m s
    const V part = m * r;
    return xsimd::select(negative, e.times(part), part);
  }
  V times_slope(const V& m) const { return e.times(m * r * r); }    // m s (1 - s)
  V rest() const { return xsimd::select(negative, r, power * r); }  // 1 - s

  E e;
  V power, r;
  typename V::batch_bool_type negative;
};

// The factor s = sigmoid(w) of gelu tanh, with w = x (c + k x^2) for |x| <= limit, by e^-|w|. That amplifies the
// rounding errors of |w|, so they are computed and taken back.
template <class V>
struct GeluTanhGate {
  using T = Element<V>;
  static constexpr T limit = is_float<V> ? 12 : 40;  // x e^-|w| is 0 there
  // float: times log2(e), because then it is a power of 2. c1 has so few bits that p + c1 is exact.
  static constexpr T c1 = static_cast<T>(is_float<V> ? 2.30220794677734375 : 1.5957691216057341);
  static constexpr T c2 = static_cast<T>(is_float<V> ? 2.51366981139134e-7 : -3.430362161966579e-15);  // c - c1
  static constexpr T k1 = static_cast<T>(is_float<V> ? 0.1029432395800235 : 0.07135481627260025);
  static constexpr T k2 = static_cast<T>(is_float<V> ? -2.0161984364105e-9 : -6.175149918155315e-19);  // k - k1

  explicit GeluTanhGate(const V& given) : x(given), size(xsimd::abs(x)), square(size * size), s(decay(), x) {}

  V x, size, square;
  Sigmoid<V, Decay<V>> s;

 private:
  Decay<V> decay() const {
    const V p = polynomial(square, -(c1 + c2), -k1), of_p = xsimd::fnms(V(k1), square, p + V(c1));
    const V of_square = xsimd::fms(size, size, square), of_constants = xsimd::fma(V(k2), square, V(c2));
    const V rest = size * (xsimd::fnma(V(k1), of_square, of_p) - of_constants);
    if constexpr (is_float<V>) {
      return Decay<V>::of_product(size, p, rest);
    } else {
      const V a = size * p;
      return Decay<V>(a, xsimd::fms(size, p, a) + rest);
    }
  }
};

// m tanh'(x), with tanh x = 2 sigmoid(2 x) - 1
template <class V>
inline V times_tanh_slope(const V& m, const V& x) {
  return Sigmoid<V>(x + x).times_slope(V(4) * m);
}

// Phi(-a) e^(a^2 / 2) for a >= 0, with the normal distribution Phi(x) = (1 + erf(x / sqrt 2)) / 2.
template <class V>
inline V mills(const V& a) {
  if constexpr (is_float<V>) {
    // t p(t) with a minimax fit p (relative error 4e-8 up to a = 14.5; beyond, e^(-a^2 / 2) is 0).
    const V t = V(1) / xsimd::fma(V(0.35f), a, V(1));
    return t * polynomial(t, 0.139621302485466f, 0.1398635357618332f, 0.11982118338346481f, 0.10555292665958405f,
                          -0.023213393986225128f, 0.15932124853134155f, -0.25584039092063904f, 0.1440316140651703f,
                          -0.029158029705286026f);
  } else {
    return V(0.5) * scaled_erfc(V(1) / xsimd::fma(V(0.21213203435596426), a, V(1)));  // 0.3 / sqrt 2
  }
}

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels::math
