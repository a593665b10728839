// Products and distances of vectors: dot, bmm, addmm, normalize and cosine_similarity by other operations, the
// distances of losses block by block.
#include "ops/reduce/distance.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/scratch.hpp"
#include "fit/ops/ops.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/function_list.hpp"
#include "kernels/rows/reduce.hpp"
#include "ops/common/blocks.hpp"
#include "ops/common/precision.hpp"
#include "ops/elementwise/broadcast.hpp"
#include "ops/index/axis_slices.hpp"
#include "ops/reduce/slice_scale.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

void expect_eps(const char* op, double eps) {
  if (!(eps > 0)) check::fail(op, "eps is ", eps, ": it must be greater than 0");
}

/// x / max(norm(x, p), eps) along an axis.
Tensor unit(const Tensor& x, double p, int axis, double eps) {
  const Tensor size = norm(x, p, axis, keepdims);
  const Tensor s = slice_scale(x, size.shape(), size);
  if (!s.defined()) return x / clamp_min(size, eps);
  const Tensor near_one = x * s, scaled = norm(near_one, p, axis, keepdims), least = s * eps;
  return near_one / where(scaled < least, least, scaled);
}

// f(numbers of a, numbers of b, T(0)) for tensors of one type.
template <class F>
void of_pair(const Tensor& a, const Tensor& b, const F& f) {
  dispatch_compute_floating(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    f(a.data<T>().data(), b.data<T>().data(), zero);
  });
}

// sum((a - b)^2) / n
Tensor mean_of_squares(const Tensor& a, const Tensor& b, double n) {
  const std::int64_t blocks = (a.numel() + block_size - 1) / block_size;
  const kernels::Scratch<double> totals(blocks);
  std::fill_n(totals.get(), blocks, 0.0);
  Tensor result = Tensor::empty({}, a.dtype());
  of_pair(a, b, [&](const auto* x, const auto* y, auto zero) {
    using T = decltype(zero);
    each_block(a.numel(), [&](std::int64_t at, std::int64_t n) {
      T d[block_size];
      kernels::elementwise<T>().sub(d, x + at, y + at, n, 1, 1);
      kernels::reduce<T>().squares(totals.get() + at / block_size, d, nullptr, 1, n, n, 1);
    });
    *result.fresh<T>() = static_cast<T>(std::accumulate(totals.get(), totals.get() + blocks, 0.0) / n);
  });
  return result;
}

// (a - b), limited to -bound … bound, times g: one number, or one for each element.
Tensor difference_times(const Tensor& a, const Tensor& b, double bound, const Tensor& g) {
  Tensor z = Tensor::empty(a.shape(), a.dtype());
  const int step = g.numel() == 1 && a.numel() != 1 ? 0 : 1;
  of_pair(a, b, [&](const auto* x, const auto* y, auto zero) {
    using T = decltype(zero);
    each_block(a.numel(), [&, to = z.fresh<T>(), g = g.data<T>().data()](std::int64_t at, std::int64_t n) {
      const auto& kernels = kernels::elementwise<T>();
      T d[block_size];
      kernels.sub(d, x + at, y + at, n, 1, 1);
      if (std::isfinite(bound)) kernels.clamp(d, d, n, static_cast<T>(-bound), static_cast<T>(bound));
      kernels.mul(to + at, d, g + step * at, n, 1, step);
    });
  });
  return z;
}

// Gives d, and -d to b.
void give_difference(Backward& b, Tensor&& d) {
  if (b.wants(1)) b.give(1, -d);
  if (b.wants(0)) b.give(0, std::move(d));
}

// sum((a - b)^2) / n: dy/da = 2 (a - b) / n.
Tensor fused_distance(const char* op, const Tensor& given_a, const Tensor& given_b, double n) {
  const DType t = promote(given_a.dtype(), given_b.dtype());
  const Tensor a = given_a.to(t), b = given_b.to(t);
  return record(op, {a, b}, mean_of_squares(a, b, n), keep::inputs, [factor = 2 / n](Backward& b) {
    const Tensor g = b.dy() * factor;
    give_difference(b, b.recording() ? (b.x(0) - b.x(1)) * g
                                     : difference_times(b.x(0), b.x(1), std::numeric_limits<double>::infinity(), g));
  });
}

}  // namespace

Tensor detail::squared_distance(const Tensor& a, const Tensor& b) {
  return fused_distance("squared_distance", a, b, 1);
}
Tensor detail::mean_squared_distance(const Tensor& a, const Tensor& b) {
  return fused_distance("mean_squared_distance", a, b, static_cast<double>(a.numel()));
}

