// softmax, log_softmax, gumbel_softmax, logsumexp.
#include "ops/network/softmax.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/rows/rows_softmax.hpp"
#include "ops/common/precision.hpp"
#include "ops/index/axis_slices.hpp"
#include "ops/reduce/reduced_rows.hpp"
#include "ops/reduce/reduction.hpp"
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

/// v minus its number at the leading element (kernels/rows/rows_softmax.hpp), along an axis; v if there is none
/// that is finite.
Tensor beside_leading(const Tensor& leads, const Tensor& v, int axis) {
  return v - sum_along(where(logical_and(leads, isfinite(v)), v, 0), axis);
}

/// dx = y (dy - sum(y dy)): the adjoint of softmax.
Tensor softmax_backward(const Tensor& y, const Tensor& dy, int axis) {
  Tensor dx = by_slices(
      axis, [](const auto& kernels) { return kernels.softmax_backward; }, y, dy);
  return record("softmax_backward", {y, dy}, std::move(dx), keep::inputs, [axis](Backward& b) {
    const Tensor y = b.x(0);
    if (b.wants(0)) {
      // g (dy - sum(y dy)) - dy sum(g y). Numbers that are added to all dy or g change all elements alike, which the
      // adjoint of y ignores.
      const Tensor leads = gt(y, kernels::softmax_leads), g = beside_leading(leads, b.dy(), axis),
                   dy = beside_leading(leads, b.x(1), axis);
      b.give(0, g * (dy - sum_along(y * dy, axis)) - dy * sum_along(g * y, axis));
    }
    if (b.wants(1)) b.give(1, softmax_backward(y, b.dy(), axis));
  });
}

/// softmax over the axes that are 1 in `kept`.
Tensor softmax_over(const Tensor& x, const Shape& kept) {
  const int axis = static_cast<int>(std::find(kept.begin(), kept.end(), 1) - kept.begin());
  if (std::count(kept.begin(), kept.end(), 1) == 1) return softmax(x, axis);
  const ReducedRows rows(x, kept);
  return rows.in_shape_of_x(softmax(rows.flat));
}

/// The same, given y = logsumexp(x), with its limits at infinity: the infinite elements share 1. Where all are -inf, 0.
Tensor softmax_with_infinities(const Tensor& x, const Tensor& y) {
  if (all(logical_not(isinf(y))).item<bool>()) return softmax_over(x, y.shape());
  const Tensor none = eq(y, -INFINITY), top = eq(x, INFINITY);
  const Tensor beside = logical_and(eq(y, INFINITY), logical_not(top));
  const Tensor finite = masked_fill(masked_fill(masked_fill(x, none, 0), top, 0), beside, -INFINITY);
  return masked_fill(softmax_over(finite, y.shape()), none, 0);
}

/// logsumexp where the maximum and the logarithm are so small that the rounding of the sum 1 + rest shows: beside it,
/// the rest may have no digits.
template <class T>
void add_rest_to_maximum(const Reduction& r, const Tensor& x, const Tensor& doubtful, T* y) {
  const auto again = doubtful.data<bool>();
  if (std::find(again.begin(), again.end(), true) == again.end()) return;
  const Tensor rows = ReducedRows(x.detach(), r.shape(keepdims)).flat;
  for (std::int64_t i = 0; i < again.size(); ++i) {
    if (!again[i]) continue;
    T max, rest;
    const auto& kernels = kernels::softmax_rows<T>();
    kernels.max_and_rest(rows.data<T>().data() + i * r.count(), r.count(), max, rest);
    y[i] = max + kernels.log1p(rest);
  }
}

}  // namespace

Tensor detail::log_softmax_backward(const Tensor& y, const Tensor& dy, int axis) {
  Tensor dx = by_slices(
      axis, [](const auto& kernels) { return kernels.log_softmax_backward; }, y, dy);
  return record("log_softmax_backward", {y, dy}, std::move(dx), keep::inputs, [axis](Backward& b) {
    const Tensor y = b.x(0), p = exp(y);
    if (b.wants(0)) b.give(0, neg(b.dy() * p * sum_along(b.x(1), axis)));
    if (b.wants(1)) {
      const Tensor g = beside_leading(gt(y, kernels::log_softmax_leads), b.dy(), axis);  // p sums to 1
      b.give(1, g - sum_along(p * g, axis));
    }
  });
}

Tensor softmax(const Tensor& x, int axis) {
  check::floating("softmax", "x", x);
  const int a = slice_axis("softmax", x, axis);
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    Tensor y = by_slices(
        a, [](const auto& kernels) { return kernels.softmax; }, x);
    return record({"softmax", {{"axis", a}}}, {x}, std::move(y), keep::output,
                  [a](Backward& b) { b.give(0, softmax_backward(b.y(), b.dy(), a)); });
  });
}

Tensor log_softmax(const Tensor& x, int axis) {
  check::floating("log_softmax", "x", x);
  const int a = slice_axis("log_softmax", x, axis);
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    Tensor y = by_slices(
        a, [](const auto& kernels) { return kernels.log_softmax; }, x);
    return record({"log_softmax", {{"axis", a}}}, {x}, std::move(y), keep::output,
                  [a](Backward& b) { b.give(0, detail::log_softmax_backward(b.y(), b.dy(), a)); });
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
      Tensor doubtful = zeros({r.outputs()}, boolean);
      T* const out = y.fresh<T>();
      fold_floating<T>(r, x, 0.0, kernels::reduce<T>().exps, top, std::plus<>(),
                       [=, again = doubtful.fresh<bool>(), log_of = kernels::softmax_rows<double>().log](std::int64_t i,
                                                                                                         double total) {
                         const double log = log_of(total);
                         out[i] = static_cast<T>(top[i] + log);
                         again[i] = log >= 0 && std::abs(top[i]) + log < (sizeof(T) == 4 ? 0x1p-24 : 0.5);
                       });
      add_rest_to_maximum(r, x, doubtful, out);
    });
    // dx = dy softmax(x), not dy e^(x - y): the rounding of y = max + ln(sum) is not small where max is large.
    return record({"logsumexp", {{"axes", r.axes()}, {"keepdims", keep == KeepDims::yes}}}, {x}, std::move(y),
                  keep::input(0) | keep::output, [kept = r.shape(keepdims)](Backward& b) {
                    const Tensor dy = reshape(b.dy(), kept), y = reshape(b.y(), kept);
                    b.give(0, dy * softmax_with_infinities(b.x(0), y));
                  });
  });
}

}  // namespace fit
