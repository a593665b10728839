// Functions with a fused derivative: abs, tanh, sigmoid, relu, leaky_relu, elu, gelu, silu, softplus.
//
// All work alike: y = f(x; p) is one kernel, dx = dy f'(v; p) another, and that is an operation of its own, whose
// derivative needs f''(v; p) as operations. v is x, or y where f' is cheaper from that.
#include "kernels/activation.hpp"

#include <cmath>

#include "ops/elementwise.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

using kernels::Activation;

struct Rule {
  const char *name, *backward_name;
  bool from_output;                             // whether v is y
  Tensor (*second)(const Tensor& v, double p);  // df'/dv; null where it is 0
};

// Far out everything below is 0; cutting off there keeps infinity times zero away.
Tensor near(const Tensor& x) { return clamp(x, -40, 40); }

// f' = s, so f'' = s (1 - s)
Tensor softplus_second(const Tensor& x, double) {
  const Tensor s = sigmoid(x);
  return s * (1 - s);
}

// f' = alpha e^x where x <= 0, else 1
Tensor elu_second(const Tensor& x, double alpha) { return where(le(x, 0), exp(clamp(x, -INFINITY, 0)) * alpha, 0); }

// f' = Phi + x phi, and phi' = -x phi, so f'' = phi (2 - x^2)
Tensor gelu_second(const Tensor& x, double) {
  constexpr double sqrt_2pi = 2.50662827463100050242;
  const Tensor square = pow(near(x), 2);
  return exp(square * -0.5) * (1 / sqrt_2pi) * (2 - square);
}

// f' = (1 + t) / 2 + x (1 - t^2) u' / 2 with t = tanh u, u = k (x + a x^3);
// f'' = (1 - t^2) (u' + x u'' / 2 - x t u'^2)
Tensor gelu_tanh_second(const Tensor& x, double) {
  constexpr double k = 0.79788456080286535588, a = 0.044715;
  const Tensor c = near(x), square = c * c;
  const Tensor t = tanh(c * (1 + square * a) * k), du = (1 + square * (3 * a)) * k;
  return (1 - t * t) * (du + square * (3 * a * k) - c * t * du * du);
}

// f' = s + x s (1 - s), so f'' = s (1 - s) (2 + x (1 - 2 s))
Tensor silu_second(const Tensor& x, double) {
  const Tensor c = clamp(x, -1000, 1000), s = sigmoid(c);
  return s * (1 - s) * (2 + c * (1 - s * 2));
}

// In the order of kernels::Activation.
constexpr Rule rules[] = {
    {"abs", "abs_backward", false, nullptr},
    {"tanh", "tanh_backward", true, [](const Tensor& y, double) { return y * -2; }},
    {"sigmoid", "sigmoid_backward", true, [](const Tensor& y, double) { return 1 - y * 2; }},
    {"relu", "relu_backward", true, nullptr},
    {"leaky_relu", "leaky_relu_backward", false, nullptr},
    {"elu", "elu_backward", false, elu_second},
    {"gelu", "gelu_backward", false, gelu_second},
    {"gelu", "gelu_backward", false, gelu_tanh_second},
    {"silu", "silu_backward", false, silu_second},
    {"softplus", "softplus_backward", false, softplus_second},
};

Tensor derivative(Activation f, const Tensor& dy, const Tensor& v, double p) {
  Tensor dx = Tensor::empty(dy.shape(), dy.dtype());
  dispatch_floating(dx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    run_binary<T, T, T>(dx, dy, v, [&](T* z, const T* g, const T* a, std::int64_t n, int, int) {
      kernels::activation<T>(f).backward(z, g, a, n, static_cast<T>(p));
    });
  });
  const Rule& rule = rules[static_cast<int>(f)];
  return record(rule.backward_name, {dy, v}, std::move(dx), keep::inputs, [f, p](Backward& b) {
    const Tensor v = b.x(1);
    if (b.wants(0)) b.give(0, derivative(f, b.dy(), v, p));
    if (!b.wants(1)) return;
    const auto second = rules[static_cast<int>(f)].second;
    b.give(1, second ? mul(mul(b.dy(), b.x(0)), second(v, p)) : zeros_like(v));
  });
}

Tensor apply(Activation f, const Tensor& x, double p = 0) {
  const Rule& rule = rules[static_cast<int>(f)];
  check::defined(rule.name, "x", x);
  const Tensor from = as_floating(x);
  Tensor y = Tensor::empty(x.shape(), from.dtype());
  dispatch_floating(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    run_unary<T, T>(y, from, [&](T* out, const T* in, std::int64_t n) {
      kernels::activation<T>(f).forward(out, in, n, static_cast<T>(p));
    });
  });
  return record(rule.name, {x}, std::move(y), rule.from_output ? keep::output : keep::inputs, [f, p](Backward& b) {
    b.give(0, derivative(f, b.dy(), rules[static_cast<int>(f)].from_output ? b.y() : b.x(0), p));
  });
}

}  // namespace

Tensor abs(const Tensor& x) {
  check::defined("abs", "x", x);
  if (is_floating(x.dtype())) return apply(Activation::abs, x);
  Tensor y = Tensor::empty(x.shape(), int64);
  run_unary<std::int64_t, std::int64_t>(y, x.to(int64), each_one<std::int64_t, std::int64_t>([](std::int64_t v) {
                                          return v < 0 ? wrap(-static_cast<std::uint64_t>(v)) : v;
                                        }));
  return y;
}
Tensor tanh(const Tensor& x) { return apply(Activation::tanh, x); }
Tensor sigmoid(const Tensor& x) { return apply(Activation::sigmoid, x); }
Tensor relu(const Tensor& x) { return apply(Activation::relu, x); }
Tensor leaky_relu(const Tensor& x, double negative_slope) { return apply(Activation::leaky_relu, x, negative_slope); }
Tensor elu(const Tensor& x, double alpha) { return apply(Activation::elu, x, alpha); }
Tensor gelu(const Tensor& x, Gelu form) {
  return apply(form == Gelu::exact ? Activation::gelu : Activation::gelu_tanh, x);
}
Tensor silu(const Tensor& x) { return apply(Activation::silu, x); }
Tensor softplus(const Tensor& x) { return apply(Activation::softplus, x); }

}  // namespace fit
