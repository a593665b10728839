// Unary functions; kernels/functions.hpp has their formulas.
//
// Each has two kernels: y = f(x; p) and dx = dy f'(v; p). v is x, or y if f' is cheaper from y. The second kernel is an
// operation itself; its derivative uses f''(v; p), composed of operations.
#include "kernels/functions.hpp"

#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "fit/detail/scoped.hpp"
#include "ops/common/precision.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "ops/elementwise/functions.hpp"
#include "tensor/dispatch.hpp"

namespace fit {

// x - zero, for a zero that is followed by `rest`: not rounded where x is close to it. ddf() finds it by its argument.
static Tensor from_zero(const Tensor& x, double zero, double rest) {
  if (x.dtype() == float64) return (x - zero) - rest;
  const auto narrow = static_cast<double>(static_cast<float>(zero));
  return (x - narrow) - (zero - narrow);
}
// `plain`, except next to the zero, where it is d p(d) with the distance d from the zero. Elsewhere d is clamped, so
// that no power is infinite.
template <class Zero>
static Tensor beside_zero(Zero, const Tensor& x, const Tensor& plain) {
  const Tensor d = clamp(from_zero(x, Zero::zero, Zero::rest), -1, 1);
  constexpr std::size_t last = std::size(Zero::slope) - 1;
  Tensor p = d * Zero::slope[last] + Zero::slope[last - 1];
  for (std::size_t i = last - 1; i-- > 0;) p = p * d + Zero::slope[i];
  return where(abs(d) < 0.5, d * p, plain);
}

namespace kernels {

#define X(name, Formula)                                                                              \
  constexpr Function Function::name{                                                                  \
      #name,                                                                                          \
      #name "_backward",                                                                              \
      functions::Formula::from_output,                                                                \
      functions::Formula::float32,                                                                    \
      []() -> const FunctionKernels<float>& { return FIT_KERNELS(function_kernels::name, float); },   \
      []() -> const FunctionKernels<double>& { return FIT_KERNELS(function_kernels::name, double); }, \
      [](const Tensor& v, double p) -> Tensor { return functions::Formula::ddf(v, p); }};
FIT_FUNCTIONS(X)
#undef X

}  // namespace kernels

using detail::apply;
using kernels::Function;

namespace {

Tensor forward(const Function& f, const Tensor& x, double p = 0) {
  check::defined(f.name, "x", x);
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

// A step function, which leaves integers unchanged.
Tensor step(const Function& f, const Tensor& x) {
  check::defined(f.name, "x", x);
  if (!is_floating(x.dtype())) return x.clone();
  return record(f.name, {x}, forward(f, x), keep::nothing,
                [](Backward& b) { b.give(0, zeros(b.shape(0), b.dtype(0))); });
}

}  // namespace

Tensor detail::record_function(const Function& f, const Tensor& x, Tensor y, double p) {
  return record({f.name, {{"parameter", p}}}, {x}, std::move(y), f.from_output ? keep::output : keep::inputs,
                [f = &f, p](Backward& b) { b.give(0, derivative(*f, b.dy(), f->from_output ? b.y() : b.x(0), p)); });
}

Tensor detail::apply(const Function& f, const Tensor& x, double p) {
  check::defined(f.name, "x", x);
  return with_precision(f.float32 ? Precision::native_or_float32 : Precision::native, {x},
                        [&](const Tensor& x) { return record_function(f, x, forward(f, x, p), p); });
}

Tensor detail::derivative(const Function& f, const Tensor& dy, const Tensor& v, double p) {
  Tensor dx = Tensor::empty(dy.shape(), dy.dtype());
  dispatch_floating(dx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = AccT<T>;
    run_binary<T, T, T>(dx, dy, v, [&](W* z, const W* g, const W* a, std::int64_t n, int, int) {
      kernels::function<W>(f).backward(z, g, a, n, static_cast<W>(p));
    });
  });
  return record(f.backward_name, {dy, v}, std::move(dx), keep::inputs, [f = &f, p](Backward& b) {
    const Tensor v = b.x(1);
    if (b.wants(0)) b.give(0, derivative(*f, b.dy(), v, p));
    if (!b.wants(1)) return;
    const Tensor ddf = f->ddf(v, p);
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
                                          const auto sign = static_cast<std::uint64_t>(v >> 63);  // -1 or 0
                                          return wrap((static_cast<std::uint64_t>(v) ^ sign) - sign);
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
Tensor celu(const Tensor& x, double alpha) {
  if (alpha == 0 || !std::isfinite(alpha)) check::fail("celu", "alpha is ", alpha, ": it must be finite and not 0");
  return apply(Function::celu, x, alpha);
}
Tensor softplus(const Tensor& x, double beta) {
  if (!(beta > 0 && std::isfinite(beta))) check::fail("softplus", "beta is ", beta, ": it must be positive and finite");
  if (beta == 1) return apply(Function::softplus, x);
  check::defined("softplus", "x", x);
  return with_precision(Precision::float32, {x}, [&](const Tensor& given) {
    const Tensor x = as_floating(given), scaled = x * beta;
    const auto overflows = [&] {  // where observers need not look
      const detail::Scoped<detail::ObserverLink*> unobserved(detail::thread_state.observed, nullptr);
      return eq(scaled, std::numeric_limits<double>::infinity());
    };
    return where(overflows(), x, apply(Function::softplus, scaled) / beta);
  });
}
Tensor prelu(const Tensor& x, const Tensor& weight) {
  check::floating("prelu", "x", x);
  check::floating("prelu", "weight", weight);
  const bool one = weight.numel() == 1;
  if (weight.rank() > 1 || (!one && (x.rank() < 2 || x.size(1) != weight.numel())))
    check::fail("prelu", "x has shape ", x.shape(), ", weight ", weight.shape(),
                ": weight must have one element, or as many as axis 1 of x");
  Shape by_channel;
  for (int a = 0; a < x.rank(); ++a) by_channel = by_channel.inserted(a, !one && a == 1 ? weight.numel() : 1);
  return relu(x) + reshape(weight, by_channel) * clamp_max(x, 0);
}
Tensor gelu(const Tensor& x, Gelu form) {
  check::defined("gelu", "x", x);
  return apply(form == Gelu::exact ? Function::gelu : Function::gelu_tanh, x);
}

}  // namespace fit
