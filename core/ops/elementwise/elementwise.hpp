#pragma once
#include <algorithm>
#include <type_traits>

#include "fit/detail/function_ref.hpp"
#include "fit/ops/ops.hpp"
#include "fit/threads/parallel.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/wide_row.hpp"
#include "tensor/check.hpp"
#include "tensor/convert.hpp"

// Forward of elementwise operations: types, broadcasting and threads.
namespace fit {

// Minimum of elements for a thread if each costs about one addition.
constexpr std::int64_t elementwise_grain = 1 << 15;

/// x in type t, not recorded: for operations whose adjoint converts back.
inline Tensor to_dtype_no_grad(const Tensor& x, DType t) {
  if (x.dtype() == t) return x;
  const NoGrad no_grad;
  return x.to(t);
}

/// Converts int64 and boolean to float32, for floating functions.
inline Tensor as_floating(const Tensor& x) { return is_floating(x.dtype()) ? x : x.to(float32); }

/// int64 arithmetic is done on unsigned numbers: they wrap around, while signed overflow is undefined.
inline std::int64_t wrap(std::uint64_t v) { return static_cast<std::int64_t>(v); }

/// Converts the number to T, rounded once. Throws Error if T can't hold it: a fraction for an integer type, or an
/// overflow.
template <class T>
T number_as(const char* op, Scalar s) {
  if constexpr (is_floating_element<T>) {
    return s.dtype() == int64 && s.is_integer() ? static_cast<T>(s.to_integer(op)) : static_cast<T>(s.value());
  } else {
    const std::int64_t integer = s.to_integer(op);
    if (std::is_same_v<T, std::int8_t> && integer != convert<std::int8_t>(integer))
      check::fail(op, "the number ", integer, " does not fit int8: it must be in -128 … 127");
    return static_cast<T>(integer);
  }
}

/// A tensor of the shape to which a and b broadcast, without values. The shape is copied once if both have it.
[[gnu::always_inline]] inline Tensor empty_broadcast(const char* op, const Tensor& a, const Tensor& b, DType t) {
  if (a.shape() == b.shape()) return Tensor::empty(a.shape(), t);
  return Tensor::empty(check::broadcast_unequal(op, a.shape(), b.shape()), t);
}

/// The number as a tensor of type t. Throws Error in the name of `op` if t can't hold it.
inline Tensor number_of(const char* op, Scalar s, DType t) {
  if (!is_floating(t)) s.to_integer(op);
  return full({}, s, t);
}

/// Calls body(z, at, stride, n) for runs that together cover `out`. A run is n consecutive elements from index z.
/// Operand k begins at at[k] and advances by stride[k], 0 or 1. The operands' shapes broadcast to `out`. K is 2 or 3.
template <int K>
void each_run(const Shape& out, const Shape* const (&operands)[K],
              FunctionRef<void(std::int64_t z, const std::int64_t* at, const int* stride, std::int64_t n)> body,
              std::int64_t grain = elementwise_grain);

/// Makes f(z, x, y, n, sx, sy) a function on runs of Z, X and Y: block by block if f takes wide types instead.
template <class Z, class X, class Y, class F>
auto by_blocks(const F& f) {
  if constexpr (std::is_invocable_v<F, Z*, const X*, const Y*, std::int64_t, int, int>)
    return f;
  else
    return [f](Z* z, const X* x, const Y* y, std::int64_t n, int sx, int sy) {
      kernels::WideBlock<X> of_x;
      kernels::WideBlock<Y> of_y;
      kernels::WideBlock<Z> of_z;
      for (std::int64_t i = 0; i < n; i += kernels::wide_block) {
        const std::int64_t m = std::min(kernels::wide_block, n - i);
        f(of_z.target(z + i), of_x.read(x + sx * i, sx ? m : 1), of_y.read(y + sy * i, sy ? m : 1), m, sx, sy);
        of_z.store(z + i, m);
      }
    };
}

/// Same for f(y, x, n).
template <class Y, class X, class F>
auto by_blocks(const F& f) {
  if constexpr (std::is_invocable_v<F, Y*, const X*, std::int64_t>)
    return f;
  else
    return [f](Y* y, const X* x, std::int64_t n) {
      kernels::WideBlock<X> of_x;
      kernels::WideBlock<Y> of_y;
      for (std::int64_t i = 0; i < n; i += kernels::wide_block) {
        const std::int64_t m = std::min(kernels::wide_block, n - i);
        f(of_y.target(y + i), of_x.read(x + i, m), m);
        of_y.store(y + i, m);
      }
    };
}

/// z = x; stride 0 repeats the number *x.
template <class T>
void copy_run(T* z, const T* x, std::int64_t n, int stride) {
  if (stride)
    std::copy_n(x, n, z);
  else
    std::fill_n(z, n, *x);
}

/// z = f(a, b) for elements of the tensors' own types. f computes one contiguous run.
void run_binary_raw(Tensor& z, const Tensor& a, const Tensor& b,
                    FunctionRef<void(void* z, const void* x, const void* y, std::int64_t n, int sx, int sy)> f,
                    std::int64_t grain);

/// z = f(a, b). f(z, x, y, n, sx, sy) computes one contiguous run (see kernels::Binary; any element types, with float
/// instead of BFloat16).
template <class Z, class X, class Y, class F>
void run_binary(Tensor& z, const Tensor& a, const Tensor& b, const F& function,
                std::int64_t grain = elementwise_grain) {
  const auto f = by_blocks<Z, X, Y>(function);
  if (a.shape() == b.shape() && z.numel() <= grain) {  // the fast way for small tensors
    if (z.numel() > 0) f(z.fresh<Z>(), static_cast<const X*>(a.raw()), static_cast<const Y*>(b.raw()), z.numel(), 1, 1);
    return;
  }
  run_binary_raw(
      z, a, b,
      [&f](void* z, const void* x, const void* y, std::int64_t n, int sx, int sy) {
        f(static_cast<Z*>(z), static_cast<const X*>(x), static_cast<const Y*>(y), n, sx, sy);
      },
      grain);
}

/// z = f(a, number), or f(number, a) if number_first. The number is not rounded to BFloat16.
template <class Z, class X, class F>
void run_with_number(Tensor& z, const Tensor& a, AccT<X> number, bool number_first, const F& f,
                     std::int64_t grain = elementwise_grain) {
  Z* const pz = z.fresh<Z>();
  const X* const px = static_cast<const X*>(a.raw());
  parallel_for(z.numel(), grain, [&](std::int64_t i, std::int64_t end) {
    if (number_first)
      by_blocks<Z, AccT<X>, X>(f)(pz + i, &number, px + i, end - i, 0, 1);
    else
      by_blocks<Z, X, AccT<X>>(f)(pz + i, px + i, &number, end - i, 1, 0);
  });
}

/// y = f(x). f(y, x, n) computes one contiguous run.
template <class Y, class X, class F>
void run_unary(Tensor& y, const Tensor& x, const F& function) {
  const auto f = by_blocks<Y, X>(function);
  Y* const py = y.fresh<Y>();
  const X* const px = static_cast<const X*>(x.raw());
  parallel_for(y.numel(), elementwise_grain, [&](std::int64_t i, std::int64_t end) { f(py + i, px + i, end - i); });
}

/// Calls run(sx, sy) with the strides, 0 or 1, as compile-time constants, so that its loop is vectorised.
template <class Run>
void with_strides(int sx, int sy, const Run& run) {
  constexpr std::integral_constant<int, 0> still;
  constexpr std::integral_constant<int, 1> on;
  if (sx)
    sy ? run(on, on) : run(on, still);
  else
    sy ? run(still, on) : run(still, still);
}

/// Makes a scalar function f(x, y) a function on runs.
template <class Z, class X, class Y, class F>
auto each_pair(const F& f) {
  return [f](Z* z, const X* x, const Y* y, std::int64_t n, int stride_x, int stride_y) {
    with_strides(stride_x, stride_y, [&](auto sx, auto sy) {
      for (std::int64_t i = 0; i < n; ++i) z[i] = f(x[sx * i], y[sy * i]);
    });
  };
}

/// Makes a scalar function f(x) a function on runs.
template <class Y, class X, class F>
auto each_one(const F& f) {
  return [f](Y* y, const X* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
  };
}

}  // namespace fit
