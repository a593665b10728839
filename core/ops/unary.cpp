// Functions of one number whose derivatives are made of other operations.
#include "ops/elementwise.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

// y = f(x), where choose(kernels) picks f from kernels::Elementwise.
template <class Choose>
Tensor forward(const char* op, const Tensor& x, const Choose& choose) {
  check::defined(op, "x", x);
  const Tensor from = as_floating(x);
  Tensor y = Tensor::empty(x.shape(), from.dtype());
  dispatch_floating(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    run_unary<T, T>(y, from, choose(kernels::elementwise<T>()));
  });
  return y;
}

}  // namespace

Tensor exp(const Tensor& x) {
  return record("exp", {x}, forward("exp", x, [](const auto& k) { return k.exp; }), keep::output,
                [](Backward& b) { b.give(0, mul(b.dy(), b.y())); });
}

Tensor log(const Tensor& x) {
  return record("log", {x}, forward("log", x, [](const auto& k) { return k.log; }), keep::inputs,
                [](Backward& b) { b.give(0, div(b.dy(), b.x(0))); });
}

Tensor log1p(const Tensor& x) {
  return record("log1p", {x}, forward("log1p", x, [](const auto& k) { return k.log1p; }), keep::inputs,
                [](Backward& b) { b.give(0, div(b.dy(), add(b.x(0), 1))); });
}

Tensor sqrt(const Tensor& x) {
  return record("sqrt", {x}, forward("sqrt", x, [](const auto& k) { return k.sqrt; }), keep::output,
                [](Backward& b) { b.give(0, div(b.dy(), mul(b.y(), 2))); });
}

Tensor rsqrt(const Tensor& x) {
  // dx = -dy y^3 / 2
  return record("rsqrt", {x}, forward("rsqrt", x, [](const auto& k) { return k.rsqrt; }), keep::output,
                [](Backward& b) { b.give(0, mul(mul(b.dy(), -0.5), pow(b.y(), 3))); });
}

Tensor sin(const Tensor& x) {
  return record("sin", {x}, forward("sin", x, [](const auto& k) { return k.sin; }), keep::inputs,
                [](Backward& b) { b.give(0, mul(b.dy(), cos(b.x(0)))); });
}

Tensor cos(const Tensor& x) {
  return record("cos", {x}, forward("cos", x, [](const auto& k) { return k.cos; }), keep::inputs,
                [](Backward& b) { b.give(0, neg(mul(b.dy(), sin(b.x(0))))); });
}

Tensor erf(const Tensor& x) {
  constexpr double two_over_sqrt_pi = 1.12837916709551257390;
  return record("erf", {x}, forward("erf", x, [](const auto& k) { return k.erf; }), keep::inputs, [](Backward& b) {
    const Tensor x = b.x(0);
    b.give(0, mul(b.dy(), mul(exp(neg(mul(x, x))), two_over_sqrt_pi)));
  });
}

}  // namespace fit
