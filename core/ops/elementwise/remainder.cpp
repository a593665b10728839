// remainder, fmod, floor_divide, copysign and atan2.
#include <cmath>

#include "ops/common/precision.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

[[noreturn]] std::int64_t fail_zero(const char* op) {
  check::fail(op, "b has a 0: a whole number divided by 0 is not defined; use .to(float32) for NaN and infinity");
}

// The three functions of a quotient: op is their name, `kernel` that of floating numbers, of(a, b) the value for
// integers, where b is not 0. INT64_MIN / -1 would overflow.
struct Remainder {  // with the sign of b
  static constexpr const char* op = "remainder";
  template <class T>
  static constexpr auto kernel = &kernels::Elementwise<T>::remainder;
  static std::int64_t of(std::int64_t a, std::int64_t b) {
    const std::int64_t r = b == -1 ? 0 : a % b, other_sign = (r != 0) & ((r ^ b) < 0);
    return r + (b & -other_sign);  // no branch
  }
};
struct Fmod {  // with the sign of a
  static constexpr const char* op = "fmod";
  template <class T>
  static constexpr auto kernel = &kernels::Elementwise<T>::fmod;
  static std::int64_t of(std::int64_t a, std::int64_t b) { return b == -1 ? 0 : a % b; }
};
struct FloorDivide {  // Python's //
  static constexpr const char* op = "floor_divide";
  template <class T>
  static constexpr auto kernel = &kernels::Elementwise<T>::floor_divide;
  static std::int64_t of(std::int64_t a, std::int64_t b) {
    if (b == -1) return wrap(-static_cast<std::uint64_t>(a));
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
  }
};

double angle_of(double y, double x) { return std::atan2(y, x); }
float angle_of(float y, float x) { return std::atan2(y, x); }

constexpr std::int64_t remainder_grain = elementwise_grain / 8;

// F's values, not recorded.
template <class F>
Tensor of_quotient(const Tensor& a, const Tensor& b) {
  const DType common = promote(a.dtype(), b.dtype()), t = common == boolean ? int64 : common;
  const Tensor x = to_dtype_no_grad(a, t), y = to_dtype_no_grad(b, t);
  Tensor z = empty_broadcast(F::op, a, b, t);
  if (t == int64)
    run_binary<std::int64_t, std::int64_t, std::int64_t>(
        z, x, y, each_pair<std::int64_t, std::int64_t, std::int64_t>([](std::int64_t v, std::int64_t w) {
          return w == 0 ? fail_zero(F::op) : F::of(v, w);
        }),
        remainder_grain);
  else
    dispatch_compute_floating(t, [&](auto zero) {
      using T = decltype(zero);
      run_binary<T, T, T>(z, x, y, kernels::elementwise<T>().*F::template kernel<T>);
    });
  return z;
}

// remainder() or fmod(), recorded: d/da = 1, d/db = -(a - z) / b, which is a whole number except for rounding errors.
// `infinite` is that number if b and z are infinite.
template <class F>
Tensor rest_of_quotient(const Tensor& a, const Tensor& b, double infinite) {
  check::defined(F::op, "a", a, "b", b);
  return with_precision(Precision::rounded, {a, b}, [&](const Tensor& a, const Tensor& b) {
    return record(F::op, {a, b}, of_quotient<F>(a, b), keep::inputs | keep::output, [infinite](Backward& g) {
      g.give(0, g.dy());
      if (g.wants(1)) {
        const Tensor whole = round(div(sub(g.x(0), g.y()), g.x(1)));
        g.give(1, neg(mul(g.dy(), masked_fill(whole, isinf(g.y()), infinite))));
      }
    });
  });
}

// f(a, b) for a number b.
template <class F>
Tensor with_number(const char* op, const Tensor& a, Scalar b, const F& f) {
  check::defined(op, "a", a);
  if (!is_floating(a.dtype())) return f(a, full({}, b.to_integer(op), int64));
  return with_precision(Precision::rounded, {a}, [&](const Tensor& a) { return f(a, full({}, b, a.dtype())); });
}

}  // namespace

