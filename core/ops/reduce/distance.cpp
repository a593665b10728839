// Products and distances of vectors, by other operations: dot, bmm, addmm, normalize, cosine_similarity.
#include <cmath>

#include "fit/ops/ops.hpp"
#include "ops/common/precision.hpp"
#include "ops/elementwise/broadcast.hpp"
#include "ops/index/axis_slices.hpp"
#include "ops/reduce/slice_scale.hpp"
#include "ops/reduce/squared_distance.hpp"

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

/// total((a - b)^2), where total is the sum divided by n: dy/da = 2 (a - b) / n.
Tensor fused_distance(const char* op, const Tensor& a, const Tensor& b, Tensor (*total)(const Tensor&), double n) {
  Tensor y;
  {
    const NoGrad no_grad;
    const Tensor d = a - b;
    y = total(d * d);
  }
  return record(op, {a, b}, std::move(y), keep::inputs, [factor = 2 / n](Backward& b) {
    const Tensor d = (b.x(0) - b.x(1)) * (b.dy() * factor);
    if (b.wants(0)) b.give(0, d);
    if (b.wants(1)) b.give(1, -d);
  });
}

}  // namespace

Tensor detail::squared_distance(const Tensor& a, const Tensor& b) {
  return fused_distance(
      "squared_distance", a, b, [](const Tensor& x) { return sum(x); }, 1);
}
Tensor detail::mean_squared_distance(const Tensor& a, const Tensor& b) {
  return fused_distance(
      "mean_squared_distance", a, b, [](const Tensor& x) { return mean(x); }, static_cast<double>(a.numel()));
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
