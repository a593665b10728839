#include "support/oracles/exact_functions.hpp"

#include <algorithm>
#include <cmath>

// One element costs about a nanosecond for each function of libm, so that all 2^32 numbers of float32 take a minute:
// this file is compiled for speed, and GCC calls the vectors of glibc's libmvec. These are within 4 units of double, a
// hundred-millionth of a unit of float32.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__)
#if __GLIBC_PREREQ(2, 35)
#define FIT_LIBMVEC
#define FIT_VECTORS(name) extern "C" __attribute__((simd("notinbranch"))) double name(double) noexcept;
FIT_VECTORS(exp)
FIT_VECTORS(expm1)
FIT_VECTORS(log)
FIT_VECTORS(log1p)
FIT_VECTORS(log2)
FIT_VECTORS(log10)
FIT_VECTORS(sin)
FIT_VECTORS(cos)
FIT_VECTORS(tan)
FIT_VECTORS(asin)
FIT_VECTORS(acos)
FIT_VECTORS(atan)
FIT_VECTORS(sinh)
FIT_VECTORS(cosh)
FIT_VECTORS(tanh)
FIT_VECTORS(asinh)
FIT_VECTORS(acosh)
FIT_VECTORS(atanh)
FIT_VECTORS(erf)
FIT_VECTORS(erfc)
#undef FIT_VECTORS
#endif
#endif

