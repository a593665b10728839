// sum, mean, var, std, norm, any, all, cumsum. Products are in product.cpp.
#include "kernels/rows/reduce.hpp"

#include <cmath>
#include <functional>
#include <limits>

#include "ops/common/precision.hpp"
#include "ops/elementwise/arithmetic.hpp"
#include "ops/elementwise/functions.hpp"
#include "ops/index/axis_slices.hpp"
#include "ops/reduce/cumulative.hpp"
#include "ops/reduce/reduction.hpp"
#include "ops/reduce/slice_scale.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {

Axes::Axes(std::initializer_list<int> axes) : axes_(axes), all_(false) {}
Axes::Axes(std::vector<int> axes) : axes_(std::move(axes)), all_(false) {}

namespace {

/// Computes the totals of x by pass(x, done), which calls done(i, total) for each. Calls finish(i, total, 1.0), and,
/// where the squares of size(total) don't fit, again with the total of the slice times a power of two: finish(i, total,
/// scale). Totals of float32 always fit: they are double.
template <class T, class Pass, class Size, class Finish>
void each_total(const Reduction& r, const Tensor& x, const Pass& pass, const Size& size, const Finish& finish) {
  if constexpr (!std::is_same_v<T, double>) {
    pass(x, [&](std::int64_t i, double total) { finish(i, total, 1.0); });
  } else {
    Tensor sizes = Tensor::empty(r.shape(keepdims), float64);
    pass(x, [&, to = sizes.fresh<double>()](std::int64_t i, double total) {
      to[i] = size(total);
      finish(i, total, 1.0);
    });
    const Tensor scales = slice_scale(x, sizes.shape(), sizes);
    if (!scales.defined()) return;
    pass(x.detach() * scales, [&, scale = scales.data<double>().data()](std::int64_t i, double total) {
      if (scale[i] != 1) finish(i, total, scale[i]);
    });
  }
}

/// Calls finish(i, total, scale) for each sum of x, which is total / scale: in double for floating types, otherwise in
/// int64, which wraps around.
template <class T, class Finish>
void each_sum(const Reduction& r, const Tensor& x, const Finish& finish) {
  if constexpr (is_floating_element<T>) {
    each_total<T>(
        r, x,
        [&r](const Tensor& of, const auto& done) {
          fold_floating<T>(r, of, 0.0, FIT_KERNELS(kernels::floating_sum, T), nullptr, std::plus<>(), done);
        },
        [](double total) { return std::isfinite(total) ? 1 : total; }, finish);
  } else {
    const auto done = [&](std::int64_t i, std::int64_t total) { finish(i, total, 1); };
    r.fold<std::int64_t>(
        0,
        [kernel = FIT_KERNELS(kernels::integer_sum, T), from = x.data<T>().data()](
            std::int64_t* acc, std::int64_t at, std::int64_t, auto... block) { kernel(acc, from + at, block...); },
        [](auto a, auto b) { return Add::integers(a, b); }, each_output<std::int64_t>(done));
  }
}

/// Calls finish(i, total, scale) for each sum of x^2, or of (x - mean)^2 in two passes. It is total / scale^2.
template <class T, class Finish>
void each_square_sum(const Reduction& r, const Tensor& x, bool centred, const Finish& finish) {
  const auto pass = [&](const Tensor& of, const auto& done) {
    Tensor centre = centred ? Tensor::empty({r.outputs()}, float64) : Tensor();
    double* const c = centred ? centre.fresh<double>() : nullptr;
    const double n = static_cast<double>(r.count());
    if (centred) each_sum<T>(r, of, [=](std::int64_t i, double total, double scale) { c[i] = total / n / scale; });
    fold_floating<T>(r, of, 0.0, kernels::reduce<T>().squares, c, std::plus<>(), done);
  };
  each_total<T>(
      r, x, pass, [](double total) { return std::sqrt(total); }, finish);
}

// The type of a sum, which is float32 under Autocast.
DType sum_dtype(const Tensor& x) { return result_dtype(Precision::native_or_float32, total_dtype(x)); }

// Sum in type t: total_dtype(x), or the type in which kernels compute it.
Tensor sum_over(const Reduction& r, const Tensor& x, const Shape& result, DType t) {
  Tensor y = Tensor::empty(result, t);
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto given_as = [&](auto total_zero) {
      using Out = decltype(total_zero);
      each_sum<T>(r, x, [out = y.fresh<Out>()](std::int64_t i, auto total, auto scale) {
        out[i] = static_cast<Out>(total / scale);
      });
    };
    t == total_dtype(x) ? given_as(Total<T>{}) : given_as(AccT<Total<T>>{});
  });
  return record({"sum", {{"axes", r.axes()}, {"keepdims", result.rank() == x.rank()}}}, {x}, std::move(y),
                keep::nothing,
                [kept = r.shape(keepdims)](Backward& b) { b.give(0, expand_grad(b.dy(), kept, b.shape(0))); });
}