Tensor detail::huber(const Tensor& given_a, const Tensor& given_b, double bound, double scale) {
  const DType t = promote(given_a.dtype(), given_b.dtype());
  const Tensor a = given_a.to(t), b = given_b.to(t);
  Tensor y = Tensor::empty(a.shape(), t);
  of_pair(a, b, [&](const auto* pa, const auto* pb, auto zero) {
    using T = decltype(zero);
    each_block(a.numel(), [&, to = y.fresh<T>()](std::int64_t at, std::int64_t n) {
      const auto& kernels = kernels::elementwise<T>();
      const T half = T(0.5), factor = static_cast<T>(scale);
      T d[block_size], c[block_size], rest[block_size];
      kernels.sub(d, pa + at, pb + at, n, 1, 1);
      kernels::function<T>(kernels::Function::abs).forward(d, d, n, zero);
      kernels.clamp(c, d, n, zero, static_cast<T>(bound));
      kernels.mul(rest, c, &half, n, 1, 0);
      kernels.sub(rest, d, rest, n, 1, 1);
      kernels.mul(c, c, &factor, n, 1, 0);
      kernels.mul(to + at, c, rest, n, 1, 1);
    });
  });
  return record("huber", {a, b}, std::move(y), keep::inputs, [bound, scale](Backward& b) {
    const Tensor g = b.dy() * scale;
    give_difference(
        b, b.recording() ? clamp(b.x(0) - b.x(1), -bound, bound) * g : difference_times(b.x(0), b.x(1), bound, g));
  });
}

Tensor dot(const Tensor& a, const Tensor& b) {
  check::defined("dot", "a", a, "b", b);
  if (a.rank() != 1 || a.shape() != b.shape())
    check::fail("dot", "a has shape ", a.shape(), ", b ", b.shape(), ": both must be [N]");
  return is_floating(promote(a.dtype(), b.dtype())) ? matmul(a, b) : sum(a * b);
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  check::defined("bmm", "a", a, "b", b);
  if (a.rank() != 3 || b.rank() != 3 || a.shape()[0] != b.shape()[0] || a.shape()[2] != b.shape()[1])
    check::fail("bmm", "a has shape ", a.shape(), ", b ", b.shape(), ": they must be [B, M, K] and [B, K, N]");
  return matmul(a, b);
}

Tensor addmm(const Tensor& c, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  check::defined("addmm", "c", c, "a", a, "b", b);
  if (a.rank() != 2 || b.rank() != 2 || a.shape()[1] != b.shape()[0])
    check::fail("addmm", "a has shape ", a.shape(), ", b ", b.shape(), ": they must be [M, K] and [K, N]");
  const Shape shape{a.shape()[0], b.shape()[1]};
  if (!broadcasts_to(c.shape(), shape))
    check::fail("addmm", "c has shape ", c.shape(), ": it must broadcast to ", shape);
  return with_precision(Precision::rounded_or_native, {c, a, b},
                        [&](const Tensor& c, const Tensor& a, const Tensor& b) {
                          Tensor product = alpha.value() == 1 ? matmul(a, b) : matmul(a, b) * alpha;
                          if (beta.value() == 0) return product;
                          return (beta.value() == 1 ? c : c * beta) + product;
                        });
}

Tensor normalize(const Tensor& x, double p, int axis, double eps) {
  check::floating("normalize", "x", x);
  axis = slice_axis("normalize", x, axis);
  if (std::isnan(p)) check::fail("normalize", "p is NaN: it must be a number or infinite");
  expect_eps("normalize", eps);
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) { return unit(x, p, axis, eps); });
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int axis, double eps) {
  check::floating("cosine_similarity", "a", a);
  check::floating("cosine_similarity", "b", b);
  const Shape shape = check::broadcast("cosine_similarity", a.shape(), b.shape());
  expect_eps("cosine_similarity", eps);
  return with_precision(Precision::float32, {a, b}, [&](const Tensor& a, const Tensor& b) {
    const Tensor x = a.shape() == shape ? a : broadcast_to(a, shape),
                 y = b.shape() == shape ? b : broadcast_to(b, shape);
    axis = slice_axis("cosine_similarity", x, axis);
    return sum(unit(x, 2, axis, eps) * unit(y, 2, axis, eps), axis);
  });
}

}  // namespace fit
