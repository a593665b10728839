// Unary functions; kernels/functions.hpp has their formulas.
//
// Each has two kernels: y = f(x; p) and dx = dy f'(v; p). v is x, or y if f' is cheaper from y. The second kernel is an
// operation itself; its derivative uses f''(v; p), composed of operations.
#include "kernels/functions.hpp"

#include <utility>

#include "ops/elementwise.hpp"
#include "ops/functions.hpp"
#include "ops/precision.hpp"
#include "tensor/dispatch.hpp"

namespace fit {

using detail::apply;
using kernels::Function;

namespace {

struct Rule {
  const char *name, *backward_name;
  bool from_output;  // whether v is y
  Tensor (*ddf)(const Tensor& v, double p);
};

constexpr Rule rules[] = {
#define X(name, Formula)                                               \
  {#name, #name "_backward", kernels::functions::Formula::from_output, \
   [](const Tensor& v, double p) { return kernels::functions::Formula::ddf(v, p); }},
    FIT_FUNCTIONS(X)
#undef X
};
const Rule& rule_of(Function f) { return rules[static_cast<int>(f)]; }

Tensor forward(Function f, const Tensor& x, double p = 0) {
  check::defined(rule_of(f).name, "x", x);
  const Tensor from = as_floating(x);
  Tensor y = Tensor::empty(x.shape(), from.dtype());
  dispatch_floating(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = AccT<T>;
    run_unary<T, T>(y, from, [&](W* out, const W* in, std::int64_t n) {
      kernels::function<W>(f).forward(out, in, n, static_cast<W>(p));
    });
  });
  return y;
}

// Autocast uses float32 for logarithms, exponentials and functions with poles.
Precision precision_of(Function f) {
  switch (f) {
    case Function::exp:
    case Function::expm1:
    case Function::log:
    case Function::log1p:
    case Function::log2:
    case Function::log_sigmoid:
    case Function::softplus:
    case Function::rsqrt:
    case Function::tan:
    case Function::asin:
    case Function::acos:
      return Precision::native_or_float32;
    default:
      return Precision::native;
  }
}

// A step function, which leaves integers unchanged.
Tensor step(Function f, const Tensor& x) {
  check::defined(rule_of(f).name, "x", x);
  if (!is_floating(x.dtype())) return x.clone();
  return record(rule_of(f).name, {x}, forward(f, x), keep::nothing,
                [](Backward& b) { b.give(0, zeros(b.shape(0), b.dtype(0))); });
}

}  // namespace

Tensor detail::record_function(Function f, const Tensor& x, Tensor y, double p) {
  const Rule& rule = rule_of(f);
  return record(rule.name, {x}, std::move(y), rule.from_output ? keep::output : keep::inputs,
                [f, p](Backward& b) { b.give(0, derivative(f, b.dy(), rule_of(f).from_output ? b.y() : b.x(0), p)); });
}

Tensor detail::apply(Function f, const Tensor& x, double p) {
  check::defined(rule_of(f).name, "x", x);
  return with_precision(precision_of(f), {x},
                        [&](const Tensor& x) { return record_function(f, x, forward(f, x, p), p); });
}

Tensor detail::derivative(Function f, const Tensor& dy, const Tensor& v, double p) {
  Tensor dx = Tensor::empty(dy.shape(), dy.dtype());
  dispatch_floating(dx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = AccT<T>;
    run_binary<T, T, T>(dx, dy, v, [&](W* z, const W* g, const W* a, std::int64_t n, int, int) {
      kernels::function<W>(f).backward(z, g, a, n, static_cast<W>(p));
    });
  });
  return record(rule_of(f).backward_name, {dy, v}, std::move(dx), keep::inputs, [f, p](Backward& b) {
    const Tensor v = b.x(1);
    if (b.wants(0)) b.give(0, derivative(f, b.dy(), v, p));
    if (!b.wants(1)) return;
    const Tensor ddf = rule_of(f).ddf(v, p);
    b.give(1, ddf.defined() ? b.dy() * b.x(0) * ddf : zeros_like(v));
  });
}

#define X(name, Formula) \
  Tensor name(const Tensor& x) { return apply(Function::name, x); }
FIT_SIMPLE_FUNCTIONS(X)
#undef X

Tensor abs(const Tensor& x) {
  check::defined("abs", "x", x);
  if (is_floating(x.dtype())) return apply(Function::abs, x);
  Tensor y = Tensor::empty(x.shape(), int64);
  run_unary<std::int64_t, std::int64_t>(y, x.to(int64), each_one<std::int64_t, std::int64_t>([](std::int64_t v) {
                                          return v < 0 ? wrap(-static_cast<std::uint64_t>(v)) : v;
                                        }));
  return y;
}
Tensor floor(const Tensor& x) { return step(Function::floor, x); }
Tensor ceil(const Tensor& x) { return step(Function::ceil, x); }
Tensor round(const Tensor& x) { return step(Function::round, x); }
Tensor trunc(const Tensor& x) { return step(Function::trunc, x); }
Tensor sign(const Tensor& x) {
  check::defined("sign", "x", x);
  return x.dtype() == int64 ? x.clamp(-1, 1) : step(Function::sign, x);
}
Tensor square(const Tensor& x) {
  check::defined("square", "x", x);
  return pow(x, 2);
}
Tensor reciprocal(const Tensor& x) {
  check::defined("reciprocal", "x", x);
  return div(1, x);
}
Tensor leaky_relu(const Tensor& x, double negative_slope) { return apply(Function::leaky_relu, x, negative_slope); }
Tensor elu(const Tensor& x, double alpha) { return apply(Function::elu, x, alpha); }
Tensor gelu(const Tensor& x, Gelu form) {
  check::defined("gelu", "x", x);
  return apply(form == Gelu::exact ? Function::gelu : Function::gelu_tanh, x);
}

}  // namespace fit