/// a / b; 0 without a gradient where b is 0.
Tensor quotient_or_zero(const Tensor& a, const Tensor& b) {
  const Tensor zero = eq(b, 0);
  return masked_fill(div(a, masked_fill(b, zero, 1)), zero, 0);
}

/// x dy / y, for |x| of about |y| at most; 0 where y is 0. Where dy / y alone leaves the range, x / y is taken first.
Tensor times_quotient(const Tensor& x, const Tensor& dy, const Tensor& y) {
  const Tensor factor = quotient_or_zero(dy, y), product = x * factor;
  Tensor lost = zeros(y.shape(), boolean);
  bool any = false;
  dispatch_compute_floating(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *const q = factor.data<T>().data(), *const numerator = dy.data<T>().data(),
                   *const size = y.data<T>().data();
    bool* const out = lost.fresh<bool>();
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      out[i] = !std::isnormal(q[i]) && numerator[i] != 0 && std::isfinite(numerator[i]) && std::isfinite(size[i]) &&
               size[i] != 0;
      any |= out[i];
    }
  });
  if (!any) return product;
  const Tensor raised = where(lt(y, 1), full({}, y.dtype() == float64 ? 0x1p512 : 0x1p64, y.dtype()), 1);
  return where(lost, quotient_or_zero(x * raised, y) * (dy / raised), product);
}

/// g sign(x): the gradient of |x|. Its derivative by x is 0.
Tensor times_sign(const Tensor& g, const Tensor& x) { return detail::derivative(kernels::Function::abs, g, x); }

/// The gradient of the variance y of n elements each, or of its square root if `root`: dvar/dx = 2 (x - mean) / (n -
/// correction);  dstd = dvar / (2 std), 0 if std is 0. A factor of x changes nothing in dstd.
Tensor deviation_gradient(const Tensor& x, const Tensor& y, const Tensor& dy, bool root, double n,
                          Correction correction) {
  const Shape kept = y.shape();
  Tensor near_one = x, middle = sum_to(x, kept) / n, deviation = y;
  const Tensor s = slice_scale(x, kept, root ? y : where(isfinite(middle + y), 1, middle + y));
  if (s.defined()) {
    near_one = x * s;
    middle = sum_to(near_one, kept) / n;
    if (root) deviation = fit::std(near_one, reduced_axes(kept), correction, keepdims);
  }
  const Tensor centred = near_one - middle, each = (root ? dy : dy * 2) / (n - static_cast<double>(correction));
  const Tensor dx = root ? times_quotient(centred, each, deviation) : centred * each;
  return s.defined() && !root ? dx / s : dx;
}

/// The variance, or its square root if `root`; NaN without degrees of freedom.
Tensor var_or_std(const char* op, const Tensor& x, const Reduction& r, Correction correction, KeepDims keep,
                  bool root) {
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    Tensor y = Tensor::empty(r.shape(keep), x.dtype());
    const double n = static_cast<double>(r.count()), freedom = n - static_cast<double>(correction);
    dispatch_compute_floating(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      each_square_sum<T>(r, x, true, [=, out = y.fresh<T>()](std::int64_t i, double total, double scale) {
        const double v = freedom > 0 ? total / freedom : std::numeric_limits<double>::quiet_NaN();
        out[i] = static_cast<T>(root ? std::sqrt(v) / scale : v / scale / scale);
      });
    });
    return record(
        {op,
         {{"axes", r.axes()},
          {"keepdims", keep == KeepDims::yes},
          {"correction", static_cast<std::int64_t>(correction)}}},
        {x}, std::move(y), keep::inputs | keep::output, [=, kept = r.shape(keepdims)](Backward& b) {
          b.give(0, deviation_gradient(b.x(0), reshape(b.y(), kept), reshape(b.dy(), kept), root, n, correction));
        });
  });
}

Tensor any_or_all(const char* op, const Tensor& x, const Axes& axes, KeepDims keep, bool all) {
  const Reduction r(op, x, axes);
  Tensor y = Tensor::empty(r.shape(keep), boolean);
  bool* const out = y.fresh<bool>();
  const auto join = [all](bool a, bool b) { return all ? a && b : a || b; };
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    fold_plain<bool>(
        r, x.data<T>().data(), all, [join](bool acc, T v) { return join(acc, v != T(0)); }, join,
        [out](std::int64_t i, bool v) { out[i] = v; });
  });
  return detail::unrecorded(op, {x}, std::move(y));
}

