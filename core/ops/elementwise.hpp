#pragma once
#include <algorithm>

#include "check.hpp"
#include "fit/ops.hpp"
#include "fit/parallel.hpp"
#include "kernels/elementwise.hpp"
#include "ops/broadcast.hpp"

// The forward of operations that work element by element: types, broadcasting and threads, once for all.
namespace fit {

// Elements that are worth a thread of their own when each costs about as much as an addition.
constexpr std::int64_t elementwise_grain = 1 << 15;

/// Calls body(z, at, stride, n) for runs that together are all elements of `out`: n neighbours from element z on, whose
/// operands begin at at[k] and walk on by stride[k], 0 or 1. The operands' shapes broadcast to `out`.
template <int K, class Body>
void each_run(const Shape& out, const Shape* const (&operands)[K], const Body& body) {
  const std::int64_t count = out.numel();
  if (count == 0) return;
  const Broadcast<K> plan(out, operands);
  const std::int64_t inner = plan.inner();
  int stride[K];
  for (int k = 0; k < K; ++k) stride[k] = static_cast<int>(plan.inner_stride(k));
  parallel_for(count, elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    plan.each_row(begin / inner, (end + inner - 1) / inner, [&](std::int64_t row, const std::int64_t* row_at) {
      const std::int64_t first = std::max(begin, row * inner), last = std::min(end, (row + 1) * inner);
      std::int64_t at[K];
      for (int k = 0; k < K; ++k) at[k] = row_at[k] + stride[k] * (first - row * inner);
      body(first, at, stride, last - first);
    });
  });
}

/// z = f(a, b), where f(z, x, y, n, sx, sy) works on one contiguous run (see kernels::Binary; any element types).
template <class Z, class X, class Y, class F>
void run_binary(Tensor& z, const Tensor& a, const Tensor& b, const F& f) {
  Z* const pz = z.fresh<Z>();
  const X* const px = static_cast<const X*>(a.raw());
  const Y* const py = static_cast<const Y*>(b.raw());
  if (a.shape() == b.shape()) {
    parallel_for(z.numel(), elementwise_grain,
                 [&](std::int64_t i, std::int64_t end) { f(pz + i, px + i, py + i, end - i, 1, 1); });
    return;
  }
  each_run<2>(z.shape(), {&a.shape(), &b.shape()},
              [&](std::int64_t i, const std::int64_t* at, const int* stride, std::int64_t n) {
                f(pz + i, px + at[0], py + at[1], n, stride[0], stride[1]);
              });
}

/// z = f(a, number), or f(number, a) if the number comes first.
template <class Z, class X, class F>
void run_with_number(Tensor& z, const Tensor& a, X number, bool number_first, const F& f) {
  Z* const pz = z.fresh<Z>();
  const X* const px = static_cast<const X*>(a.raw());
  parallel_for(z.numel(), elementwise_grain, [&](std::int64_t i, std::int64_t end) {
    if (number_first)
      f(pz + i, &number, px + i, end - i, 0, 1);
    else
      f(pz + i, px + i, &number, end - i, 1, 0);
  });
}

/// y = f(x), where f(y, x, n) works on one contiguous run.
template <class Y, class X, class F>
void run_unary(Tensor& y, const Tensor& x, const F& f) {
  Y* const py = y.fresh<Y>();
  const X* const px = static_cast<const X*>(x.raw());
  parallel_for(y.numel(), elementwise_grain, [&](std::int64_t i, std::int64_t end) { f(py + i, px + i, end - i); });
}

/// A plain functor f(x, y) as a function on runs.
template <class Z, class X, class Y, class F>
auto each_pair(const F& f) {
  return [f](Z* z, const X* x, const Y* y, std::int64_t n, int sx, int sy) {
    for (std::int64_t i = 0; i < n; ++i) z[i] = f(x[sx * i], y[sy * i]);
  };
}

/// A plain functor f(x) as a function on runs.
template <class Y, class X, class F>
auto each_one(const F& f) {
  return [f](Y* y, const X* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
  };
}

}  // namespace fit
