// sum, mean, var, std, prod, norm, any, all, cumsum, cumprod.
#include "kernels/reduce.hpp"

#include <cmath>
#include <functional>
#include <limits>

#include "ops/axis_slices.hpp"
#include "ops/functions.hpp"
#include "ops/precision.hpp"
#include "ops/reduction.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {

Axes::Axes(std::initializer_list<int> axes) : axes_(axes), all_(false) {}
Axes::Axes(std::vector<int> axes) : axes_(std::move(axes)), all_(false) {}

namespace {

/// Calls finish(i, total) for each sum of x: in double for floating types, otherwise in int64.
template <class T, class Finish>
void each_sum(const Reduction& r, const Tensor& x, const Finish& finish) {
  if constexpr (is_floating_element<T>)
    fold_floating<T>(r, x, 0.0, kernels::reduce<AccT<T>>().sum, nullptr, std::plus<>(), finish);
  else
    fold_plain<std::int64_t>(r, x.data<T>().data(), std::int64_t{0}, std::plus<>(), std::plus<>(), finish);
}

// The result type of a sum or a product of T.
template <class T>
using Total = std::conditional_t<is_floating_element<T>, T, std::int64_t>;
DType total_dtype(const Tensor& x) { return is_floating(x.dtype()) ? x.dtype() : DType::int64; }
// Same for a sum, which is float32 under Autocast.
DType sum_dtype(const Tensor& x) { return result_dtype(Precision::native_or_float32, total_dtype(x)); }

// Sum in type t: total_dtype(x), or float32 for bfloat16.
Tensor sum_over(const Reduction& r, const Tensor& x, const Shape& result, DType t) {
  Tensor y = Tensor::empty(result, t);
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto given_as = [&](auto total_zero) {
      using Out = decltype(total_zero);
      each_sum<T>(r, x, [out = y.fresh<Out>()](std::int64_t i, auto total) { out[i] = static_cast<Out>(total); });
    };
    t == total_dtype(x) ? given_as(Total<T>{}) : given_as(AccT<Total<T>>{});
  });
  return record("sum", {x}, std::move(y), keep::nothing,
                [kept = r.shape(keepdims)](Backward& b) { b.give(0, expand_grad(b.dy(), kept, b.shape(0))); });
}

/// a / b; 0 without a gradient where b is 0.
Tensor quotient_or_zero(const Tensor& a, const Tensor& b) {
  const Tensor zero = eq(b, 0);
  return masked_fill(div(a, masked_fill(b, zero, 1)), zero, 0);
}

/// g sign(x): the gradient of |x|. Its derivative by x is 0.
Tensor times_sign(const Tensor& g, const Tensor& x) { return detail::derivative(kernels::Function::abs, g, x); }

/// Calls finish(i, sum) for each sum of (x - mean)^2, computed in two passes.
template <class T, class Finish>
void each_deviation(const Reduction& r, const Tensor& x, const Finish& finish) {
  Tensor centre = Tensor::empty({r.outputs()}, float64);
  double* const c = centre.fresh<double>();
  const double n = static_cast<double>(r.count());
  each_sum<T>(r, x, [=](std::int64_t i, double total) { c[i] = total / n; });
  fold_floating<T>(r, x, 0.0, kernels::reduce<T>().squares, c, std::plus<>(), finish);
}

/// The variance, or its square root if `root`; NaN without degrees of freedom.
Tensor var_or_std(const char* op, const Tensor& x, const Reduction& r, Correction correction, KeepDims keep,
                  bool root) {
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    Tensor y = Tensor::empty(r.shape(keep), x.dtype());
    const double n = static_cast<double>(r.count()), freedom = n - static_cast<double>(correction);
    dispatch_compute_floating(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      each_deviation<T>(r, x, [=, out = y.fresh<T>()](std::int64_t i, double total) {
        const double v = freedom > 0 ? total / freedom : std::numeric_limits<double>::quiet_NaN();
        out[i] = static_cast<T>(root ? std::sqrt(v) : v);
      });
    });
    return record(op, {x}, std::move(y), root ? keep::inputs | keep::output : keep::inputs,
                  [=, kept = r.shape(keepdims)](Backward& b) {
                    // dvar/dx = 2 (x - mean) / (n - correction);  dstd = dvar / (2 std), 0 if std is 0
                    const Tensor x = b.x(0), centred = x - sum_to(x, kept) / n;
                    const Tensor dy = root ? quotient_or_zero(b.dy(), b.y()) : b.dy() * 2;
                    b.give(0, centred * reshape(dy / freedom, kept));
                  });
  });
}