/// Cumulative sums along an axis, from its end if `backwards`.
Tensor running_sum(const Tensor& x, int axis, bool backwards) {
  Tensor y = Tensor::empty(x.shape(), total_dtype(x));
  const kernels::AxisView slices(x.shape(), axis);
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using Sum = std::conditional_t<is_floating_element<T>, double, std::int64_t>;
    const T* const in = x.data<T>().data();
    Total<T>* const out = y.fresh<Total<T>>();
    // Sums `count` slices, `step` elements apart; `count` is at most `max_count`.
    const auto run = [&](auto max_count, std::int64_t at, auto count, auto step) {
      Sum sum[max_count] = {};
      for (std::int64_t i = 0; i < slices.n; ++i) {
        const std::int64_t first = at + (backwards ? slices.n - 1 - i : i) * slices.inner;
        for (std::int64_t l = 0; l < count; ++l) {
          const auto v = static_cast<Sum>(in[first + l * step]);
          if constexpr (is_floating_element<T>)
            sum[l] += v;
          else
            sum[l] = Add::integers(sum[l], v);
          out[first + l * step] = static_cast<Total<T>>(sum[l]);
        }
      }
    };
    using Beside = std::integral_constant<int, 1>;
    each_group_of_slices(slices, [&](std::int64_t at, std::int64_t count) {
      if (slices.inner > 1) return run(std::integral_constant<int, max_group>(), at, count, Beside());
      // Contiguous slices: four at once, so that the additions are independent.
      constexpr std::integral_constant<int, 4> four;
      for (; count >= 4; count -= 4, at += 4 * slices.n) run(four, at, four, slices.n);
      for (; count > 0; --count, at += slices.n) run(four, at, Beside(), slices.n);
    });
  });
  return record({"cumsum", {{"axis", axis}, {"backwards", backwards}}}, {x}, std::move(y), keep::nothing,
                [axis, backwards](Backward& b) { b.give(0, running_sum(b.dy(), axis, !backwards)); });
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, KeepDims keep) {
  const Reduction r("sum", x, axes);
  return sum_over(r, x, r.shape(keep), sum_dtype(x));
}

namespace {

Tensor summed_to(const Tensor& x, const Shape& shape, DType t) {
  const int rank = x.rank(), extra = rank - shape.rank();
  std::int64_t kept[Shape::max_rank];
  bool fits = extra >= 0;
  for (int a = 0; a < rank && fits; ++a) {
    kept[a] = a < extra ? 1 : shape[a - extra];
    fits = kept[a] == 1 || kept[a] == x.shape()[a];
  }
  if (!fits) check::fail("sum_to", "x has shape ", x.shape(), ": ", shape, " does not broadcast to it");
  return sum_over(Reduction(x, Shape(kept, rank)), x, shape, t);
}

}  // namespace

Tensor sum_to(const Tensor& x, const Shape& shape) {
  check::defined("sum_to", "x", x);
  return x.shape() == shape ? x : summed_to(x, shape, sum_dtype(x));
}

Tensor detail::sum_to(const Tensor& x, const Shape& shape, DType t) {
  return summed_to(t == float64 ? x.to(t) : x, shape, promote(x.dtype(), t)).to(t);
}

Tensor mean(const Tensor& x, const Axes& axes, KeepDims keep) {
  check::floating("mean", "x", x);
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    const Reduction r("mean", x, axes);
    Tensor y = Tensor::empty(r.shape(keep), x.dtype());
    const double n = static_cast<double>(r.count());
    dispatch_compute_floating(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      each_sum<T>(r, x, [n, out = y.fresh<T>()](std::int64_t i, double total, double scale) {
        out[i] = static_cast<T>(total / n / scale);
      });
    });
    return record(
        {"mean", {{"axes", r.axes()}, {"keepdims", keep == KeepDims::yes}}}, {x}, std::move(y), keep::nothing,
        [n, kept = r.shape(keepdims)](Backward& b) { b.give(0, expand_grad(div(b.dy(), n), kept, b.shape(0))); });
  });
}

Tensor var(const Tensor& x, const Axes& axes, Correction correction, KeepDims keep) {
  check::floating("var", "x", x);
  return var_or_std("var", x, Reduction("var", x, axes), correction, keep, false);
}

Tensor std(const Tensor& x, const Axes& axes, Correction correction, KeepDims keep) {
  check::floating("std", "x", x);
  return var_or_std("std", x, Reduction("std", x, axes), correction, keep, true);
}

Tensor var(const Tensor& x, const Axes& axes, KeepDims keep, Correction correction) {
  return var(x, axes, correction, keep);
}
Tensor std(const Tensor& x, const Axes& axes, KeepDims keep, Correction correction) {
  return std(x, axes, correction, keep);
}