namespace fit::test::exact {
namespace {

/// x, or the nearer end of [-most, most] in double, where libmvec is slow beyond. Results are 0 or infinite in float32
/// there.
template <class R>
R limited(R x, R most) {
  if constexpr (sizeof(R) > sizeof(double)) return x;
  return std::min(std::max(x, -most), most);
}
template <class R>
R exp_of(R x) {
  return std::exp(limited(x, R(700)));
}
template <class R>
R expm1_of(R x) {
  return std::expm1(limited(x, R(700)));
}
template <class R>
R sinh_of(R x) {
  return std::sinh(limited(x, R(700)));
}
template <class R>
R cosh_of(R x) {
  return std::cosh(limited(x, R(700)));
}

/// f(x), or NaN where x is not among f's arguments: libmvec is slow there. `safe` is one.
template <class R, class F>
R within(bool inside, R x, double safe, const F& f) {
  return f(inside ? x : static_cast<R>(safe)) + (inside ? R(0) : R(NAN));
}

/// x - root, for a root in two parts, the first of which is a double.
template <class R>
R from_root(R x, double root, long double rest) {
  return (x - static_cast<R>(root)) - static_cast<R>(rest);
}

template <class R>
R logistic(R x) {
  const R e = exp_of(-std::abs(x));
  return (x < 0 ? e : 1) / (1 + e);
}
template <class R>
R logistic_slope(R x) {
  const R e = exp_of(-std::abs(x));
  return e / ((1 + e) * (1 + e));
}
template <class R>
R log_of_one_plus_exp(R x) {
  return std::max(x, R(0)) + std::log1p(exp_of(-std::abs(x)));
}

constexpr long double selu_scale = 1.0507009873554804934193349852946L, selu_alpha = 1.6732632423543772848170429916717L;

template <class R>
R bounded(R x, int low, int high) {
  return std::min(std::max(x, R(low)), R(high));
}

/// e^(-f x^2), with the rounding error of the square.
template <class R>
R gaussian(R x, R f) {
  if (std::abs(x) > 200) return 0;
  const R square = x * x;
  return exp_of(-f * square) * (1 - f * std::fma(x, x, -square));
}
template <class R>
R normal_density(R x) {
  return gaussian(x, R(0.5)) / std::sqrt(2 * std::acos(R(-1)));
}
/// erfc(-x / sqrt 2) / 2, with the rounding error of the argument.
template <class R>
R normal_cdf(R x) {
  if (std::abs(x) > 200) return x > 0 ? 1 : 0;
  constexpr double half_root = 0.7071067811865476;
  constexpr long double rest = -4.833646656726456518593584e-17L;
  const R z = -x * R(half_root), error = std::fma(-x, R(half_root), -z) - x * R(rest);
  return std::erfc(limited(z, R(26))) / 2 - gaussian(z, R(1)) / std::sqrt(std::acos(R(-1))) * error;
}

// x s(w) for an odd w(x) with slope dw: silu has w = x. The first derivative is
// s(w) (1 + x dw s(-w)) = e^w / (1 + e^w)^2 (1 + e^w + x dw). Near its zero, the sum is a difference to that at the
// zero.
template <class R>
R first_of_gate(R x, R w, R dw) {
  return logistic(w) * (1 + x * dw * logistic(-w));
}
/// The second is s(w) s(-w) k, with k = a - b tanh(w / 2). Near its zero, tanh is t (1 + …) by the sum formula:
/// tanh(p + q) = (t + u) / (1 + t u) with u = tanh q; `difference` is a - b t there.
template <class R>
R second_near_zero(R slope, R a, R b, R t, R u, R difference) {
  return slope * (difference + u * (a * t - b)) / (1 + t * u);
}

template <class R>
R silu_first(R x) {
  const R d = from_root(x, -1.2784645427610737, -1.094699418309343743045045e-16L);
  if (std::abs(d) > R(0.5)) return first_of_gate(x, x, R(1));
  const R at_root = R(0.278464542761073795109358739022980155439L);  // e^root
  return logistic_slope(x) * (d + at_root * expm1_of(d));
}
template <class R>
R silu_second(R x) {
  if (std::abs(x) > 20000) return 0;
  const R d = from_root(std::abs(x), 2.3993572805154675, 1.846487285535336354238432e-16L);
  if (std::abs(d) > R(0.5)) return logistic_slope(x) * (2 - x * std::tanh(x / 2));
  const R root = R(2.399357280515467667832739697282283888523L), t = 2 / root;
  return second_near_zero(logistic_slope(x), R(2), root + d, t, std::tanh(d / 2), -d * t);
}

/// The first derivative of gelu, cdf + x density; near its zero by the Taylor series, with
/// phi^(n+1) = -x phi^(n) - n phi^(n-1).
template <class R>
R gelu_first(R x) {
  const R d = from_root(x, -0.7517915246935645, 1.495675917700988327320555e-17L);
  if (std::abs(d) > R(0.25)) return std::abs(x) > 200 ? R(x > 0) : normal_cdf(x) + x * normal_density(x);
  const R root = R(-0.7517915246935644574579049467795240396645L);
  R older = 0, old = 0, phi = normal_density(root), sum = 0, power = 1;  // phi^(n-2), phi^(n-1), phi^(n)
  for (int n = 0; n < 40; ++n) {
    power *= d / R(n + 1);
    sum += ((2 - root * root) * phi - 2 * R(n) * root * old - R(n) * R(n - 1) * older) * power;
    const R next = -root * phi - R(n) * old;
    older = old, old = phi, phi = next;
  }
  return sum;
}
template <class R>
R gelu_second(R x) {
  if (std::abs(x) > 200) return 0;
  return -from_root(std::abs(x), 1.4142135623730951, -9.667293313452913037187169e-17L) *
         (std::sqrt(R(2)) + std::abs(x)) * normal_density(x);
}

/// gelu tanh is x s(w), w = c (x + k x^3).
template <class R>
struct TanhForm {
  R k = R(0.044715L), c = 2 * std::sqrt(2 / std::acos(R(-1)));
  R w(R x) const { return c * x * (1 + k * x * x); }
  R dw(R x) const { return c * (1 + 3 * k * x * x); }
};
template <class R>
R gelu_tanh_first(R x) {
  const TanhForm<R> f;
  const R d = from_root(x, -0.7524614220710163, 3.635560509207686845016705e-17L);
  if (std::abs(d) > R(0.5)) return first_of_gate(x, f.w(x), f.dw(x));
  const R root = R(-0.7524614220710162584879544432889160906054L), squares = x * x + x * root + root * root;
  const R up = f.c * d * (1 + f.k * squares);  // w(x) - w(root)
  return logistic_slope(f.w(x)) * (exp_of(f.w(root)) * expm1_of(up) + f.c * d * (1 + 3 * f.k * squares));
}
template <class R>
R gelu_tanh_second(R x) {
  if (std::abs(x) > 500) return 0;
  const TanhForm<R> f;
  const R h = f.c / 2, a = h * (1 + 6 * f.k * x * x), slope = 1 + 3 * f.k * x * x, b = x * h * h * slope * slope;
  const R of_slope = 4 * logistic_slope(f.w(x));
  const R z = std::abs(x), d = from_root(z, 1.4185040087908283, 8.089265124388304308449604e-17L);
  if (std::abs(d) > R(0.5)) return of_slope * (a - b * std::tanh(f.w(x) / 2));
  const R r = R(1.418504008790828355548033545599642697924L), t = std::tanh(f.w(r) / 2);
  const R squares = z * z + z * r + r * r,
          fourths = z * z * z * z + z * z * z * r + z * z * r * r + z * r * r * r + r * r * r * r;
  const R difference = d * (6 * h * f.k * (z + r) - t * h * h * (1 + 6 * f.k * squares + 9 * f.k * f.k * fourths));
  return second_near_zero(of_slope, a, std::abs(b), t, std::tanh(h * d * (1 + f.k * squares)), difference);
}

/// mish is x w, w = tanh(softplus(x)): w' = s (1 - w^2), s = sigmoid(x).
template <class R>
struct MishParts {
  explicit MishParts(R x) : s(logistic(x)), left(logistic(-x)) {
    const R e = exp_of(-std::abs(x)), n = x > 0 ? 1 + 2 * e : e * (e + 2), d = n + 2 * (x > 0 ? e * e : R(1));
    w = n / d;
    rest = (x > 0 ? 2 * e * e : R(2)) / d;  // 1 - w
  }
  R s, left, w, rest;
};
/// With e = e^x: the first derivative is e (4 (x + 1) + 4 e^2 + e^3 + e (4 x + 6)) / (e^2 + 2 e + 2)^2. Next to its
/// zero, the sum is a difference to that at the zero, by e^(n x) - e^(n root) = e^(n root) expm1(n d).
template <class R>
R mish_first(R x) {
  const R d = from_root(x, -1.1924312145154952, -4.848482984803104554936137e-17L);
  const MishParts<R> m(x);
  if (std::abs(d) > R(0.5)) return m.w + x * m.s * m.rest * (1 + m.w);
  const R root = R(-1.19243121451549521213758834042073940560069L), E = R(0.303482535281528928821436743539643058364491L);
  const R g = expm1_of(d), e = exp_of(x), below = e * e + 2 * e + 2;
  const R sum =
      4 * d + 4 * E * E * expm1_of(2 * d) + E * E * E * expm1_of(3 * d) + E * (g * (4 * root + 6) + 4 * d * (1 + g));
  return e * sum / (below * below);
}
/// The second derivative is s (1 - w^2) / ((1 + e) (e^2 + 2 e + 2)) times
/// 4 + 8 e + 6 e^2 + 2 e^3 + x (2 + 2 e - 3 e^2 - 2 e^3). This is its difference to that at a zero `root`, E = e^root.
template <class R>
R mish_curve(R x, R d, R root, R E) {
  const R e = exp_of(x);
  return d * (2 + 2 * e - 3 * e * e - 2 * e * e * e) + (8 + 2 * root) * E * expm1_of(d) +
         (6 - 3 * root) * E * E * expm1_of(2 * d) + (2 - 2 * root) * E * E * E * expm1_of(3 * d);
}
template <class R>
R mish_second(R x) {
  if (std::abs(x) > 20000) return 0;
  const MishParts<R> m(x);
  const R slope = m.s * m.rest * (1 + m.w), e = exp_of(x), below = (1 + e) * (e * e + 2 * e + 2);
  const R lower = from_root(x, -2.256376396360793, -1.070317487501924793774364e-16L),
          upper = from_root(x, 1.4905711794854284, 7.126036715834262989864248e-17L);
  if (std::abs(lower) < R(0.5))
    return slope / below *
           mish_curve(x, lower, R(-2.25637639636079312000574854395016390626403L),
                      R(0.104729295466514365932842138106839520696219L));
  if (std::abs(upper) < R(0.5))
    return slope / below *
           mish_curve(x, upper, R(1.49057117948542845929441890819790198L),
                      R(4.43963062086917333186230072781164163297778L));
  return slope * (2 + x * (m.left - 2 * m.w * m.s));
}

template <class R, class F>
void each(const F& f, const R* x, R* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}
#ifdef FIT_LIBMVEC
template <class F>
__attribute__((target("avx2,fma"), flatten)) void each_avx2(const F& f, const double* x, double* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}
#endif

template <class R, class F>
Plain<R> over(const F& f) {
#ifdef FIT_LIBMVEC
  if constexpr (sizeof(R) == sizeof(double))
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      return [f](const double* x, double* y, std::int64_t n) { each_avx2(f, x, y, n); };
#endif
  return [f](const R* x, R* y, std::int64_t n) { each(f, x, y, n); };
}

/// For f(x), f'(x) and f''(x) that take any type of number.
template <class F, class First, class Second>
Function function(std::string name, F f, First first, Second second) {
  return {std::move(name),
          {over<double>(f), over<double>(first), over<double>(second)},
          {over<long double>(f), over<long double>(first), over<long double>(second)}};
}

/// x^(eighths / 8), |eighths| < 32, by roots and products, which IEEE rounds exactly.
template <class R>
R power_of(R x, int eighths) {
  const int size = std::abs(eighths);
  const R half = std::sqrt(x), quarter = std::sqrt(half), eighth = std::sqrt(quarter);
  const R y = (size & 1 ? eighth : 1) * (size & 2 ? quarter : 1) * (size & 4 ? half : 1) * (size & 8 ? x : 1) *
              (size & 16 ? x * x : 1);
  return eighths < 0 ? 1 / y : y;
}

}  // namespace

Function power(double e, std::string name) {
  const auto times = [e](double k, double factor) {
    return [=](auto x) {
      using R = decltype(x);
      return factor == 0 ? R(0) : R(factor) * power_of(x, static_cast<int>(8 * (e - k)));
    };
  };
  return function(std::move(name), times(0, 1), times(1, e), times(2, e * (e - 1)));
}

std::vector<Function> transcendental() {
  const auto exp = [](auto x) { return exp_of(x); };
  const auto slope = [](auto x) { return logistic_slope(x); };
  return {
      function("exp", exp, exp, exp),
      function(
          "expm1", [](auto x) { return expm1_of(x); }, exp, exp),
      function(
          "log", [](auto x) { return within(x > 0, x, 1, [](auto v) { return std::log(v); }); },
          [](auto x) { return 1 / x; }, [](auto x) { return -1 / x / x; }),
      function(
          "log1p", [](auto x) { return within(x >= -1, x, 1, [](auto v) { return std::log1p(v); }); },
          [](auto x) { return 1 / (1 + x); }, [](auto x) { return -1 / (1 + x) / (1 + x); }),
      function(
          "log2", [](auto x) { return within(x > 0, x, 1, [](auto v) { return std::log2(v); }); },
          [](auto x) { return 1 / (x * std::log(decltype(x)(2))); },
          [](auto x) { return -1 / (x * std::log(decltype(x)(2))) / x; }),
      function(
          "sqrt", [](auto x) { return std::sqrt(x); }, [](auto x) { return 1 / (2 * std::sqrt(x)); },
          [](auto x) { return -1 / (4 * x * std::sqrt(x)); }),
      function(
          "rsqrt", [](auto x) { return 1 / std::sqrt(x); }, [](auto x) { return -1 / (2 * x * std::sqrt(x)); },
          [](auto x) { return 3 / (4 * x * x * std::sqrt(x)); }),
      function(
          "sin", [](auto x) { return std::sin(x); }, [](auto x) { return std::cos(x); },
          [](auto x) { return -std::sin(x); }),
      function(
          "cos", [](auto x) { return std::cos(x); }, [](auto x) { return -std::sin(x); },
          [](auto x) { return -std::cos(x); }),
      function(
          "tan", [](auto x) { return std::tan(x); }, [](auto x) { return 1 + std::tan(x) * std::tan(x); },
          [](auto x) { return 2 * std::tan(x) * (1 + std::tan(x) * std::tan(x)); }),
      function(
          "asin", [](auto x) { return within(std::abs(x) <= 1, x, 0.5, [](auto v) { return std::asin(v); }); },
          [](auto x) { return 1 / std::sqrt((1 - x) * (1 + x)); },
          [](auto x) { return x / ((1 - x) * (1 + x)) / std::sqrt((1 - x) * (1 + x)); }),
      function(
          "acos", [](auto x) { return within(std::abs(x) <= 1, x, 0.5, [](auto v) { return std::acos(v); }); },
          [](auto x) { return -1 / std::sqrt((1 - x) * (1 + x)); },
          [](auto x) { return -x / ((1 - x) * (1 + x)) / std::sqrt((1 - x) * (1 + x)); }),
      function(
          "atan", [](auto x) { return std::atan(x); }, [](auto x) { return 1 / (1 + x * x); },
          [](auto x) { return -2 * x / (1 + x * x) / (1 + x * x); }),
      function(
          "tanh", [](auto x) { return std::tanh(x); }, [](auto x) { return 4 * logistic_slope(2 * x); },
          [](auto x) { return -8 * logistic_slope(2 * x) * std::tanh(x); }),
      function(
          "erf", [](auto x) { return std::erf(x); },
          [](auto x) { return 2 / std::sqrt(std::acos(decltype(x)(-1))) * gaussian(x, decltype(x)(1)); },
          [](auto x) { return -4 / std::sqrt(std::acos(decltype(x)(-1))) * gaussian(x, decltype(x)(1)) * x; }),
      function(
          "sigmoid", [](auto x) { return logistic(x); }, slope,
          [](auto x) { return -logistic_slope(x) * std::tanh(x / 2); }),
      function(
          "log_sigmoid", [](auto x) { return -log_of_one_plus_exp(-x); }, [](auto x) { return logistic(-x); },
          [](auto x) { return -logistic_slope(x); }),
      function(
          "softplus", [](auto x) { return log_of_one_plus_exp(x); }, [](auto x) { return logistic(x); }, slope),
      function(
          "silu", [](auto x) { return x * logistic(x); }, [](auto x) { return silu_first(x); },
          [](auto x) { return silu_second(x); }),
      function(
          "gelu", [](auto x) { return x * normal_cdf(x); }, [](auto x) { return gelu_first(x); },
          [](auto x) { return gelu_second(x); }),
      function(
          "gelu tanh", [](auto x) { return x * logistic(TanhForm<decltype(x)>().w(x)); },
          [](auto x) { return gelu_tanh_first(x); }, [](auto x) { return gelu_tanh_second(x); }),
      function(
          "mish", [](auto x) { return x * MishParts<decltype(x)>(x).w; }, [](auto x) { return mish_first(x); },
          [](auto x) { return mish_second(x); }),
      function(
          "log10", [](auto x) { return within(x > 0, x, 1, [](auto v) { return std::log10(v); }); },
          [](auto x) { return 1 / (x * std::log(decltype(x)(10))); },
          [](auto x) { return -1 / (x * std::log(decltype(x)(10))) / x; }),
      function(
          "sinh", [](auto x) { return sinh_of(x); }, [](auto x) { return cosh_of(x); },
          [](auto x) { return sinh_of(x); }),
      function(
          "cosh", [](auto x) { return cosh_of(x); }, [](auto x) { return sinh_of(x); },
          [](auto x) { return cosh_of(x); }),
      function(
          "asinh", [](auto x) { return std::asinh(x); }, [](auto x) { return 1 / std::sqrt(1 + x * x); },
          [](auto x) { return -x / (1 + x * x) / std::sqrt(1 + x * x); }),
      function(
          "acosh", [](auto x) { return within(x >= 1, x, 2, [](auto v) { return std::acosh(v); }); },
          [](auto x) { return 1 / (std::sqrt(x - 1) * std::sqrt(x + 1)); },
          [](auto x) { return -x / ((x - 1) * (x + 1)) / (std::sqrt(x - 1) * std::sqrt(x + 1)); }),
      function(
          "atanh", [](auto x) { return within(std::abs(x) <= 1, x, 0.5, [](auto v) { return std::atanh(v); }); },
          [](auto x) { return std::abs(x) > 1 ? decltype(x)(NAN) : 1 / ((1 - x) * (1 + x)); },
          [](auto x) {
            return std::abs(x) > 1 ? decltype(x)(NAN) : 2 * x / ((1 - x) * (1 + x)) / ((1 - x) * (1 + x));
          }),
      function(
          "softplus 2", [](auto x) { return log_of_one_plus_exp(2 * x) / 2; }, [](auto x) { return logistic(2 * x); },
          [](auto x) { return 2 * logistic_slope(2 * x); }),
      function(
          "softsign", [](auto x) { return x / (1 + std::abs(x)); },
          [](auto x) { return 1 / (1 + std::abs(x)) / (1 + std::abs(x)); },
          [](auto x) { return (x > 0 ? -2 : 2) / (1 + std::abs(x)) / (1 + std::abs(x)) / (1 + std::abs(x)); }),
      function(
          "celu 0.5", [](auto x) { return x > 0 ? x : expm1_of(2 * x) / 2; },
          [](auto x) { return x > 0 ? 1 : exp_of(2 * x); }, [](auto x) { return x >= 0 ? 0 : 2 * exp_of(2 * x); }),
      function(
          "selu",
          [](auto x) {
            using R = decltype(x);
            return R(selu_scale) * (x > 0 ? x : R(selu_alpha) * expm1_of(x));
          },
          [](auto x) {
            using R = decltype(x);
            return R(selu_scale) * (x > 0 ? 1 : R(selu_alpha) * exp_of(x));
          },
          [](auto x) { return x >= 0 ? 0 : decltype(x)(selu_scale * selu_alpha) * exp_of(x); }),
      function(
          "elu 1.25", [](auto x) { return x > 0 ? x : decltype(x)(1.25) * expm1_of(x); },
          [](auto x) { return x > 0 ? 1 : decltype(x)(1.25) * exp_of(x); },
          [](auto x) { return x >= 0 ? 0 : decltype(x)(1.25) * exp_of(x); }),
  };
}

std::vector<Function> piecewise() {
  constexpr auto zero = [](auto x) { return x * 0; };
  return {
      function(
          "relu", [](auto x) { return x > 0 ? x : 0; }, [](auto x) { return decltype(x)(x > 0); }, zero),
      function(
          "abs", [](auto x) { return std::abs(x); }, [](auto x) { return decltype(x)((x > 0) - (x < 0)); }, zero),
      function(
          "leaky_relu 0.125", [](auto x) { return x > 0 ? x : x / 8; },
          [](auto x) { return x > 0 ? decltype(x)(1) : decltype(x)(0.125); }, zero),
      function(
          "hardtanh", [](auto x) { return bounded(x, -1, 1); }, [](auto x) { return decltype(x)(std::abs(x) < 1); },
          zero),
      function(
          "relu6", [](auto x) { return bounded(x, 0, 6); }, [](auto x) { return decltype(x)(x > 0 && x < 6); }, zero),
      function(
          "hardsigmoid", [](auto x) { return bounded(x + 3, 0, 6) / 6; },
          [](auto x) { return decltype(x)(std::abs(x) < 3) / 6; }, zero),
      function(
          "hardswish", [](auto x) { return x > 3 ? x : bounded(x, -3, 3) * bounded(x + 3, 0, 6) / 6; },
          [](auto x) { return x <= -3 ? 0
                              : x < 3 ? (2 * x + 3) / 6
                                      : 1; },
          [](auto x) { return decltype(x)(std::abs(x) < 3) / 3; }),
      function(
          "floor", [](auto x) { return std::floor(x); }, zero, zero),
      function(
          "ceil", [](auto x) { return std::ceil(x); }, zero, zero),
      function(
          "round", [](auto x) { return std::nearbyint(x); }, zero, zero),
      function(
          "trunc", [](auto x) { return std::trunc(x); }, zero, zero),
      function(
          "sign", [](auto x) { return decltype(x)((x > 0) - (x < 0)); }, zero, zero),
  };
}

}  // namespace fit::test::exact
