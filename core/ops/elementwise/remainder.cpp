// remainder and atan2: binary functions without vector kernels.
#include <cmath>

#include "ops/common/precision.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

// The remainder of a / b with the sign of b.
template <class T>
T remainder_of(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const T r = std::fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  } else {
    if (b == 0) check::fail("remainder", "b has a 0: a whole number modulo 0 is not defined; use .to(float32) for NaN");
    if (b == -1) return 0;  // INT64_MIN / -1 would overflow
    const T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
}

double angle_of(double y, double x) { return std::atan2(y, x); }
float angle_of(float y, float x) { return std::atan2(y, x); }

constexpr std::int64_t remainder_grain = elementwise_grain / 8;

}  // namespace

Tensor remainder(const Tensor& a, const Tensor& b) {
  check::defined("remainder", "a", a, "b", b);
  return with_precision(Precision::rounded, {a, b}, [&](const Tensor& a, const Tensor& b) {
    const DType common = promote(a.dtype(), b.dtype()), t = common == boolean ? int64 : common;
    const Tensor x = to_dtype_no_grad(a, t), y = to_dtype_no_grad(b, t);
    Tensor z = Tensor::empty(check::broadcast("remainder", a.shape(), b.shape()), t);
    dispatch_compute(t, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (!std::is_same_v<T, bool>)
        run_binary<T, T, T>(z, x, y, each_pair<T, T, T>(remainder_of<T>), remainder_grain);
    });
    return record("remainder", {a, b}, std::move(z), keep::inputs | keep::output, [](Backward& g) {
      g.give(0, g.dy());
      // db = -dz floor(a / b); (a - z) / b equals the floor except for rounding errors. If b and z are infinite, the
      // floor is -1.
      if (g.wants(1))
        g.give(1, neg(mul(g.dy(), masked_fill(round(div(sub(g.x(0), g.y()), g.x(1))), isinf(g.y()), -1))));
    });
  });
}

Tensor remainder(const Tensor& a, Scalar b) {
  check::defined("remainder", "a", a);
  if (!is_floating(a.dtype())) return remainder(a, full({}, b.to_integer("remainder"), int64));
  return with_precision(Precision::rounded, {a}, [&](const Tensor& a) { return remainder(a, full({}, b, a.dtype())); });
}

Tensor remainder(Scalar a, const Tensor& b) {
  check::defined("remainder", "b", b);
  if (!is_floating(b.dtype())) return remainder(full({}, a.to_integer("remainder"), int64), b);
  return with_precision(Precision::rounded, {b}, [&](const Tensor& b) { return remainder(full({}, a, b.dtype()), b); });
}

Tensor atan2(const Tensor& y, const Tensor& x) {
  check::defined("atan2", "y", y, "x", x);
  return with_precision(Precision::rounded, {y, x}, [&](const Tensor& y, const Tensor& x) {
    const DType common = promote(y.dtype(), x.dtype()), t = is_floating(common) ? common : float32;
    const Tensor up = to_dtype_no_grad(y, t), right = to_dtype_no_grad(x, t);
    Tensor z = Tensor::empty(check::broadcast("atan2", y.shape(), x.shape()), t);
    dispatch_compute_floating(t, [&](auto zero) {
      using T = decltype(zero);
      run_binary<T, T, T>(z, up, right, each_pair<T, T, T>([](T v, T w) { return angle_of(v, w); }), remainder_grain);
    });
    return record("atan2", {y, x}, std::move(z), keep::inputs, [](Backward& g) {
      // dy = dz x / (x^2 + y^2);  dx = -dz y / (x^2 + y^2);  0 at the origin and at infinity. x and y are first
      // divided by max(|x|, |y|), because their squares may overflow or underflow.
      const Tensor larger = maximum(abs(g.x(0)), abs(g.x(1))).detach(), flat = logical_or(larger == 0, isinf(larger));
      const Tensor r = masked_fill(larger, flat, 1);
      const Tensor y = where(flat, 0, g.x(0)) / r, x = where(flat, 0, g.x(1)) / r;
      const Tensor share = g.dy() / (r * masked_fill(x * x + y * y, flat, 1));
      if (g.wants(0)) g.give(0, share * x);
      if (g.wants(1)) g.give(1, neg(share * y));
    });
  });
}

}  // namespace fit
