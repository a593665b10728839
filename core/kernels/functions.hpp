#pragma once
#include <limits>

#include "kernels/simd/isa.hpp"
#include "kernels/simd/math.hpp"
#include "kernels/simd/zeros.hpp"

// Unary functions, float and double. Each is defined here once. From this come the kernels for every instruction set,
// the operation (ops/elementwise/functions.cpp) and its derivatives of every order.
//
//   FIT_F(x)     y = f(x), on vectors V. p is the function's parameter (a slope, for example), if there is one.
//   FIT_DF(v)    dx = dy f'(x), computed from v: y if from_output, else x. From y only where a rounded y determines
//                f'(x): tanh(20) has rounded to 1, and 1 - y^2 would be 0. Where one factor is 0 or 1 already, x is
//                clamped, so that no product is infinity times 0.
//   FIT_DDF(v)   the derivative of f'(v), as operations on a Tensor; undefined means 0. Without differences that
//                cancel, for the same reason.
//
// docs/accuracy.md lists the errors. To add a function, also add it to kernels/function_list.hpp, to fit/ops/ops.hpp,
// and to tests/core/rows/ops_functions.cpp.
namespace fit::kernels::functions {
inline namespace FIT_ISA_NAMESPACE {

using math::clamp;
using xsimd::select;

constexpr float infinity = std::numeric_limits<float>::infinity();

// Beyond 40, e^(-x^2) and similar factors are 0. The clamp avoids infinity times 0.
template <class Tensor>
Tensor near(const Tensor& x) {
  return clamp(x, -40, 40);
}

// m e^(-f x^2), f = 1 or 1/2, for |x| <= 40. h is x in multiples of 1/32: its square is exact, so that the error does
// not grow with x. Half of the exponent at a time, as e^(-f h^2) alone may be too small.
template <class Tensor>
Tensor times_gaussian(const Tensor& m, const Tensor& x, double f) {
  const Tensor h = round(x.detach() * 32) / 32, half = exp(h * h * (-f / 2));
  return m * exp((h - x) * (h + x) * f) * half * half;
}

// The derivative of sigmoid(x); 1 - sigmoid(x) = sigmoid(-x) without cancellation.
template <class Tensor>
Tensor sigmoid_slope(const Tensor& x) {
  return sigmoid(x) * sigmoid(-x);
}

// m times the derivative of sigmoid, e^-w / (1 + e^-w)^2 with w >= 0, given e^(-w / 2): e^-w alone may be too small.
template <class Tensor>
Tensor times_sigmoid_slope(const Tensor& m, const Tensor& half) {
  const Tensor whole = half * half + 1;
  return m / whole * half / whole * half;
}

#define FIT_F(x)     \
  template <class V> \
  static V f(const V& x, [[maybe_unused]] const V& p)
#define FIT_DF(v)    \
  template <class V> \
  static V df([[maybe_unused]] const V& dy, [[maybe_unused]] const V& v, [[maybe_unused]] const V& p)
#define FIT_DDF(v)        \
  template <class Tensor> \
  static Tensor ddf([[maybe_unused]] const Tensor& v, [[maybe_unused]] double p)

struct FromInput {
  static constexpr bool from_output = false, float32 = false;
};
struct FromOutput {
  static constexpr bool from_output = true, float32 = false;
};
// Autocast computes it in float32: logarithms, exponentials and functions with poles.
template <class Base>
struct InFloat32 : Base {
  static constexpr bool float32 = true;
};
struct PiecewiseLinear {
  FIT_DDF(x) { return {}; }
};
// A step function: its derivative is 0 everywhere. (xsimd loses the sign of -0 without SSE4.1.)
struct Steps : FromInput, PiecewiseLinear {
  FIT_DF(x) { return V(0); }
};

struct Exp : InFloat32<FromOutput> {
  FIT_F(x) { return math::exp(x); }
  FIT_DF(y) { return dy * y; }
  FIT_DDF(y) { return ones_like(y); }
};

struct Log : InFloat32<FromInput> {
  FIT_F(x) { return math::log(x); }
  FIT_DF(x) { return dy / x; }
  FIT_DDF(x) { return -pow(x, -2); }
};

struct Log1p : InFloat32<FromInput> {
  FIT_F(x) { return xsimd::log1p(x); }
  FIT_DF(x) { return dy / (V(1) + x); }
  FIT_DDF(x) { return -pow(x + 1, -2); }
};

struct Log2 : InFloat32<FromInput> {
  static constexpr double one_over_ln_2 = 1.44269504088896340736;
  FIT_F(x) { return math::log2(x); }
  FIT_DF(x) { return V(one_over_ln_2) * dy / x; }
  FIT_DDF(x) { return pow(x, -2) * -one_over_ln_2; }
};

struct Log10 : InFloat32<FromInput> {
  static constexpr double one_over_ln_10 = 0.43429448190325182765;
  // xsimd's is exact for powers of 10, and loses denormal numbers.
  FIT_F(x) {
    const auto tiny = x < V(std::numeric_limits<typename V::value_type>::min());
    return select(tiny, math::log(x) * V(one_over_ln_10), xsimd::log10(x));
  }
  FIT_DF(x) { return V(one_over_ln_10) * dy / x; }
  FIT_DDF(x) { return -one_over_ln_10 / x / x; }
};

struct Expm1 : InFloat32<FromInput> {
  FIT_F(x) { return math::expm1(x); }
  // 0 for dy = 0, even if e^x is infinite; NaN stays.
  FIT_DF(x) {
    const V dx = math::times_exp(dy, x);
    return select(dy == V(0) && x <= V(infinity), V(0), dx);
  }
  FIT_DDF(x) { return exp(x); }
};

// f' = 1 / (2 y)
struct Sqrt : FromOutput {
  FIT_F(x) { return xsimd::sqrt(x); }
  FIT_DF(y) { return V(0.5) * dy / y; }
  FIT_DDF(y) { return pow(y, -2) * -0.5; }
};

// f' = -y^3 / 2, factor by factor: y^3 alone may be infinite
struct Rsqrt : InFloat32<FromOutput> {
  FIT_F(x) { return V(1) / xsimd::sqrt(x); }
  FIT_DF(y) { return V(-0.5) * dy * y * y * y; }
  FIT_DDF(y) { return y * y * -1.5; }
};

struct Sin : FromInput {
  FIT_F(x) { return math::sin(x); }
  FIT_DF(x) { return dy * math::cos(x); }
  FIT_DDF(x) { return -sin(x); }
};

struct Cos : FromInput {
  FIT_F(x) { return math::cos(x); }
  FIT_DF(x) { return -dy * math::sin(x); }
  FIT_DDF(x) { return -cos(x); }
};

struct Tan : InFloat32<FromOutput> {
  FIT_F(x) { return math::tan(x); }
  FIT_DF(y) { return dy * xsimd::fma(y, y, V(1)); }
  FIT_DDF(y) { return y * 2; }
};

// f' = 1 / sqrt(1 - x^2), in factors that are exact near -1 and 1
struct Asin : InFloat32<FromInput> {
  FIT_F(x) { return xsimd::asin(x); }
  FIT_DF(x) { return dy / xsimd::sqrt((V(1) - x) * (V(1) + x)); }
  FIT_DDF(x) {
    const Tensor square = (1 - x) * (1 + x);
    return x / square * rsqrt(square);
  }
};

struct Acos : InFloat32<FromInput> {
  FIT_F(x) { return xsimd::acos(x); }
  FIT_DF(x) { return -Asin::df(dy, x, x); }
  FIT_DDF(x) { return -Asin::ddf(x, 0); }
};

// f' = 1 / (1 + x^2); r^2 / (1 + r^2) with r = 1 / x for large |x|, where x^2 may be infinite
struct Atan : FromInput {
  FIT_F(x) { return xsimd::atan(x); }
  FIT_DF(x) {
    const auto far = xsimd::abs(x) > V(1);
    const V c = select(far, V(1) / x, x), square = c * c;
    return dy * (select(far, square, V(1)) / (V(1) + square));
  }
  // -2 x f'^2, factor by factor: x^2 or f'^2 alone may leave the range
  FIT_DDF(x) {
    const Tensor c = masked_fill(x, isinf(x), 0), slope = 1 / (1 + c * c);
    return c * slope * slope * -2;
  }
};

// dy f(x) for f = sinh or cosh: for large |x|, f(x) = ±e^|x| / 2 may be infinite where the product is not. 0 for dy =
// 0; NaN stays.
template <class V>
V times_hyperbolic(const V& dy, const V& f, const V& x) {
  const V a = xsimd::abs(x), large = math::times_exp(V(0.5) * dy, a);
  const V dx = select(a > V(80), select(f < V(0), -large, large), dy * f);
  return select(dy == V(0) && a <= V(infinity), V(0), dx);
}

struct Sinh : InFloat32<FromInput> {
  FIT_F(x) { return xsimd::sinh(x); }
  FIT_DF(x) { return times_hyperbolic(dy, xsimd::cosh(x), x); }
  FIT_DDF(x) { return sinh(x); }
};

struct Cosh : InFloat32<FromInput> {
  FIT_F(x) { return xsimd::cosh(x); }
  FIT_DF(x) { return times_hyperbolic(dy, xsimd::sinh(x), x); }
  FIT_DDF(x) { return cosh(x); }
};

// f' = 1 / sqrt(1 + x^2); |r| / sqrt(1 + r^2) with r = 1 / x for large |x|, where x^2 may be infinite
struct Asinh : FromInput {
  FIT_F(x) { return xsimd::asinh(x); }
  FIT_DF(x) {
    const auto far = xsimd::abs(x) > V(1);
    const V c = select(far, V(1) / x, x);
    return dy * (select(far, xsimd::abs(c), V(1)) / xsimd::sqrt(V(1) + c * c));
  }
  FIT_DDF(x) {
    const Tensor c = masked_fill(x, isinf(x), 0), square = 1 + c * c;
    return -(c / square / sqrt(square));
  }
};

// f' = 1 / sqrt(x^2 - 1), in factors that are exact near 1
struct Acosh : InFloat32<FromInput> {
  // ln(x + sqrt(x^2 - 1)), by t = x - 1 near 1, and without the square of a large x
  FIT_F(x) {
    const V t = x - V(1);
    const V near_one = xsimd::log1p(t + xsimd::sqrt(t) * xsimd::sqrt(t + V(2)));
    return select(x > V(1e9), math::log(x) + V(0.69314718055994530942), near_one);
  }
  FIT_DF(x) { return dy / (xsimd::sqrt(x - V(1)) * xsimd::sqrt(x + V(1))); }
  FIT_DDF(x) {
    const Tensor below = x - 1, above = x + 1;
    return -(x / below / above / (sqrt(below) * sqrt(above)));
  }
};

// f' = 1 / (1 - x^2), in factors that are exact near -1 and 1; NaN beyond, as f
struct Atanh : InFloat32<FromInput> {
  FIT_F(x) { return xsimd::atanh(x); }
  FIT_DF(x) {
    const V nan(std::numeric_limits<float>::quiet_NaN());
    return select(xsimd::abs(x) > V(1), nan, dy / ((V(1) - x) * (V(1) + x)));
  }
  FIT_DDF(x) {
    const Tensor square = (1 - x) * (1 + x), root = sqrt(square);
    return x * 2 / square / root / root;
  }
};

struct Tanh : FromInput {
  FIT_F(x) { return xsimd::tanh(x); }
  FIT_DF(x) { return math::times_tanh_slope(dy, x); }
  FIT_DDF(x) { return sigmoid_slope(x * 2) * tanh(x) * -8; }
};

// f' = 2 / sqrt(pi) e^(-x^2)
struct Erf : FromInput {
  static constexpr double two_over_sqrt_pi = 1.12837916709551257390;
  FIT_F(x) { return math::erf(x); }
  FIT_DF(x) { return dy * math::Decay<V>::gaussian(math::size_to<V>(x, 13), 1).times(V(two_over_sqrt_pi)); }
  FIT_DDF(x) {
    const Tensor c = near(x);
    return times_gaussian(c * (-2 * two_over_sqrt_pi), c, 1);
  }
};

// f' = s (1 - s), f'' = f' (1 - 2 s)
struct Sigmoid : FromInput {
  FIT_F(x) { return math::sigmoid(x); }
  FIT_DF(x) { return math::Sigmoid<V>(x).times_slope(dy); }
  FIT_DDF(x) { return -(sigmoid_slope(x) * tanh(x * 0.5)); }
};

// f = x s with s = sigmoid(x); f' = s (1 + x (1 - s)), f'' = s (1 - s) (2 + x (1 - 2 s))
struct Silu : FromInput {
  FIT_F(x) {
    const V c = clamp(x, -1000, infinity);
    return math::Sigmoid<V>(c).times(c);
  }
  FIT_DF(x) {
    const V c = clamp(x, -1000, 1000);
    const math::Sigmoid<V> s(c);
    return dy * math::beside_zero<math::SiluSlopeZero>(x, s.times(xsimd::fma(c, s.rest(), V(1))));
  }
  // Near a zero z of f'', tanh(x / 2) = (t + u) / (1 + t u) with t = tanh(z / 2) = 2 / z and u = tanh((x - z) / 2).
  FIT_DDF(x) {
    constexpr double z = 2.3993572805154675, t = 2 / z;
    const Tensor c = clamp(x, -1000, 1000), d = from_zero(abs(c), z, 1.846487285535336354e-16), u = tanh(d * 0.5);
    const Tensor beside = -(u * (d + (z - 2 * t)) + d * t) / (u * t + 1);
    const Tensor k = where(abs(d) < 0.5, beside, 2 - c * tanh(c * 0.5));
    return times_sigmoid_slope(k, exp(abs(c) * -0.5));
  }
};

struct Softplus : InFloat32<FromInput> {
  FIT_F(x) { return clamp(x, 0, infinity) + xsimd::log1p(math::exp(-xsimd::abs(x))); }
  FIT_DF(x) { return dy * math::sigmoid(x); }
  FIT_DDF(x) { return sigmoid_slope(x); }
};

// tanh(softplus(x)) = e n / (n e + d), from t = e^-|x|: e = t, n = t + 2, d = 2 for x < 0, and e = 1, n = 1 + 2 t,
// d = 2 t^2 else. Nothing cancels or overflows.
template <class V>
struct TanhSoftplus {
  explicit TanhSoftplus(const V& x)
      : s(x),
        n(select(s.negative, s.power + V(2), V(1) + V(2) * s.power)),
        d(select(s.negative, V(2), V(2) * s.power * s.power)),
        r(V(1) / (select(s.negative, s.power, V(1)) * n + d)) {}
  V times_e(const V& m) const { return select(s.negative, s.e.times(m), m); }  // m e

  math::Sigmoid<V> s;
  V n, d, r;  // r: 1 / (n e + d)
};

// f = x w with w = tanh(softplus(x)), f' = w + x s (1 - w) (1 + w), f'' = s (1 - w^2) (2 + x (1 - s - 2 w s)), with
// s = sigmoid(x). 1 - w = r d, and s = e / (1 + t).
struct Mish : FromInput {
  FIT_F(x) {
    const V c = clamp(x, -1000, infinity);
    const TanhSoftplus<V> w(c);
    return w.times_e(c * (w.n * w.r));
  }
  FIT_DF(x) {
    const V c = clamp(x, -1000, 1000);
    const TanhSoftplus<V> w(c);
    const V plain = w.times_e(w.r * (w.n + c * (w.d * w.s.r) * (V(2) - w.d * w.r)));
    return dy * math::beside_zero<math::MishSlopeZero>(x, plain);
  }
  // With w = tanh(softplus(x)) and s = sigmoid(x): w' = s (1 - w^2), f'' = w' (2 + x (1 - s - 2 w s)). 1 - w = 2 / d is
  // a multiple of e^-2x where x is large, and s is one of e^x where x is far below 0: two factors stay apart, as their
  // product may be too small.
  FIT_DDF(x) {
    const Tensor c = clamp(x, -1000, 1000), e = exp(-abs(c)), s = sigmoid(c), positive = gt(c, 0);
    const Tensor n = where(positive, 1 + e * 2, e * (e + 2)), d = n + where(positive, e * e, 1) * 2, w = n / d;
    const Tensor below = beside_zero(math::MishCurveZeroBelow(), c, 2 + c * (sigmoid(-c) - w * s * 2));
    const Tensor factor = (1 + w) * beside_zero(math::MishCurveZeroAbove(), c, below) * 2 / d / (1 + e);
    const Tensor small = where(positive, e, exp(abs(c) * -0.5));
    return factor * small * small;
  }
};

// f = x / (1 + |x|), f' = 1 / (1 + |x|)^2
struct Softsign : FromInput {
  static constexpr double far = 1e30;
  FIT_F(x) {
    const V c = clamp(x, -far, far);
    return c / (V(1) + xsimd::abs(c));
  }
  FIT_DF(x) {
    const V a = V(1) + xsimd::abs(x);
    return dy / a / a;
  }
  FIT_DDF(x) { return sign(x) * pow(abs(x) + 1, -3) * -2; }
};

// The derivative is 0 at the ends, as PyTorch's: clamp()'s is 1 there.
struct Hardtanh : FromInput, PiecewiseLinear {
  FIT_F(x) { return clamp(x, -1, 1); }
  FIT_DF(x) { return select(xsimd::abs(x) < V(1), dy, V(0)); }
};

struct Relu6 : FromInput, PiecewiseLinear {
  FIT_F(x) { return clamp(x, 0, 6); }
  FIT_DF(x) { return select(x > V(0) && x < V(6), dy, V(0)); }
};

// f = relu6(x + 3) / 6
struct Hardsigmoid : FromInput, PiecewiseLinear {
  FIT_F(x) { return clamp(x + V(3), 0, 6) / V(6); }
  FIT_DF(x) { return select(xsimd::abs(x) < V(3), dy / V(6), V(0)); }
};

// f = x relu6(x + 3) / 6; f' = x / 3 + 1 / 2 for |x| < 3
struct Hardswish : FromInput {
  FIT_F(x) {
    const V c = clamp(x, -3, infinity);
    return c * (clamp(c + V(3), 0, 6) / V(6));
  }
  FIT_DF(x) { return select(x <= V(-3), V(0), select(x < V(3), dy * ((x + V(1.5)) / V(3)), dy)); }
  FIT_DDF(x) { return where(abs(x) < 3, ones_like(x) / 3, 0); }
};

// -softplus(-x)
struct LogSigmoid : InFloat32<FromInput> {
  FIT_F(x) { return clamp(x, -infinity, 0) - xsimd::log1p(math::exp(-xsimd::abs(x))); }
  FIT_DF(x) { return dy * math::sigmoid(-x); }
  FIT_DDF(x) { return -sigmoid_slope(x); }
};

struct Floor : Steps {
  FIT_F(x) { return xsimd::copysign(xsimd::floor(x), x); }
};

struct Ceil : Steps {
  FIT_F(x) { return xsimd::copysign(xsimd::ceil(x), x); }
};

struct Round : Steps {
  FIT_F(x) { return xsimd::nearbyint(x); }
};

struct Trunc : Steps {
  FIT_F(x) { return xsimd::copysign(xsimd::trunc(x), x); }
};

struct Sign : Steps {
  FIT_F(x) { return select(x > V(0), V(1), select(x < V(0), V(-1), x)); }
};

struct Relu : FromOutput, PiecewiseLinear {
  FIT_F(x) { return select(x <= V(0), V(0), x); }
  FIT_DF(y) { return select(y <= V(0), V(0), dy); }
};

struct Abs : FromInput, PiecewiseLinear {
  FIT_F(x) { return xsimd::abs(x); }
  FIT_DF(x) { return select(x > V(0), dy, select(x < V(0), -dy, V(0))); }
};

// p: the slope
struct LeakyRelu : FromInput, PiecewiseLinear {
  FIT_F(x) { return select(x > V(0), x, p * x); }
  FIT_DF(x) { return select(x > V(0), dy, p * dy); }
};

// f = p (e^x - 1) and f' = p e^x for x <= 0; p: alpha
struct Elu : FromInput {
  FIT_F(x) { return select(x <= V(0), p * xsimd::expm1(x), x); }
  FIT_DF(x) {
    const V c = clamp(x, -1000, 0);
    return select(x > V(0), dy, dy * math::Decay<V>(c).times(p));
  }
  FIT_DDF(x) { return where(x >= 0, 0, exp(clamp(x, -1000, 0)) * p); }
};

// f = p (e^(x / p) - 1) and f' = e^(x / p) for x <= 0; p: alpha
struct Celu : FromInput {
  FIT_F(x) { return select(x <= V(0), p * math::expm1(x / p), x); }
  FIT_DF(x) { return select(x > V(0), dy, dy * math::exp(clamp(x, -infinity, 0) / p)); }
  FIT_DDF(x) { return where(x >= 0, 0, exp(clamp(x, -infinity, 0) / p) / p); }
};

// scale elu(x, alpha), with the numbers of Klambauer et al. 2017
struct Selu : FromInput {
  static constexpr double scale = 1.0507009873554804934193349852946, alpha = 1.6732632423543772848170429916717;
  FIT_F(x) { return select(x <= V(0), V(scale * alpha) * math::expm1(x), V(scale) * x); }
  FIT_DF(x) {
    const V c = clamp(x, -1000, 0);
    return dy * select(x > V(0), V(scale), math::Decay<V>(c).times(V(scale * alpha)));
  }
  FIT_DDF(x) { return where(x >= 0, 0, exp(clamp(x, -1000, 0)) * (scale * alpha)); }
};

// f = x Phi(x), with Phi(-a) = e^(-a^2 / 2) mills(a); f' = Phi(x) + x phi(x), with the density phi = Phi'
struct Gelu : FromInput {
  static constexpr double density = 0.39894228040143267794;  // phi(0) = 1 / sqrt(2 pi)
  FIT_F(x) {
    const V a = math::size_to<V>(x, 18);
    return clamp(x, 0, infinity) - math::Decay<V>::gaussian(a, 0.5).times(a * math::mills(a));
  }
  FIT_DF(x) {
    const V a = math::size_to<V>(x, 18);
    const V tail = math::Decay<V>::gaussian(a, 0.5).times(math::GeluSlope::scaled(a));
    return dy * select(x < V(0), tail, V(1) - tail);
  }
  // f'' = phi (2 - x^2), because phi' = -x phi
  FIT_DDF(x) {
    constexpr double root_2 = 1.4142135623730951;
    const Tensor c = near(x), size = abs(c);
    return times_gaussian(from_zero(size, root_2, -9.667293313452913037e-17) * (size + root_2) * -density, c, 0.5);
  }
};

// f = x s with s = sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3); f' = s (1 + x (1 - s) 2 u')
struct GeluTanh : FromInput {
  static constexpr double scale = 2 * 0.79788456080286535588, cubic = 0.044715 * scale;
  FIT_F(x) {
    using Gate = math::GeluTanhGate<V>;
    return Gate(clamp(x, -Gate::limit, Gate::limit)).s.times(clamp(x, -Gate::limit, infinity));
  }
  FIT_DF(x) {
    using Gate = math::GeluTanhGate<V>;
    const Gate gate(clamp(x, -Gate::limit, Gate::limit));
    const V twice_du = math::polynomial(gate.square, scale, 3 * cubic);
    const V plain = gate.s.times(xsimd::fma(gate.x * gate.s.rest(), twice_du, V(1)));
    return dy * math::beside_zero<math::GeluTanhSlopeZero>(x, plain);
  }
  // e^-u for x >= 0. u is cut so that its largest parts are exact: h is x in multiples of 1/4, and the first parts of
  // the two factors have 6 bits. So the error does not grow with u.
  template <class Tensor>
  static Tensor exp_of_minus_u(const Tensor& x) {
    constexpr double c = scale / 2, k = cubic / 2, c1 = 0.796875, c2 = 0.001009560802865355879892, k1 = 0.03515625,
                     k2 = 0.0005211581363001243881694;
    const Tensor h = round(x.detach() * 4) / 4, rest = (x - h) * ((x * x + x * h + h * h) * k + c);
    return exp(-(rest + h * c2 + h * h * h * k2)) * exp(h * -c1) * exp(h * h * h * -k1);
  }
  // With t = tanh u: f' = (1 + t) / 2 + x (1 - t^2) u' / 2, f'' = (1 - t^2) (a - b t) with a = u' + x u'' / 2 and
  // b = x u'^2, and 1 - t^2 = 4 s (1 - s). Near a zero z of f'', as for silu: of a and b, differences to those at z.
  FIT_DDF(x) {
    constexpr double z = 1.4185040087908283, t = 0.8436303599242671, h = scale / 2, k = 0.044715;
    const Tensor c = near(x), square = c * c, twice_u = c * (scale + square * cubic);
    const Tensor du = (scale + square * (3 * cubic)) * 0.5, a = (square * (6 * k) + 1) * h, b = c * du * du;
    const Tensor size = abs(c), d = from_zero(size, z, 8.089265124388304308e-17);
    const Tensor squares = square + size * z + z * z, fourths = square * squares + (size + z) * (z * z * z);
    const Tensor ab = d * ((size + z) * (6 * h * k) - (squares * (6 * k) + fourths * (9 * k * k) + 1) * (t * h * h));
    const Tensor v = tanh(d * (squares * k + 1) * h), beside = (ab + v * (a * t - abs(b))) / (v * t + 1);
    const Tensor factor = where(abs(d) < 0.5, beside, a - b * tanh(twice_u * 0.5)) * 4;
    return times_sigmoid_slope(factor, exp_of_minus_u(size));
  }
};

#undef FIT_F
#undef FIT_DF
#undef FIT_DDF

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels::functions
