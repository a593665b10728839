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
  const Broadcast<2> plan(z.shape(), {&a.shape(), &b.shape()});
  const std::int64_t inner = plan.inner(), rows = z.numel() == 0 ? 0 : plan.rows();
  const int sx = static_cast<int>(plan.inner_stride(0)), sy = static_cast<int>(plan.inner_stride(1));
  if (rows == 1) {
    parallel_for(inner, elementwise_grain,
                 [&](std::int64_t i, std::int64_t end) { f(pz + i, px + sx * i, py + sy * i, end - i, sx, sy); });
    return;
  }
  parallel_for(rows, std::max<std::int64_t>(1, elementwise_grain / inner), [&](std::int64_t begin, std::int64_t end) {
    plan.each_row(begin, end, [&](std::int64_t row, const std::int64_t* at) {
      f(pz + row * inner, px + at[0], py + at[1], inner, sx, sy);
    });
  });
}

/// A plain functor f(x, y) as a function on runs.
template <class Z, class X, class Y, class F>
auto each_pair(const F& f) {
  return [f](Z* z, const X* x, const Y* y, std::int64_t n, int sx, int sy) {
    for (std::int64_t i = 0; i < n; ++i) z[i] = f(x[sx * i], y[sy * i]);
  };
}

}  // namespace fit
