#include <cmath>

#include "support/oracles/xtensor_oracle.hpp"

// Arithmetic, choices and functions of one number.
namespace fit::test::oracles_elementwise {
namespace {

std::vector<Oracle> arithmetic() {
  return {
      {"add", [](const auto& in) { return in[0] + in[1]; }},
      {"add, a number", [](const auto& in) { return in[0] + 1.5; }},
      {"sub", [](const auto& in) { return in[0] - in[1]; }},
      {"sub, from a number", [](const auto& in) { return 1.5 - in[0]; }},
      {"mul", [](const auto& in) { return in[0] * in[1]; }},
      {"mul, by a number", [](const auto& in) { return in[0] * -0.7; }},
      {"div", [](const auto& in) { return in[0] / in[1]; }},
      {"div, a number by", [](const auto& in) { return 0.3 / in[0]; }},
      {"neg", [](const auto& in) { return -in[0]; }},
      {"square", [](const auto& in) { return xt::square(in[0]); }},
      {"reciprocal", [](const auto& in) { return 1. / in[0]; }},
      {"pow", [](const auto& in) { return xt::pow(in[0], in[1]); }},
      {"pow, cubed", [](const auto& in) { return xt::cube(in[0]); }},
      {"pow, a fraction", [](const auto& in) { return xt::pow(in[0], 1.7); }},
      {"pow, of a number", [](const auto& in) { return xt::pow(1.7, in[0]); }},
      // b is positive here, and the result has the sign of b.
      {"remainder", [](const auto& in) { return xt::fmod(xt::fmod(in[0], in[1]) + in[1], in[1]); }},
      {"atan2", [](const auto& in) { return xt::atan2(in[0], in[1]); }},
  };
}
const RegisterOracles arithmetic_oracles(arithmetic);

std::vector<Oracle> choices() {
  return {
      {"clamp", [](const auto& in) { return xt::clip(in[0], -0.5, 0.7); }},
      {"clamp_min", [](const auto& in) { return xt::maximum(in[0], -0.5); }},
      {"clamp_max", [](const auto& in) { return xt::minimum(in[0], 0.5); }},
      {"maximum", [](const auto& in) { return xt::maximum(in[0], in[1]); }},
      {"minimum", [](const auto& in) { return xt::minimum(in[0], in[1]); }},
      {"where",
       [](const auto& in) {
         return xt::where(xt::xarray<bool>{{true, false, true}, {true, false, true}}, in[0], in[1]);
       }},
      {"masked_fill",
       [](const auto& in) {
         return xt::where(xt::xarray<bool>{true, false, true}, -1.5, in[0]);
       }},
      {"nan_to_num", [](const auto& in) { return xt::nan_to_num(in[0]); }},
  };
}
const RegisterOracles choice_oracles(choices);

std::vector<Oracle> functions() {
  return {
      {"exp", [](const auto& in) { return xt::exp(in[0]); }},
      {"log", [](const auto& in) { return xt::log(in[0]); }},
      {"log1p", [](const auto& in) { return xt::log1p(in[0]); }},
      {"log2", [](const auto& in) { return xt::log2(in[0]); }},
      {"expm1", [](const auto& in) { return xt::expm1(in[0]); }},
      {"sqrt", [](const auto& in) { return xt::sqrt(in[0]); }},
      {"rsqrt", [](const auto& in) { return 1. / xt::sqrt(in[0]); }},
      {"sin", [](const auto& in) { return xt::sin(in[0]); }},
      {"cos", [](const auto& in) { return xt::cos(in[0]); }},
      {"tan", [](const auto& in) { return xt::tan(in[0]); }},
      {"asin", [](const auto& in) { return xt::asin(in[0]); }},
      {"acos", [](const auto& in) { return xt::acos(in[0]); }},
      {"atan", [](const auto& in) { return xt::atan(in[0]); }},
      {"log10", [](const auto& in) { return xt::log10(in[0]); }},
      {"sinh", [](const auto& in) { return xt::sinh(in[0]); }},
      {"cosh", [](const auto& in) { return xt::cosh(in[0]); }},
      {"asinh", [](const auto& in) { return xt::asinh(in[0]); }},
      {"acosh", [](const auto& in) { return xt::acosh(in[0]); }},
      {"atanh", [](const auto& in) { return xt::atanh(in[0]); }},
      {"tanh", [](const auto& in) { return xt::tanh(in[0]); }},
      {"erf", [](const auto& in) { return xt::erf(in[0]); }},
      {"sigmoid", [](const auto& in) { return 1. / (1. + xt::exp(-in[0])); }},
      {"log_sigmoid", [](const auto& in) { return -xt::log1p(xt::exp(-in[0])); }},
      {"silu", [](const auto& in) { return in[0] / (1. + xt::exp(-in[0])); }},
      {"softplus", [](const auto& in) { return xt::log1p(xt::exp(in[0])); }},
      {"relu", [](const auto& in) { return xt::maximum(in[0], 0.); }},
      {"abs", [](const auto& in) { return xt::abs(in[0]); }},
      {"leaky_relu, leaky_relu 0.125", [](const auto& in) { return xt::maximum(in[0], 0.125 * in[0]); }},
      {"elu, elu 1.25", [](const auto& in) { return xt::where(in[0] > 0., in[0], 1.25 * xt::expm1(in[0])); }},
      {"gelu", [](const auto& in) { return 0.5 * in[0] * xt::erfc(-in[0] / std::sqrt(2.)); }},
      {"gelu, gelu tanh",
       [](const auto& in) {
         return 0.5 * in[0] * (1. + xt::tanh(std::sqrt(2 / std::acos(-1.)) * (in[0] + 0.044715 * xt::cube(in[0]))));
       }},
      {"floor", [](const auto& in) { return xt::floor(in[0]); }},
      {"ceil", [](const auto& in) { return xt::ceil(in[0]); }},
      {"round", [](const auto& in) { return xt::nearbyint(in[0]); }},
      {"trunc", [](const auto& in) { return xt::trunc(in[0]); }},
      {"sign", [](const auto& in) { return xt::sign(in[0]); }},
  };
}
const RegisterOracles function_oracles(functions);

}  // namespace
}  // namespace fit::test::oracles_elementwise