/// For each element, the product of all others in its row: those before it times those after it.
Tensor products_of_others(const Tensor& rows) {
  Tensor y = Tensor::empty(rows.shape(), rows.dtype());
  const std::int64_t n = rows.size(1);
  dispatch_compute_floating(rows.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const out = y.fresh<T>();
    const T* const in = rows.data<T>().data();
    parallel_for(rows.size(0), std::max<std::int64_t>(1, (1 << 14) / std::max<std::int64_t>(n, 1)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t r = begin; r < end; ++r) {
                     double before = 1, after = 1;
                     for (std::int64_t i = r * n; i < (r + 1) * n; ++i) {
                       out[i] = static_cast<T>(before);
                       before *= in[i];
                     }
                     for (std::int64_t i = (r + 1) * n - 1; i >= r * n; --i) {
                       out[i] = static_cast<T>(out[i] * after);
                       after *= in[i];
                     }
                   }
                 });
  });
  return y;
}

/// Same over the axes that are 1 in `kept`. While gradients are recorded, it uses differentiable products: of n copies
/// of the row, each with another element replaced by 1.
Tensor products_of_others(const Tensor& x, const Shape& kept) {
  std::vector<int> order, back(static_cast<std::size_t>(x.rank()));
  for (const bool goes : {false, true})
    for (int a = 0; a < x.rank(); ++a)
      if ((kept[a] == 1) == goes) order.push_back(a);
  for (int i = 0; i < x.rank(); ++i) back[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] = i;
  const Tensor moved = permute(x, order);
  const std::int64_t rows = kept.numel(), n = rows == 0 ? 0 : x.numel() / rows;
  const Tensor flat = reshape(moved, {rows, n});
  const Tensor others =
      grad_enabled() ? prod(where(eye(n).to(boolean), 1, unsqueeze(flat, 1)), -1) : products_of_others(flat);
  return permute(reshape(others, moved.shape()), back);
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
  return y;
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
    // `count` slices, `step` apart, at most `most`; an element of all slices after another.
    const auto run = [&](auto most, std::int64_t at, auto count, auto step) {
      Sum sum[most] = {};
      for (std::int64_t i = 0; i < slices.n; ++i) {
        const std::int64_t first = at + (backwards ? slices.n - 1 - i : i) * slices.inner;
        for (std::int64_t l = 0; l < count; ++l) {
          sum[l] += static_cast<Sum>(in[first + l * step]);
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
  return record("cumsum", {x}, std::move(y), keep::nothing,
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
      each_sum<T>(r, x, [n, out = y.fresh<T>()](std::int64_t i, double total) { out[i] = static_cast<T>(total / n); });
    });
    return record("mean", {x}, std::move(y), keep::nothing, [n, kept = r.shape(keepdims)](Backward& b) {
      b.give(0, expand_grad(div(b.dy(), n), kept, b.shape(0)));
    });
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

Tensor prod(const Tensor& x, const Axes& axes, KeepDims keep) {
  const Reduction r("prod", x, axes);
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    Tensor y = Tensor::empty(r.shape(keep), total_dtype(x));
    dispatch_compute(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const auto finish = [out = y.fresh<Total<T>>()](std::int64_t i, auto p) { out[i] = static_cast<Total<T>>(p); };
      if constexpr (std::is_floating_point_v<T>)
        fold_floating<T>(r, x, 1.0, kernels::reduce<T>().prod, nullptr, std::multiplies<>(), finish);
      else
        fold_plain<std::int64_t>(r, x.data<T>().data(), std::int64_t{1}, std::multiplies<>(), std::multiplies<>(),
                                 finish);
    });
    return record("prod", {x}, std::move(y), keep::inputs, [kept = r.shape(keepdims)](Backward& b) {
      b.give(0, products_of_others(b.x(0), kept) * reshape(b.dy(), kept));
    });
  });
}

