// add, sub, mul, div, neg, for tensors and numbers.
#include "ops/elementwise/arithmetic.hpp"

#include <utility>

#include "tensor/dispatch.hpp"

namespace fit {
namespace {

// The type in which an operation on type t computes: boolean becomes int64, and a quotient is floating.
template <class Op>
DType working_type(DType t) {
  if (is_floating(t)) return t;
  return std::is_same_v<Op, Div> ? DType::float32 : DType::int64;
}

template <class Op>
Tensor forward(const Tensor& a, const Tensor& b) {
  check::defined(Op::name, "a", a, "b", b);
  const DType t = working_type<Op>(promote(a.dtype(), b.dtype()));
  const auto read = [t](const Tensor& x) { return readable_as(t, x.dtype()) ? x : to_dtype_no_grad(x, t); };
  if (!readable_as(t, a.dtype()) || !readable_as(t, b.dtype())) return forward<Op>(read(a), read(b));
  Tensor z = empty_broadcast(Op::name, a, b, t);
  compute<Op>(z, a, b);
  return z;
}

template <class Op>
Tensor forward(const Tensor& x, Scalar s, bool number_first = false) {
  check::defined(Op::name, number_first ? "b" : "a", x);
  const DType t = working_type<Op>(x.dtype());
  if (x.dtype() != t) return forward<Op>(to_dtype_no_grad(x, t), s, number_first);
  Tensor z = Tensor::empty(x.shape(), t);
  compute<Op>(z, x, s, number_first);
  return z;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  return record("add", {a, b}, forward<Add>(a, b), keep::nothing, [](Backward& g) {
    g.give(0, g.dy());
    g.give(1, g.take_dy());
  });
}

Tensor sub(const Tensor& a, const Tensor& b) {
  return record("sub", {a, b}, forward<Sub>(a, b), keep::nothing, [](Backward& g) {
    if (g.wants(1)) g.give(1, neg(g.dy()));
    g.give(0, g.take_dy());
  });
}

Tensor mul(const Tensor& a, const Tensor& b) {
  return record("mul", {a, b}, forward<Mul>(a, b), keep::inputs, [](Backward& g) {
    if (g.wants(0)) g.give(0, mul(g.dy(), g.x(1)));
    if (g.wants(1)) g.give(1, mul(g.dy(), g.x(0)));
  });
}

Tensor div(const Tensor& a, const Tensor& b) {
  return record("div", {a, b}, forward<Div>(a, b), keep::input(1) | keep::output, [](Backward& g) {
    // da = dz / b;  db = -dz (z / b): dz / b may be infinite where z is 0
    if (g.wants(1)) g.give(1, neg(mul(g.dy(), div(g.y(), g.x(1)))));
    if (g.wants(0)) g.give(0, div(g.dy(), g.x(1)));
  });
}

Tensor add(const Tensor& a, Scalar b) {
  return record({"add", {{"other", b.value()}}}, {a}, forward<Add>(a, b), keep::nothing,
                [](Backward& g) { g.give(0, g.take_dy()); });
}

Tensor sub(const Tensor& a, Scalar b) {
  return record({"sub", {{"other", b.value()}}}, {a}, forward<Sub>(a, b), keep::nothing,
                [](Backward& g) { g.give(0, g.take_dy()); });
}

Tensor sub(Scalar a, const Tensor& b) {
  return record({"sub", {{"self", a.value()}}}, {b}, forward<Sub>(b, a, true), keep::nothing,
                [](Backward& g) { g.give(0, neg(g.dy())); });
}

Tensor mul(const Tensor& a, Scalar b) {
  return record({"mul", {{"other", b.value()}}}, {a}, forward<Mul>(a, b), keep::nothing,
                [b](Backward& g) { g.give(0, mul(g.dy(), b)); });
}

Tensor div(const Tensor& a, Scalar b) {
  return record({"div", {{"other", b.value()}}}, {a}, forward<Div>(a, b), keep::nothing,
                [b](Backward& g) { g.give(0, div(g.dy(), b)); });
}

Tensor div(Scalar a, const Tensor& b) {
  return record({"div", {{"self", a.value()}}}, {b}, forward<Div>(b, a, true), keep::inputs | keep::output,
                [](Backward& g) {
                  g.give(0, neg(mul(g.dy(), div(g.y(), g.x(0)))));  // db = -dz (z / b)
                });
}

Tensor neg(const Tensor& x) {
  check::defined("neg", "x", x);
  const DType t = working_type<Sub>(x.dtype());
  const Tensor from = to_dtype_no_grad(x, t);
  Tensor y = Tensor::empty(x.shape(), t);
  if (t == DType::int64)
    run_unary<std::int64_t, std::int64_t>(
        y, from, each_one<std::int64_t, std::int64_t>([](std::uint64_t v) { return wrap(0 - v); }));
  else
    dispatch_floating(t, [&](auto zero) {
      using T = decltype(zero);
      run_unary<T, T>(y, from, kernels::elementwise<AccT<T>>().neg);
    });
  return record("neg", {x}, std::move(y), keep::nothing, [](Backward& g) { g.give(0, neg(g.dy())); });
}

}  // namespace fit
