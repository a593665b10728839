// maximum, minimum, where, masked_fill, clamp, clamp_min, clamp_max, nan_to_num.
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/copy.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

// condition ? a : b, of one type.
Tensor choose(const char* op, const Tensor& condition, const Tensor& a, const Tensor& b) {
  Tensor z =
      Tensor::empty(check::broadcast(op, check::broadcast(op, condition.shape(), a.shape()), b.shape()), a.dtype());
  kernels::with_word(size_of(a.dtype()), [&](auto word) {
    using W = decltype(word);
    W* const pz = reinterpret_cast<W*>(z.fresh<char>());
    const bool* const pc = condition.data<bool>().data();
    const W *const pa = static_cast<const W*>(a.raw()), *const pb = static_cast<const W*>(b.raw());
    each_run<3>(z.shape(), {&condition.shape(), &a.shape(), &b.shape()},
                [&](std::int64_t i, const std::int64_t* at, const int* stride, std::int64_t n) {
                  const bool* const c = pc + at[0];
                  const W *const x = pa + at[1], *const y = pb + at[2];
                  if (stride[0] == 0) return *c ? copy_run(pz + i, x, n, stride[1]) : copy_run(pz + i, y, n, stride[2]);
                  FIT_KERNELS(kernels::copy_table, W).choose(pz + i, c, x, y, n, stride[1], stride[2]);
                });
  });
  return z;
}

// The gradient of one operand of maximum or minimum: dz where it is chosen, dz / 2 on a tie, otherwise 0.
Tensor share(const Tensor& dz, const Tensor& lost, const Tensor& tied) {
  return where(lost, 0, where(tied, mul(dz, 0.5), dz));
}

// maximum or minimum: `kernel` selects the function for floating types; `prefer(a, b)` is true if the result is a;
// lost(a, b) says where a is not chosen.
template <class Kernel, class Prefer>
Tensor extremum(const char* op, const Tensor& a, const Tensor& b, const Kernel& kernel, const Prefer& prefer,
                Tensor (*lost)(const Tensor&, const Tensor&)) {
  check::defined(op, "a", a, "b", b);
  const DType t = promote(a.dtype(), b.dtype());
  const Tensor x = to_dtype_no_grad(a, t), y = to_dtype_no_grad(b, t);
  Tensor z = empty_broadcast(op, a, b, t);
  dispatch(t, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (is_floating_element<T>)
      run_binary<T, T, T>(z, x, y, kernel(kernels::elementwise<AccT<T>>()));
    else
      run_binary<T, T, T>(z, x, y, each_pair<T, T, T>([prefer](T v, T w) { return prefer(v, w) ? v : w; }));
  });
  return record(op, {a, b}, std::move(z), keep::inputs, [lost](Backward& g) {
    const Tensor a = g.x(0), b = g.x(1), tied = eq(a, b);
    if (g.wants(0)) g.give(0, share(g.dy(), lost(a, b), tied));
    if (g.wants(1)) g.give(1, share(g.dy(), lost(b, a), tied));
  });
}

}  // namespace

Tensor maximum(const Tensor& a, const Tensor& b) {
  return extremum(
      "maximum", a, b, [](const auto& k) { return k.maximum; }, std::greater<>(), lt);
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  return extremum(
      "minimum", a, b, [](const auto& k) { return k.minimum; }, std::less<>(), gt);
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  check::dtype("where", "the condition", condition, boolean);
  check::defined("where", "a", a, "b", b);
  const DType t = promote(a.dtype(), b.dtype());
  Tensor z = choose("where", condition, to_dtype_no_grad(a, t), to_dtype_no_grad(b, t));
  return record("where", {condition, a, b}, std::move(z), keep::input(0), [](Backward& g) {
    if (g.wants(1)) g.give(1, where(g.x(0), g.dy(), 0));
    if (g.wants(2)) g.give(2, where(g.x(0), 0, g.dy()));
  });
}

Tensor where(const Tensor& condition, const Tensor& a, Scalar b) {
  check::dtype("where", "the condition", condition, boolean);
  check::defined("where", "a", a);
  return record({"where", {{"other", b.value()}}}, {condition, a},
                choose("where", condition, a, number_of("where", b, a.dtype())), keep::input(0),
                [](Backward& g) { g.give(1, where(g.x(0), g.dy(), 0)); });
}

