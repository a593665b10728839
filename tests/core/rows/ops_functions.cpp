#include <cmath>
#include <utility>

#include "support/tables/accuracy_table.hpp"
#include "support/tables/function_rows.hpp"

namespace fit::test {
namespace {

using kernels::Function;
using L = long double;

const L pi = std::acos(-1.L);
L finite(L x) { return std::isnan(x) ? x : std::fmin(std::fmax(x, -2000.L), 2000.L); }  // infinity times 0 is NaN
L logistic(L x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
L normal_cdf(L x) { return std::erfc(-x / std::sqrt(2.L)) / 2; }
L normal_density(L x) { return std::exp(-x * x / 2) / std::sqrt(2 * pi); }
constexpr L cubic = 0.044715L;
L twice_u(L x) { return 2 * std::sqrt(2 / pi) * (x + cubic * x * x * x); }

L clamped(L x, L low, L high) { return std::isnan(x) ? x : std::fmin(std::fmax(x, low), high); }
L tanh_softplus(L x) { return std::tanh(std::log1p(std::exp(x))); }
const L selu_scale = 1.0507009873554804934193349852946L, selu_alpha = 1.6732632423543772848170429916717L;

double any_size(double) { return 0; }
L no_slope(L) { return 0; }
const Domain between_whole{-2, 2, {-2, -1, 0, 1, 2}}, between_halves{-2, 2, {-1.5, -0.5, 0.5, 1.5}};
// 1/4 near a zero of the derivative.
double away_from_gelu_zero(double x) { return std::abs(x + 0.752) < 0.25 ? 0.25 : 0; }
const Domain above_one{1.2, 3}, inner{-2.5, 2.5}, between_ends{-4, 4, {-3, -1, 1, 3}}, between_six{-1, 7, {0, 6}};
double away_from_mish_zero(double x) { return std::abs(x + 1.192) < 0.25 ? 0.25 : 0; }
double away_from_swish_zero(double x) { return std::abs(x + 1.5) < 0.25 ? 0.25 : 0; }
double away_from_silu_zero(double x) { return std::abs(x + 1.278) < 0.25 ? 0.25 : 0; }

}  // namespace

const std::vector<FunctionRow>& function_rows() {
  static const std::vector<FunctionRow> rows = {
      {"exp", "exp", Function::exp, [](const Tensor& x) { return exp(x); }, domain::real,
       [](L x) { return std::exp(x); }, [](L y) { return y; }},
      {"log", "log", Function::log, [](const Tensor& x) { return log(x); }, domain::positive,
       [](L x) { return std::log(x); }, [](L x) { return 1 / x; }},
      {"log1p", "log1p", Function::log1p, [](const Tensor& x) { return log1p(x); }, domain::unit,
       [](L x) { return std::log1p(x); }, [](L x) { return 1 / (1 + x); }},
      {"log2", "log2", Function::log2, [](const Tensor& x) { return log2(x); }, domain::positive,
       [](L x) { return std::log2(x); }, [](L x) { return 1 / (x * std::log(2.L)); }},
      {"log10", "log10", Function::log10, [](const Tensor& x) { return log10(x); }, domain::positive,
       [](L x) { return std::log10(x); }, [](L x) { return 1 / (x * std::log(10.L)); }},
      {"sinh", "sinh", Function::sinh, [](const Tensor& x) { return sinh(x); }, domain::real,
       [](L x) { return std::sinh(x); }, [](L x) { return std::cosh(finite(x)); }},
      {"cosh", "cosh", Function::cosh, [](const Tensor& x) { return cosh(x); }, domain::real,
       [](L x) { return std::cosh(x); }, [](L x) { return std::sinh(finite(x)); }},
      {"asinh", "asinh", Function::asinh, [](const Tensor& x) { return asinh(x); }, domain::real,
       [](L x) { return std::asinh(x); }, [](L x) { return 1 / std::sqrt(1 + x * x); }},
      {"acosh", "acosh", Function::acosh, [](const Tensor& x) { return acosh(x); }, above_one,
       [](L x) { return std::acosh(x); }, [](L x) { return 1 / (std::sqrt(x - 1) * std::sqrt(x + 1)); }},
      {"atanh", "atanh", Function::atanh, [](const Tensor& x) { return atanh(x); }, domain::unit,
       [](L x) { return std::atanh(x); }, [](L x) { return std::abs(x) > 1 ? NAN : 1 / ((1 - x) * (1 + x)); }},
      {"expm1", "expm1", Function::expm1, [](const Tensor& x) { return expm1(x); }, domain::real,
       [](L x) { return std::expm1(x); }, [](L x) { return std::exp(finite(x)); }},
      {"sqrt", "sqrt", Function::sqrt, [](const Tensor& x) { return sqrt(x); }, domain::positive,
       [](L x) { return std::sqrt(x); }, [](L y) { return 1 / (2 * y); }},
      {"rsqrt", "rsqrt", Function::rsqrt, [](const Tensor& x) { return rsqrt(x); }, domain::positive,
       [](L x) { return 1 / std::sqrt(x); }, [](L y) { return -y * y * y / 2; }},
      {"sin", "sin", Function::sin, [](const Tensor& x) { return sin(x); }, domain::real,
       [](L x) { return std::sin(x); }, [](L x) { return std::cos(x); }},
      {"cos", "cos", Function::cos, [](const Tensor& x) { return cos(x); }, domain::real,
       [](L x) { return std::cos(x); }, [](L x) { return -std::sin(x); }},
      {"tan", "tan", Function::tan, [](const Tensor& x) { return tan(x); }, domain::unit,
       [](L x) { return std::tan(x); }, [](L y) { return 1 + y * y; }},
      {"asin", "asin", Function::asin, [](const Tensor& x) { return asin(x); }, domain::unit,
       [](L x) { return std::asin(x); }, [](L x) { return 1 / std::sqrt((1 - x) * (1 + x)); }},
      {"acos", "acos", Function::acos, [](const Tensor& x) { return acos(x); }, domain::unit,
       [](L x) { return std::acos(x); }, [](L x) { return -1 / std::sqrt((1 - x) * (1 + x)); }},
      {"atan", "atan", Function::atan, [](const Tensor& x) { return atan(x); }, domain::real,
       [](L x) { return std::atan(x); }, [](L x) { return 1 / (1 + x * x); }},
      {"tanh", "tanh", Function::tanh, [](const Tensor& x) { return tanh(x); }, domain::real,
       [](L x) { return std::tanh(x); }, [](L x) { return 4 * logistic(2 * x) * logistic(-2 * x); }},
      {"erf", "erf", Function::erf, [](const Tensor& x) { return erf(x); }, domain::real,
       [](L x) { return std::erf(x); }, [](L x) { return 2 / std::sqrt(pi) * std::exp(-x * x); }},
      {"sigmoid", "sigmoid", Function::sigmoid, [](const Tensor& x) { return sigmoid(x); }, domain::real, logistic,
       [](L x) { return logistic(x) * logistic(-x); }},
      {"log_sigmoid", "log_sigmoid", Function::log_sigmoid, [](const Tensor& x) { return log_sigmoid(x); },
       domain::real, [](L x) { return std::isnan(x) ? x : std::fmin(x, 0.L) - std::log1p(std::exp(-std::abs(x))); },
       [](L x) { return logistic(-x); }},
      {"silu", "silu", Function::silu, [](const Tensor& x) { return silu(x); }, domain::real,
       [](L x) { return x > 1000 ? x : finite(x) * logistic(x); },
       [](L x) { return logistic(x) * (1 + finite(x) * logistic(-x)); }, 0, away_from_silu_zero},
      {"softplus", "softplus", Function::softplus, [](const Tensor& x) { return softplus(x); }, domain::real,
       [](L x) { return std::isnan(x) ? x : std::fmax(x, 0.L) + std::log1p(std::exp(-std::abs(x))); }, logistic},
      {"mish", "mish", Function::mish, [](const Tensor& x) { return mish(x); }, inner,
       [](L x) { return x > 1000 ? x : finite(x) * tanh_softplus(finite(x)); },
       [](L x) {
         const L c = finite(x), w = tanh_softplus(c);
         return w + c * logistic(c) * (1 - w * w);
       },
       0, away_from_mish_zero},
      {"softsign", "softsign", Function::softsign, [](const Tensor& x) { return softsign(x); }, domain::nonzero,
       [](L x) { return std::isinf(x) ? std::copysign(1.L, x) : x / (1 + std::abs(x)); },
       [](L x) { return 1 / ((1 + std::abs(x)) * (1 + std::abs(x))); }},
      {"hardtanh", "hardtanh", Function::hardtanh, [](const Tensor& x) { return hardtanh(x); }, between_ends,
       [](L x) { return clamped(x, -1, 1); }, [](L x) { return std::abs(x) < 1 ? 1.L : 0; }},
      {"relu6", "relu6", Function::relu6, [](const Tensor& x) { return relu6(x); }, between_six,
       [](L x) { return clamped(x, 0, 6); }, [](L x) { return x > 0 && x < 6 ? 1.L : 0; }},
      {"hardsigmoid", "hardsigmoid", Function::hardsigmoid, [](const Tensor& x) { return hardsigmoid(x); },
       between_ends, [](L x) { return clamped(x + 3, 0, 6) / 6; }, [](L x) { return std::abs(x) < 3 ? 1 / 6.L : 0; }},
      {"hardswish", "hardswish", Function::hardswish, [](const Tensor& x) { return hardswish(x); }, between_ends,
       [](L x) { return x > 3 ? x : clamped(x, -3, 3) * (clamped(x + 3, 0, 6) / 6); },
       [](L x) { return x <= -3 ? 0
                        : x < 3 ? (2 * x + 3) / 6
                                : 1; }, 0, away_from_swish_zero},
      {"celu 0.5", "celu", Function::celu, [](const Tensor& x) { return celu(x, 0.5); }, domain::nonzero,
       [](L x) { return x > 0 ? x : std::expm1(2 * x) / 2; }, [](L x) { return x > 0 ? 1 : std::exp(2 * x); }, 0.5},
      {"selu", "selu", Function::selu, [](const Tensor& x) { return selu(x); }, domain::nonzero,
       [](L x) { return selu_scale * (x > 0 ? x : selu_alpha * std::expm1(x)); },
       [](L x) { return selu_scale * (x > 0 ? 1 : selu_alpha * std::exp(x)); }},
      {"relu", "relu", Function::relu, [](const Tensor& x) { return relu(x); }, domain::nonzero,
       [](L x) { return x <= 0 ? 0 : x; }, [](L y) { return y <= 0 ? 0.L : 1; }},
      {"abs", "abs", Function::abs, [](const Tensor& x) { return abs(x); }, domain::nonzero,
       [](L x) { return std::abs(x); }, [](L x) { return x > 0   ? 1.L
                                                         : x < 0 ? -1
                                                                 : 0; }},
      {"leaky_relu 0.125", "leaky_relu", Function::leaky_relu, [](const Tensor& x) { return leaky_relu(x, 0.125); },
       domain::nonzero, [](L x) { return x > 0 ? x : x / 8; }, [](L x) { return x > 0 ? 1 : 0.125L; }, 0.125},
      {"elu 1.25", "elu", Function::elu, [](const Tensor& x) { return elu(x, 1.25); }, domain::nonzero,
       [](L x) { return x > 0 ? x : 1.25L * std::expm1(x); }, [](L x) { return x > 0 ? 1 : 1.25L * std::exp(x); },
       1.25},
      {"gelu", "gelu", Function::gelu, [](const Tensor& x) { return gelu(x); }, domain::real,
       [](L x) { return x > 100 ? x : finite(x) * normal_cdf(x); },
       [](L x) { return normal_cdf(x) + finite(x) * normal_density(x); }, 0, away_from_gelu_zero},
      {"gelu tanh", "gelu", Function::gelu_tanh, [](const Tensor& x) { return gelu(x, Gelu::tanh); }, domain::real,
       [](L x) { return x > 100 ? x : finite(x) * logistic(twice_u(x)); },
       [](L x) {
         const L c = finite(x), v = twice_u(c), slope = 2 * std::sqrt(2 / pi) * (1 + 3 * cubic * c * c);
         return logistic(v) * (1 + c * logistic(-v) * slope);
       },
       0, away_from_gelu_zero},
      {"floor", "floor", Function::floor, [](const Tensor& x) { return floor(x); }, between_whole,
       [](L x) { return std::floor(x); }, no_slope, 0, any_size, 0},
      {"ceil", "ceil", Function::ceil, [](const Tensor& x) { return ceil(x); }, between_whole,
       [](L x) { return std::ceil(x); }, no_slope, 0, any_size, 0},
      {"round", "round", Function::round, [](const Tensor& x) { return round(x); }, between_halves,
       [](L x) { return std::nearbyint(x); }, no_slope, 0, any_size, 0},
      {"trunc", "trunc", Function::trunc, [](const Tensor& x) { return trunc(x); }, between_whole,
       [](L x) { return std::trunc(x); }, no_slope, 0, any_size, 0},
      {"sign", "sign", Function::sign, [](const Tensor& x) { return sign(x); }, domain::nonzero,
       [](L x) { return x > 0   ? 1
                        : x < 0 ? -1
                                : x; }, no_slope, 0, any_size, 0},
  };
  return rows;
}

template <class T>
double allowed_units(const FunctionRow& row, const char* quantity) {
  const std::string line = std::string(row.name) + ' ' + quantity;
  return accuracy_table().count(line) ? accuracy_bound<T>(line) : row.units;
}
template double allowed_units<float>(const FunctionRow&, const char*);
template double allowed_units<double>(const FunctionRow&, const char*);

// f(-x) = -f(x), or f(-x) = f(x).
static OpRow symmetric(OpRow row, Tensor (*f)(const Tensor&)) {
  for (const char* odd : {"sin", "tan", "asin", "atan", "tanh", "erf", "round", "trunc", "sign", "sinh", "asinh",
                          "atanh", "softsign", "hardtanh"})
    if (row.op == odd) return std::move(row).holds("odd", [f](const Tensor& x) { return std::pair(f(-x), -f(x)); });
  for (const char* even : {"cos", "cosh", "abs"})
    if (row.op == even) return std::move(row).holds("even", [f](const Tensor& x) { return std::pair(f(-x), f(x)); });
  if (row.op == "log_sigmoid")
    return std::move(row).holds("-softplus(-x)",
                                [](const Tensor& x) { return std::pair(log_sigmoid(x), -softplus(-x)); });
  if (row.op == "sigmoid")
    return std::move(row).holds("the slope is even", [](const Tensor& x) {
      const auto slope = [](const Tensor& x) {
        const Tensor leaf = x.clone().requires_grad_();
        sum(sigmoid(leaf)).backward();
        return leaf.grad();
      };
      return std::pair(slope(x), slope(-x));
    });
  return row;
}

static std::vector<OpRow> operations() {
  std::vector<OpRow> rows;
  for (const FunctionRow& row : function_rows())
    rows.push_back(symmetric(
        OpRow(row.op, row.op == std::string(row.name) ? "" : row.name, [f = row.f](const auto& in) { return f(in[0]); })
            .from(row.domain)
            .on({{2, 3}})
            .on({{33}})
            .on({{}})
            .on({{0}})
            .large({{70001}}),
        row.f));
  for (OpRow& r : rows)
    if (r.op == "log1p" || r.op == "asin" || r.op == "acos" || r.op == "acosh" || r.op == "atanh")
      r = std::move(r).except("huge numbers", "it is NaN beyond -1, or 1");
  for (OpRow& r : rows) {
    if (r.op == "celu") r = std::move(r).bad("alpha is 0", [] { celu(zeros({2}), 0); });
    if (r.op == "softplus") r = std::move(r).bad("beta is 0", [] { softplus(zeros({2}), 0); });
  }
  return rows;
}
static const RegisterOps functions(operations);

}  // namespace fit::test
