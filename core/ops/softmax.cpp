// softmax, log_softmax, gumbel_softmax, logsumexp.
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/rows_softmax.hpp"
#include "ops/axis_slices.hpp"
#include "ops/precision.hpp"
#include "ops/reduction.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

/// y = kernel(inputs...) slice by slice. The inputs have the same floating type and shape.
template <class Pick, class... X>
Tensor by_slices(int axis, const Pick& pick, const Tensor& first, const X&... others) {
  Tensor y = Tensor::empty(first.shape(), first.dtype());
  const kernels::AxisView slices(first.shape(), axis);
  if (y.numel() == 0) return y;
  dispatch_compute_floating(first.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto kernel = pick(kernels::softmax_rows<T>());
    T* const out = y.fresh<T>();
    const bool nontemporal = slices.stride() == 1 && kernels::stores_nontemporal(out, y.numel() / slices.n, slices.n);
    each_group_of_slices(slices, [&](std::int64_t at, std::int64_t count) {
      kernel(out + at, first.data<T>().data() + at, (others.template data<T>().data() + at)..., count, slices.n,
             slices.stride(), nontemporal);
    });
  });
  return y;
}

/// Sums along an axis, which keeps size 1.
Tensor sum_along(const Tensor& x, int axis) { return sum(x, axis, keepdims); }

/// dx = y (dy - sum(y dy)): the adjoint of softmax.
Tensor softmax_backward(const Tensor& y, const Tensor& dy, int axis) {
  Tensor dx = by_slices(
      axis, [](const auto& kernels) { return kernels.softmax_backward; }, y, dy);
  return record("softmax_backward", {y, dy}, std::move(dx), keep::inputs, [axis](Backward& b) {
    const Tensor g = b.dy(), y = b.x(0), dy = b.x(1);
    if (b.wants(0)) b.give(0, g * (dy - sum_along(y * dy, axis)) - dy * sum_along(g * y, axis));
    if (b.wants(1)) b.give(1, softmax_backward(y, g, axis));
  });
}

/// dx = dy - e^y sum(dy): the adjoint of log_softmax.
Tensor log_softmax_backward(const Tensor& y, const Tensor& dy, int axis) {
  Tensor dx = by_slices(
      axis, [](const auto& kernels) { return kernels.log_softmax_backward; }, y, dy);
  return record("log_softmax_backward", {y, dy}, std::move(dx), keep::inputs, [axis](Backward& b) {
    const Tensor g = b.dy(), weighted = g * exp(b.x(0));
    if (b.wants(0)) b.give(0, neg(weighted * sum_along(b.x(1), axis)));
    if (b.wants(1)) b.give(1, g - sum_along(weighted, axis));
  });
}

}  // namespace

Tensor softmax(const Tensor& x, int axis) {
  check::floating("softmax", "x", x);
  const int a = slice_axis("softmax", x, axis);
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    Tensor y = by_slices(
        a, [](const auto& kernels) { return kernels.softmax; }, x);
    return record("softmax", {x}, std::move(y), keep::output,
                  [a](Backward& b) { b.give(0, softmax_backward(b.y(), b.dy(), a)); });
  });
}

Tensor log_softmax(const Tensor& x, int axis) {
  check::floating("log_softmax", "x", x);
  const int a = slice_axis("log_softmax", x, axis);
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    Tensor y = by_slices(
        a, [](const auto& kernels) { return kernels.log_softmax; }, x);
    return record("log_softmax", {x}, std::move(y), keep::output,
                  [a](Backward& b) { b.give(0, log_softmax_backward(b.y(), b.dy(), a)); });
  });
}

Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxOptions& options, Generator& g) {
  constexpr const char* op = "gumbel_softmax";
  check::floating(op, "logits", logits);
  const int axis = slice_axis(op, logits, options.axis());
  if (!(options.tau() > 0)) check::fail(op, "tau is ", options.tau(), ": it must be positive");
  return with_precision(Precision::float32, {logits}, [&](const Tensor& logits) {
    // float32, so that both types get the same noise
    const Tensor u = clamp_min(rand(logits.shape(), float32, g), std::numeric_limits<float>::min()).to(logits.dtype());
    const Tensor soft = softmax((logits - log(-log(u))) / options.tau(), axis);
    if (!options.hard()) return soft;
    const Tensor hard = zeros_like(soft), chosen = argmax(soft.detach(), axis, keepdims);
    return scatter(hard, axis, chosen, ones(chosen.shape(), soft.dtype())) + (soft - soft.detach());
  });
}

Tensor logsumexp(const Tensor& x, const Axes& axes, KeepDims keep) {
  check::floating("logsumexp", "x", x);
  const Reduction r("logsumexp", x, axes);
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    Tensor y = Tensor::empty(r.shape(keep), x.dtype()), max = Tensor::empty({r.outputs()}, float64);
    double* const top = max.fresh<double>();
    dispatch_compute_floating(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      // An infinite maximum is not subtracted: then -inf only sums to 0, and inf to inf.
      fold_floating<T>(r, x, -INFINITY, kernels::reduce<T>().max, nullptr, larger,
                       [top](std::int64_t i, double m) { top[i] = std::isinf(m) ? 0 : m; });
      fold_floating<T>(r, x, 0.0, kernels::reduce<T>().exps, top, std::plus<>(),
                       [top, out = y.fresh<T>()](std::int64_t i, double total) {
                         out[i] = static_cast<T>(top[i] + std::log(total));
                       });
    });
    return record("logsumexp", {x}, std::move(y), keep::input(0) | keep::output,
                  [kept = r.shape(keepdims)](Backward& b) {
                    // dx = dy e^(x - y). Where y is -inf, so is x; e^(x - 0) gives the correct 0.
                    const Tensor y = reshape(b.y(), kept), finite = masked_fill(y, eq(y, -INFINITY), 0);
                    b.give(0, reshape(b.dy(), kept) * exp(b.x(0) - finite));
                  });
  });
}

}  // namespace fit
