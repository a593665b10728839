#pragma once
#include "kernels/simd/math.hpp"

// Derivatives next to their zeros. There, the sums of their formulas cancel. So the distance d from the zero becomes a
// factor. `zero` is followed by `rest`. For silu, gelu tanh and mish, d p(d) takes the place of the formula, with
// minimax fits p for |d| <= `near` (relative errors 6e-9 and 2e-17).
namespace fit::kernels::math {
inline namespace FIT_ISA_NAMESPACE {

struct SiluSlopeZero {
  static constexpr double zero = -1.2784645427610737, rest = -1.094699418309343743e-16;
  template <class V>
  static constexpr double near = 0.5;
  template <class V>
  static V slope(const V& d) {
    if constexpr (is_float<V>)
      return polynomial(d, 0.2178117f, 0.1466488f, 0.018874649f, -0.015222766f, -0.0066032996f, 0.00012886828f,
                        0.00077760586f, 0.00017124189f);
    else
      return polynomial(d, 0.2178117057198001, 0.1466487969969469, 0.01887481422378346, -0.015222655223187389,
                        -0.006606589138453057, 0.00012662741002708868, 0.0007985218849212583, 0.0001857072453436638,
                        -4.09053907419313e-05, -2.9733569499191208e-05, -2.9422199477858666e-06, 2.3462635387870583e-06,
                        8.580289897211426e-07, -3.162643193216978e-08, -8.792633549079633e-08, -1.609229251556843e-08);
  }
};

struct GeluTanhSlopeZero {
  static constexpr double zero = -0.7524614220710163, rest = 3.635560509207686845e-17;
  template <class V>
  static constexpr double near = is_float<V> ? 0.25 : 0.5;
  template <class V>
  static V slope(const V& d) {
    if constexpr (is_float<V>)
      return polynomial(d, 0.4304001f, 0.38751838f, -0.015782794f, -0.1139363f, -0.016619759f, 0.019419638f,
                        0.0051985877f);
    else
      return polynomial(d, 0.4304000910248585, 0.38751844613578895, -0.015782853521849216, -0.1139444830809587,
                        -0.01661932834292573, 0.019682309459802684, 0.005261059249700711, -0.0024227318446233006,
                        -0.0009274419151913993, 0.00026392761471002893, 0.0001242510243393823, -3.4955872178721796e-05,
                        -1.5942302906404905e-05, 5.916565629829925e-06, 2.3989685611320203e-06, -9.816803347396517e-07,
                        -3.5463746279760514e-07, 1.2371647837720726e-07);
  }
};

struct MishSlopeZero {
  static constexpr double zero = -1.1924312145154952, rest = -4.848482984803104555e-17;
  template <class V>
  static constexpr double near = 0.5;
  template <class V>
  static V slope(const V& d) {
    if constexpr (is_float<V>)
      return polynomial(d, 0.26694793f, 0.20473127f, 0.041907836f, -0.020272197f, -0.015821682f, -0.0033553871f,
                        0.0010992017f, 0.000962701f, 0.00022103931f);
    else
      return polynomial(d, 0.2669479140495345, 0.20473126408010586, 0.04190782104360989, -0.020271822716684956,
                        -0.015821126561735833, -0.0033606849269762658, 0.0010924055410600419, 0.0009898181007119305,
                        0.0002541293611591876, -4.1961472872386376e-05, -5.5828880061688985e-05,
                        -1.7299493291881913e-05, 9.424565465180614e-07, 2.9101117596043634e-06, 1.07300196109115e-06,
                        2.2427613571114214e-08, -1.4485530129562034e-07, -5.3401438670897743e-08);
  }
};

// The same for a factor of mish's second derivative, 2 + x (1 - s - 2 w s), with its two zeros. Fits for doubles alone
// (relative errors 5e-19 and 2e-19), as it is computed by operations.
struct MishCurveZeroBelow {
  static constexpr double zero = -2.256376396360793, rest = -1.070317487501924794e-16;
  static constexpr double slope[] = {
      1.1586059722071018,     0.027534142664208203,   -0.011619167733506396,   -0.01028485291866973,
      -0.004299375421786029,  -0.0011754124735004938, -0.00015972127507107015, 3.555336362770183e-05,
      3.043773961520368e-05,  1.0044238687836895e-05, 1.6227717680702993e-06,  -1.7345416506158208e-07,
      -2.068067939825792e-07, -7.05959647049449e-08,  -1.086743215362286e-08,  1.1400736050220894e-09};
};
struct MishCurveZeroAbove {
  static constexpr double zero = 1.4905711794854284, rest = 7.12603671583426299e-17;
  static constexpr double slope[] = {-2.234642673669092,      -0.27379746672732724,   0.20280080695409888,
                                     -0.04818188294558258,    -0.009952769763216922,  0.010472488219078417,
                                     -0.0022419615243403834,  -0.0007717587831287201, 0.0006002236042902529,
                                     -9.039862742104323e-05,  -5.836685637655976e-05, 3.306179765279973e-05,
                                     -2.5049001842704116e-06, -4.024241691369449e-06, 1.7067091667971703e-06,
                                     2.624302280329563e-08,   -2.428920826840376e-07, 6.464499923997872e-08};
};

// x - zero, as if the zero had twice the digits of the type.
template <class Zero, class V>
inline V from_zero(const V& x) {
  using T = Element<V>;
  constexpr T zero = static_cast<T>(Zero::zero);
  return (x - V(zero)) - V(static_cast<T>(is_float<V> ? Zero::zero - zero : Zero::rest));
}

// f'(x): `plain`, except next to the zero.
template <class Zero, class V>
inline V beside_zero(const V& x, const V& plain) {
  const V d = from_zero<Zero>(x);
  return xsimd::select(xsimd::abs(d) < V(Zero::template near<V>), d * Zero::slope(d), plain);
}

// gelu'(-a) e^(a^2 / 2) = (Phi(-a) - a phi(a)) e^(a^2 / 2) for a >= 0: the distance from its zero, times a minimax fit
// in t = 1 / (1 + k a), which serves all a (relative errors 3e-8 up to a = 14.5, and 5e-17 up to 39).
struct GeluSlope {
  static constexpr double zero = 0.7517915246935645, rest = -1.495675917700988327e-17;
  template <class V>
  static V scaled(const V& a) {
    const V t = V(1) / xsimd::fma(V(is_float<V> ? 0.35 : 0.21213203435596426), a, V(1));
    if constexpr (is_float<V>)
      return -from_zero<GeluSlope>(a) * polynomial(t, 0.39893368f, 0.10517279f, 0.081758685f, 0.067522146f, -0.0059267f,
                                                   0.07655251f, -0.09363221f, 0.041370682f, -0.0066735814f);
    else
      return -from_zero<GeluSlope>(a) *
             polynomial(t + t - V(1), 0.4541321956027327, 0.09337101318687228, 0.060861495644422024,
                        0.03393470291305022, 0.015694736957109285, 0.005684648722125018, 0.0013984979893264858,
                        0.00010372488169519767, -7.845939388015374e-05, -2.9273120213888627e-05, 1.4266560153348106e-06,
                        3.3835565227789617e-06, 3.0199164786285225e-07, -3.8694441359371664e-07, -6.632214884841504e-08,
                        5.076069646352418e-08, 9.345761641106175e-09, -7.473730968990162e-09, -5.896323770589766e-10,
                        8.854862579507419e-10, -1.1800948913455946e-10);
  }
};

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels::math