Tensor remainder(const Tensor& a, const Tensor& b) { return rest_of_quotient<Remainder>(a, b, -1); }
Tensor remainder(const Tensor& a, Scalar b) {
  return with_number("remainder", a, b, [](const Tensor& a, const Tensor& b) { return remainder(a, b); });
}
Tensor remainder(Scalar a, const Tensor& b) {
  return with_number("remainder", b, a, [](const Tensor& b, const Tensor& a) { return remainder(a, b); });
}

Tensor fmod(const Tensor& a, const Tensor& b) { return rest_of_quotient<Fmod>(a, b, 0); }
Tensor fmod(const Tensor& a, Scalar b) {
  return with_number("fmod", a, b, [](const Tensor& a, const Tensor& b) { return fmod(a, b); });
}

Tensor floor_divide(const Tensor& a, const Tensor& b) {
  check::defined("floor_divide", "a", a, "b", b);
  return with_precision(Precision::rounded, {a, b}, [&](const Tensor& a, const Tensor& b) {
    return record("floor_divide", {a, b}, of_quotient<FloorDivide>(a, b), keep::nothing, [](Backward& g) {
      for (int i = 0; i < 2; ++i)
        if (g.wants(i)) g.give(i, zeros(g.shape(i), g.dtype(i)));
    });
  });
}
Tensor floor_divide(const Tensor& a, Scalar b) {
  return with_number("floor_divide", a, b, [](const Tensor& a, const Tensor& b) { return floor_divide(a, b); });
}

Tensor copysign(const Tensor& a, const Tensor& b) {
  check::defined("copysign", "a", a, "b", b);
  return with_precision(Precision::rounded, {a, b}, [&](const Tensor& a, const Tensor& b) {
    const DType common = promote(a.dtype(), b.dtype()), t = is_floating(common) ? common : float32;
    const Tensor x = to_dtype_no_grad(a, t), y = to_dtype_no_grad(b, t);
    Tensor z = empty_broadcast("copysign", a, b, t);
    dispatch_compute_floating(t, [&](auto zero) {
      using T = decltype(zero);
      run_binary<T, T, T>(z, x, y, each_pair<T, T, T>([](T v, T w) { return std::copysign(v, w); }));
    });
    return record("copysign", {a, b}, std::move(z), keep::inputs | keep::output, [](Backward& g) {
      if (g.wants(0)) g.give(0, g.dy() * (sign(g.x(0).detach()) * sign(g.y().detach())));
      if (g.wants(1)) g.give(1, zeros(g.shape(1), g.dtype(1)));
    });
  });
}

Tensor atan2(const Tensor& y, const Tensor& x) {
  check::defined("atan2", "y", y, "x", x);
  return with_precision(Precision::rounded, {y, x}, [&](const Tensor& y, const Tensor& x) {
    const DType common = promote(y.dtype(), x.dtype()), t = is_floating(common) ? common : float32;
    const Tensor up = to_dtype_no_grad(y, t), right = to_dtype_no_grad(x, t);
    Tensor z = empty_broadcast("atan2", y, x, t);
    dispatch_compute_floating(t, [&](auto zero) {
      using T = decltype(zero);
      run_binary<T, T, T>(z, up, right, each_pair<T, T, T>([](T v, T w) { return angle_of(v, w); }), remainder_grain);
    });
    return record("atan2", {y, x}, std::move(z), keep::inputs, [](Backward& g) {
      // dy = dz x / (x^2 + y^2);  dx = -dz y / (x^2 + y^2);  0 at the origin and at infinity. x and y are first
      // divided by r = max(|x|, |y|), because their squares may overflow or underflow, as 1 / r may.
      const Tensor larger = maximum(abs(g.x(0)), abs(g.x(1))).detach(), flat = logical_or(larger == 0, isinf(larger));
      const Tensor r = masked_fill(larger, flat, 1);
      const Tensor y = where(flat, 0, g.x(0)) / r, x = where(flat, 0, g.x(1)) / r;
      const Tensor squares = masked_fill(x * x + y * y, flat, 1);
      if (g.wants(0)) g.give(0, g.dy() * (x / squares) / r);
      if (g.wants(1)) g.give(1, neg(g.dy() * (y / squares) / r));
    });
  });
}

}  // namespace fit