Tensor where(const Tensor& condition, Scalar a, const Tensor& b) {
  check::dtype("where", "the condition", condition, boolean);
  check::defined("where", "b", b);
  return record({"where", {{"self", a.value()}}}, {condition, b},
                choose("where", condition, number_of("where", a, b.dtype()), b), keep::input(0),
                [](Backward& g) { g.give(1, where(g.x(0), 0, g.dy())); });
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value) {
  check::defined("masked_fill", "x", x);
  check::dtype("masked_fill", "the mask", mask, boolean);
  if (check::broadcast("masked_fill", x.shape(), mask.shape()) != x.shape())
    check::fail("masked_fill", "the mask has shape ", mask.shape(), ", x ", x.shape(),
                ": the mask must broadcast to the shape of x");
  const Tensor number = number_of("masked_fill", value, x.dtype());
  return record({"masked_fill", {{"value", value.value()}}}, {x, mask}, choose("masked_fill", mask, number, x),
                keep::input(1), [](Backward& g) { g.give(0, masked_fill(g.dy(), g.x(1), 0)); });
}

Tensor clamp(const Tensor& x, Scalar low, Scalar high) {
  check::defined("clamp", "x", x);
  const bool integers = low.is_integer() && high.is_integer();
  if (!(integers ? low.to_integer("clamp") <= high.to_integer("clamp") : low.value() <= high.value()))
    check::fail("clamp", "low is ", low.value(), ", high ", high.value(), ": low must not be above high");
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = AccT<T>;
    const auto bound = [](Scalar s) {
      if (!is_floating_element<T> && std::isinf(s.value()))  // no bound
        return s.value() < 0 ? std::numeric_limits<W>::lowest() : std::numeric_limits<W>::max();
      return number_as<W>("clamp", s);
    };
    const W lo = bound(low), hi = bound(high);
    if constexpr (is_floating_element<T>)
      run_unary<T, T>(y, x, [=, kernel = kernels::elementwise<W>().clamp](W* out, const W* in, std::int64_t n) {
        kernel(out, in, n, lo, hi);
      });
    else
      run_unary<T, T>(y, x, each_one<T, T>([=](T v) {
                        const T above = v < lo ? lo : v;  // two steps: no branch
                        return above > hi ? hi : above;
                      }));
  });
  return record({"clamp", {{"low", low.value()}, {"high", high.value()}}}, {x}, std::move(y), keep::inputs,
                [low, high](Backward& g) {
                  const Tensor x = g.x(0);
                  g.give(0, where(logical_and(ge(x, low), le(x, high)), g.dy(), 0));
                });
}

namespace {
constexpr double no_bound = std::numeric_limits<double>::infinity();
void expect_bound(const char* op, const char* name, const Tensor& x, Scalar bound) {
  check::defined(op, "x", x);
  if (std::isnan(bound.value())) check::fail(op, name, " is NaN: it must be a number");
}
}  // namespace

Tensor clamp_min(const Tensor& x, Scalar low) {
  expect_bound("clamp_min", "low", x, low);
  return clamp(x, low, no_bound);
}

Tensor clamp_max(const Tensor& x, Scalar high) {
  expect_bound("clamp_max", "high", x, high);
  return clamp(x, -no_bound, high);
}

Tensor nan_to_num(const Tensor& x, double nan) {
  check::defined("nan_to_num", "x", x);
  const double max = x.dtype() == bfloat16  ? 0x1.FEp127
                     : x.dtype() == float32 ? double{std::numeric_limits<float>::max()}
                                            : std::numeric_limits<double>::max();
  return nan_to_num(x, nan, max, -max);
}

Tensor nan_to_num(const Tensor& x, double nan, double posinf, double neginf) {
  check::defined("nan_to_num", "x", x);
  if (!is_floating(x.dtype())) return x.clone();
  const Tensor numbers = masked_fill(x, isnan(x), nan);
  return masked_fill(masked_fill(numbers, eq(x, no_bound), posinf), eq(x, -no_bound), neginf);
}

}  // namespace fit
