// add, sub, mul, div, neg and their forms with numbers.
#include "dispatch.hpp"
#include "ops/elementwise.hpp"

namespace fit {
namespace {

// An operation: its kernel for floating types and its formula for int64 (boolean counts as int64; a division makes
// whole numbers float32 first).
#define FIT_ARITHMETIC(Name, kernel_name, formula)                                \
  struct Name {                                                                   \
    static constexpr const char* name = #kernel_name;                             \
    template <class T>                                                            \
    static kernels::Binary<T> kernel() {                                          \
      return kernels::elementwise<T>().kernel_name;                               \
    }                                                                             \
    static std::int64_t whole(std::int64_t a, std::int64_t b) { return formula; } \
  };
FIT_ARITHMETIC(Add, add, a + b)
FIT_ARITHMETIC(Sub, sub, a - b)
FIT_ARITHMETIC(Mul, mul, (a * b))
FIT_ARITHMETIC(Div, div, (static_cast<void>(b), a))
#undef FIT_ARITHMETIC

template <class Op>
Tensor forward(const Tensor& a, const Tensor& b) {
  DType t = promote(a.dtype(), b.dtype());
  if (t == DType::boolean) t = DType::int64;
  if (std::is_same_v<Op, Div> && !is_floating(t)) t = DType::float32;
  if (a.dtype() != t || b.dtype() != t) {
    const NoGrad plain;
    return forward<Op>(a.to(t), b.to(t));
  }
  Tensor z = Tensor::empty(check::broadcast(Op::name, a.shape(), b.shape()), t);
  if (t == DType::float32)
    run_binary<float, float, float>(z, a, b, Op::template kernel<float>());
  else if (t == DType::float64)
    run_binary<double, double, double>(z, a, b, Op::template kernel<double>());
  else
    run_binary<std::int64_t, std::int64_t, std::int64_t>(
        z, a, b, each_pair<std::int64_t, std::int64_t, std::int64_t>(Op::whole));
  return z;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  return record("add", {a, b}, forward<Add>(a, b), keep::nothing, [](Backward& g) {
    g.give(0, g.dy());
    g.give(1, g.dy());
  });
}

Tensor sub(const Tensor& a, const Tensor& b) {
  return record("sub", {a, b}, forward<Sub>(a, b), keep::nothing, [](Backward& g) {
    g.give(0, g.dy());
    if (g.wants(1)) g.give(1, neg(g.dy()));
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
    // da = dz / b;  db = -dz z / b
    const Tensor da = div(g.dy(), g.x(1));
    g.give(0, da);
    if (g.wants(1)) g.give(1, neg(mul(da, g.y())));
  });
}

}  // namespace fit