Tensor norm(const Tensor& x, double p, const Axes& axes, KeepDims keep) {
  check::floating("norm", "x", x);
  if (std::isnan(p)) check::fail("norm", "p is NaN: it must be a number or infinite");
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    const Reduction r("norm", x, axes);
    if (p < 0 && r.count() == 0)
      check::fail("norm", "there is nothing to choose from along the axes given of shape ", x.shape(), ": where p is ",
                  p, ", the least elements count");
    Tensor y;
    if (p == 2) {
      y = Tensor::empty(r.shape(keep), x.dtype());
      dispatch_compute_floating(x.dtype(), [&](auto zero) {
        using T = decltype(zero);
        fold_floating<T>(
            r, x, 0.0, kernels::reduce<T>().squares, nullptr, std::plus<>(),
            [out = y.fresh<T>()](std::int64_t i, double total) { out[i] = static_cast<T>(std::sqrt(total)); });
      });
    } else {
      const NoGrad no_grad;
      const Tensor size = abs(x);
      if (r.count() == 0) {
        y = zeros(r.shape(keep), x.dtype());
      } else if (p == 0) {
        y = sum(ne(x, 0), axes, keep).to(x.dtype());
      } else if (p == 1) {
        y = sum(size, axes, keep);
      } else {
        y = p > 0 ? max(size, axes, keepdims) : min(size, axes, keepdims);
        if (!std::isinf(p)) {
          // Powers of |x| / max |x| (|x| / min |x| for p < 0) neither overflow nor underflow.
          const Tensor scale = where(logical_and(gt(y, 0), isfinite(y)), y, 1);
          y = scale * pow(sum(pow(size / scale, p), axes, keepdims), 1 / p);
        }
        y = reshape(y, r.shape(keep));
      }
    }
    return record("norm", {x}, std::move(y), keep::inputs | keep::output, [p, kept = r.shape(keepdims)](Backward& b) {
      // dx = dy sign(x) (|x| / y)^(p-1). For p = +-infinity, the elements equal to the max or min share dy sign(x). dx
      // is 0 where x or y is 0, for p = 0, and for p = +-infinity where y is NaN (no element equals it).
      const Tensor x = b.x(0), y = reshape(b.y(), kept), dy = reshape(b.dy(), kept);
      if (p == 0) return b.give(0, zeros_like(x));
      if (p == 1) return b.give(0, times_sign(expand_grad(dy, kept, x.shape()), x));
      if (p == 2) return b.give(0, x * quotient_or_zero(dy, y));
      const Tensor size = abs(x);
      if (std::isinf(p)) {
        const Tensor extreme = eq(size, y).to(x.dtype());
        return b.give(0, times_sign(extreme * quotient_or_zero(dy, sum_to(extreme, kept)), x));
      }
      // Where x is 0, sign(x) is 0, and 1 replaces the ratio to keep its power finite. For p < 0 the ratio is inverted,
      // because y may be 0 where x is not.
      const Tensor ratio = masked_fill(p > 0 ? quotient_or_zero(size, y) : quotient_or_zero(y, size), eq(x, 0), 1);
      const Tensor dx = times_sign(pow(ratio, p > 0 ? p - 1 : 1 - p) * dy, x);
      b.give(0, where(isnan(y), y, dx));  // sign() would hide a NaN of y
    });
  });
}

Tensor any(const Tensor& x, const Axes& axes, KeepDims keep) { return any_or_all("any", x, axes, keep, false); }
Tensor all(const Tensor& x, const Axes& axes, KeepDims keep) { return any_or_all("all", x, axes, keep, true); }

Tensor cumsum(const Tensor& x, int axis) {
  axis = slice_axis("cumsum", x, axis);
  return with_precision(Precision::native_or_float32, {x},
                        [&](const Tensor& x) { return running_sum(x, axis, false); });
}

// By doubling: after k rounds, an element is the product of the last 2^k. Composed of operations, so its gradients of
// every order are correct with zeros, too.
Tensor cumprod(const Tensor& x, int axis) {
  axis = slice_axis("cumprod", x, axis);
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    Tensor y = x.dtype() == boolean ? x.to(int64) : x.clone();
    const std::int64_t n = kernels::AxisView(x.shape(), axis).n;
    for (std::int64_t step = 1; step < n; step *= 2)
      y = cat({slice(y, axis, 0, step), slice(y, axis, step, n) * slice(y, axis, 0, n - step)}, axis);
    return y;
  });
}

}  // namespace fit
