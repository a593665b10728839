// cummax, cummin and logcumsumexp. cumsum is in reduce.cpp, cumprod in product.cpp.
#include "ops/reduce/cumulative.hpp"

#include <cmath>

#include "kernels/rows/rows_softmax.hpp"
#include "ops/common/composed.hpp"
#include "ops/common/precision.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

/// Calls body(offset of the first element) for each slice, in parallel.
template <class Body>
void each_slice_of(const kernels::AxisView& slices, const Body& body) {
  each_group_of_slices(slices, [&](std::int64_t at, std::int64_t count) {
    for (std::int64_t l = 0; l < count; ++l) body(at + l * (slices.inner > 1 ? 1 : slices.n));
  });
}

/// {values, ids} of the best element so far. As in PyTorch, a later equal element replaces an earlier one.
template <class Better>
std::pair<Tensor, Tensor> best_so_far(const char* op, const Tensor& x, int axis, const Better& better) {
  axis = slice_axis(op, x, axis);
  Tensor ids = Tensor::empty(x.shape(), int64);
  const kernels::AxisView slices(x.shape(), axis);
  const Tensor from = x.dtype() == bfloat16 ? x.detach().to(float32) : x;
  dispatch(from.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const in = from.data<T>().data();
    std::int64_t* const out = ids.fresh<std::int64_t>();
    each_slice_of(slices, [&](std::int64_t at) {
      std::int64_t best = 0;
      for (std::int64_t i = 0; i < slices.n; ++i) {
        const T v = in[at + i * slices.inner], before = in[at + best * slices.inner];
        if (v != v || (before == before && (v == before || better(v, before)))) best = i;
        out[at + i * slices.inner] = best;
      }
    });
  });
  return {x.rank() == 0 ? x.clone() : gather(x, axis, ids), ids};
}

/// ln(e^a + e^b)
double log_add(double a, double b) {
  const auto& kernels = kernels::softmax_rows<double>();
  if (a == b) return a + M_LN2;  // infinities have no difference
  return (a > b ? a : b) + kernels.log1p(kernels.exp(-std::abs(a - b)));
}

/// y[i] = ln(e^y[i - 1] + e^x[i])
Tensor log_sums(const Tensor& x, int axis) {
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  const kernels::AxisView slices(x.shape(), axis);
  dispatch_compute_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const in = x.data<T>().data();
    T* const out = y.fresh<T>();
    each_slice_of(slices, [&](std::int64_t at) {
      double sum = -INFINITY;
      for (std::int64_t i = at, k = 0; k < slices.n; ++k, i += slices.inner) {
        sum = log_add(sum, in[i]);
        out[i] = static_cast<T>(sum);
      }
    });
  });
  return y;
}

/// dx[j] = sum over i >= j of dy[i] e^(x[j] - y[i]) = e^(x[j] - y[j]) g[j], g[j] = dy[j] + e^(y[j] - y[j + 1]) g[j +
/// 1]. y never falls, so no factor is above 1. An element of -inf has no gradient.
Tensor log_sums_gradient(const Tensor& x, const Tensor& y, const Tensor& dy, int axis) {
  Tensor dx = Tensor::empty(x.shape(), x.dtype());
  const kernels::AxisView slices(x.shape(), axis);
  dispatch_compute_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *const in = x.data<T>().data(), *const sums = y.data<T>().data(), *const seed = dy.data<T>().data();
    T* const out = dx.fresh<T>();
    const auto exp = kernels::softmax_rows<double>().exp;
    const auto ratio = [exp](double a, double b) { return a == b ? 1 : exp(a - b); };
    each_slice_of(slices, [&](std::int64_t at) {
      double g = 0;
      for (std::int64_t k = slices.n - 1, i = at + k * slices.inner; k >= 0; --k, i -= slices.inner) {
        if (k + 1 < slices.n) g *= ratio(sums[i], sums[i + slices.inner]);
        g += seed[i];
        out[i] = static_cast<T>(in[i] == -INFINITY ? 0 : ratio(in[i], sums[i]) * g);
      }
    });
  });
  return dx;
}

/// By operations: after k rounds of doubling, an element joins the last 2^k. An element of -infinity has no gradient.
Tensor composed_log_sums(const Tensor& x, int axis) {
  Tensor y = where(x == -std::numeric_limits<double>::infinity(), x.detach(), x);
  const std::int64_t n = kernels::AxisView(x.shape(), axis).n;
  for (std::int64_t step = 1; step < n; step *= 2)
    y = cat({slice(y, axis, 0, step), logaddexp(slice(y, axis, step, n), slice(y, axis, 0, n - step))}, axis);
  return y;
}

}  // namespace

std::pair<Tensor, Tensor> cummax(const Tensor& x, int axis) {
  return best_so_far("cummax", x, axis, [](auto v, auto w) { return v > w; });
}
std::pair<Tensor, Tensor> cummin(const Tensor& x, int axis) {
  return best_so_far("cummin", x, axis, [](auto v, auto w) { return v < w; });
}

Tensor logcumsumexp(const Tensor& x, int axis) {
  check::floating("logcumsumexp", "x", x);
  axis = slice_axis("logcumsumexp", x, axis);
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    return record("logcumsumexp", {x}, log_sums(x, axis), keep::inputs | keep::output, [axis](Backward& b) {
      if (!b.recording()) return b.give(0, log_sums_gradient(b.x(0), b.y(), b.dy(), axis));
      give_by_decomposition(
          b, [axis](const std::vector<Tensor>& x) { return std::vector<Tensor>{composed_log_sums(x[0], axis)}; });
    });
  });
}

Tensor logaddexp(const Tensor& a, const Tensor& b) {
  check::defined("logaddexp", "a", a, "b", b);
  const DType common = promote(a.dtype(), b.dtype()), t = is_floating(common) ? common : float32;
  const Shape shape = check::broadcast("logaddexp", a.shape(), b.shape());
  return logsumexp(stack({broadcast_to(a.to(t), shape), broadcast_to(b.to(t), shape)}), 0);
}

}  // namespace fit