namespace {

// sqrt(sum x^2)
Tensor euclidean_norm(const Reduction& r, const Tensor& x, KeepDims keep) {
  Tensor y = Tensor::empty(r.shape(keep), x.dtype());
  dispatch_compute_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    each_square_sum<T>(r, x, false, [out = y.fresh<T>()](std::int64_t i, double total, double scale) {
      out[i] = static_cast<T>(std::sqrt(total) / scale);
    });
  });
  return y;
}

// The norm for any other p.
Tensor p_norm(const Reduction& r, const Tensor& x, double p, const Axes& axes, KeepDims keep) {
  const NoGrad no_grad;
  if (r.count() == 0) return zeros(r.shape(keep), x.dtype());
  if (p == 0) return sum(ne(x, 0), axes, keep).to(x.dtype());
  const Tensor size = abs(x);
  if (p == 1) return sum(size, axes, keep);
  Tensor y = p > 0 ? max(size, axes, keepdims) : min(size, axes, keepdims);
  if (!std::isinf(p)) {
    // Powers of |x| / max |x| (|x| / min |x| for p < 0) neither overflow nor underflow.
    const Tensor scale = where(logical_and(gt(y, 0), isfinite(y)), y, 1);
    y = scale * pow(sum(pow(size / scale, p), axes, keepdims), 1 / p);
  }
  return reshape(y, r.shape(keep));
}

// dx = dy sign(x) (|x| / y)^(p-1), for y and dy with the axes kept. For p = +-infinity, the elements equal to the max
// or min share dy sign(x). dx is 0 where x or y is 0, for p = 0, and for p = +-infinity where y is NaN (no element
// equals it). A factor of x changes nothing. For p < 0 the least elements count: they are brought near 1, and others
// may become infinite.
Tensor norm_gradient(Tensor x, Tensor y, const Tensor& dy, double p) {
  const Shape& kept = dy.shape();
  if (p == 0) return zeros(x.shape(), x.dtype());
  if (p == 1) return times_sign(expand_grad(dy, kept, x.shape()), x);
  if (const Tensor s = slice_scale(p < 0 ? y : x, kept, y); s.defined()) {
    x = x * s;
    y = norm(x, p, reduced_axes(kept), keepdims);
  }
  if (p == 2) return times_quotient(x, dy, y);
  const Tensor size = abs(x);
  if (std::isinf(p)) {
    const Tensor extreme = eq(size, y).to(x.dtype());
    return times_sign(extreme * quotient_or_zero(dy, sum_to(extreme, kept)), x);
  }
  // Where x is 0, sign(x) is 0, and 1 replaces the ratio to keep its power finite. For p < 0 the ratio is inverted,
  // because y may be 0 where x is not.
  const Tensor ratio = masked_fill(p > 0 ? quotient_or_zero(size, y) : quotient_or_zero(y, size), eq(x, 0), 1);
  const Tensor dx = times_sign(pow(ratio, p > 0 ? p - 1 : 1 - p) * dy, x);
  return where(isnan(y), y, dx);  // sign() would hide a NaN of y
}

}  // namespace

Tensor norm(const Tensor& x, double p, const Axes& axes, KeepDims keep) {
  check::floating("norm", "x", x);
  if (std::isnan(p)) check::fail("norm", "p is NaN: it must be a number or infinite");
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    const Reduction r("norm", x, axes);
    if (p < 0 && r.count() == 0)
      check::fail("norm", "there is nothing to choose from along the axes given of shape ", x.shape(), ": where p is ",
                  p, ", the least elements count");
    Tensor y = p == 2 ? euclidean_norm(r, x, keep) : p_norm(r, x, p, axes, keep);
    return record({"norm", {{"axes", r.axes()}, {"keepdims", keep == KeepDims::yes}, {"p", p}}}, {x}, std::move(y),
                  keep::inputs | keep::output, [p, kept = r.shape(keepdims)](Backward& b) {
                    const Tensor y = reshape(b.y(), kept), dy = reshape(b.dy(), kept);
                    b.give(0, norm_gradient(b.x(0), y, dy, p));
                  });
  });
}

Tensor any(const Tensor& x, const Axes& axes, KeepDims keep) { return any_or_all("any", x, axes, keep, false); }
Tensor all(const Tensor& x, const Axes& axes, KeepDims keep) { return any_or_all("all", x, axes, keep, true); }

Tensor cumsum(const Tensor& x, int axis, const CumulativeOptions& options) {
  axis = slice_axis("cumsum", x, axis);
  return with_precision(Precision::native_or_float32, {x}, [&](const Tensor& x) {
    return cumulated(x, axis, options, 0, [&](const Tensor& x) { return running_sum(x, axis, options.reverse()); });
  });
}

}  // namespace fit
