// prod and cumprod. Products are computed in double. A slice whose products leave double's range on the way is computed
// again in LongRange.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "base/scratch.hpp"
#include "kernels/rows/eight_products.hpp"
#include "kernels/rows/reduce.hpp"
#include "ops/common/composed.hpp"
#include "ops/common/precision.hpp"
#include "ops/elementwise/arithmetic.hpp"
#include "ops/index/axis_slices.hpp"
#include "ops/reduce/cumulative.hpp"
#include "ops/reduce/long_range.hpp"
#include "ops/reduce/reduced_rows.hpp"
#include "ops/reduce/reduction.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

/// Calls run(1.0); if it returns false, run(LongRange(1)).
template <class Run>
void with_range(const Run& run) {
  if (!run(1.)) run(LongRange(1));
}

/// For `count` slices, the first at `at` and `apart` from each other: eight(at) computes eight in double, and returns a
/// bit for each that must be computed in LongRange by one(at, LongRange(1)). The last ones are computed by one() alone.
template <class Eights, class One>
void each_product(std::int64_t at, std::int64_t count, std::int64_t apart, const Eights& eight, const One& one) {
  for (; count >= 8; at += 8 * apart, count -= 8) {
    const unsigned lost = eight(at);
    for (std::int64_t l = 0; l < 8; ++l)
      if (lost >> l & 1) one(at + l * apart, LongRange(1));
  }
  for (; count > 0; at += apart, --count) with_range([&](auto start) { return one(at, start); });
}

/// Whether the product v of a and b is as exact as a product can be.
bool exact(double v, double a, double b) { return std::isnormal(v) || (v == 0 && (a == 0 || b == 0)); }
bool exact(const LongRange&, const LongRange&, const LongRange&) { return true; }

/// A product that notes whether it left N's range.
template <class N>
class RunningProduct {
 public:
  explicit RunningProduct(N start) : value_(start) {}
  const N& value() const { return value_; }
  bool fits() const { return fits_; }
  void times(const N& v) {
    const N before = value_;
    value_ = before * v;
    fits_ &= exact(value_, before, v);
  }

 private:
  N value_;
  bool fits_ = true;
};

/// For each element of a row, dy times the product of all others: those before it times those after it. Returns false
/// if N's range was left.
template <class N, class T>
bool others_of_row(T* out, const T* in, T dy, std::int64_t n, N one) {
  const kernels::Scratch<N> before(std::max<std::int64_t>(n, 1));
  RunningProduct<N> left(one), right(one);
  right.times(N(dy));
  for (std::int64_t i = 0; i < n; ++i) {
    before.get()[i] = left.value();
    left.times(N(in[i]));
  }
  for (std::int64_t i = n - 1; i >= 0; --i) {
    out[i] = static_cast<T>(before.get()[i] * right.value());
    right.times(N(in[i]));
  }
  return left.fits() && right.fits();
}

Tensor row_gradients(const Tensor& rows, const Tensor& dy) {
  Tensor y = Tensor::empty(rows.shape(), rows.dtype());
  const std::int64_t n = rows.size(1);
  if (n == 0) return y;
  dispatch_compute_floating(rows.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const out = y.fresh<T>();
    const T *const in = rows.data<T>().data(), *const seed = dy.data<T>().data();
    parallel_for(rows.size(0), std::max<std::int64_t>(1, (1 << 14) / n), [&](std::int64_t r, std::int64_t end) {
      each_product(
          r * n, end - r, n,
          [&](std::int64_t at) {
            const kernels::Scratch<double> before(8 * n);
            return kernels::products<T>().others(out + at, in + at, seed + at / n, {n, 1, n}, before.get());
          },
          [&](std::int64_t at, auto one) { return others_of_row(out + at, in + at, seed[at / n], n, one); });
    });
  });
  return y;
}

/// The gradient of products over the axes that are 1 in `kept`. While gradients are recorded, it uses differentiable
/// products: of n copies of the row, each with another element replaced by 1. For many elements, which have no room for
/// copies, those before an element times those behind it.
Tensor product_gradient(const Tensor& x, const Tensor& dy, const Shape& kept, bool recording) {
  const ReducedRows rows(x, kept);
  if (!recording) return rows.in_shape_of_x(row_gradients(rows.flat, dy));
  constexpr std::int64_t many = 256;
  if (rows.flat.size(1) > many) {
    const auto others = CumulativeOptions().exclusive(true);
    const Tensor before = cumprod(rows.flat, 1, others),
                 behind = cumprod(rows.flat, 1, CumulativeOptions(others).reverse(true));
    return rows.in_shape_of_x(before * behind) * reshape(dy, kept);
  }
  const Tensor one_left_out = where(eye(rows.flat.size(1)).to(boolean), 1, unsqueeze(rows.flat, 1));
  return rows.in_shape_of_x(prod(one_left_out, -1)) * reshape(dy, kept);
}

/// The product of n numbers, of which four floats have one in double's normal range.
template <class T>
LongRange long_product(const T* x, std::int64_t n) {
  constexpr std::int64_t together = sizeof(T) == sizeof(float) ? 4 : 1;
  LongRange p[4] = {1, 1, 1, 1};  // so that the multiplications are independent
  std::int64_t i = 0;
  for (std::int64_t k = 0; i + together <= n; i += together, ++k) {
    double few = x[i];
    for (std::int64_t j = 1; j < together; ++j) few *= x[i + j];
    p[k % 4] = p[k % 4] * LongRange(few);
  }
  for (; i < n; ++i) p[0] = p[0] * LongRange(x[i]);
  return p[0] * p[1] * (p[2] * p[3]);
}

/// The products over r's axes, as rows; double's range may be left on the way.
template <class T>
void products(const Reduction& r, const Tensor& x, T* out) {
  Tensor doubtful = zeros({r.outputs()}, boolean);
  fold_floating<T>(r, x, 1.0, kernels::reduce<T>().prod, nullptr, std::multiplies<>(),
                   [out, again = doubtful.fresh<bool>()](std::int64_t i, double p) {
                     out[i] = static_cast<T>(p);
                     again[i] = !std::isnormal(p);
                   });
  const auto again = doubtful.data<bool>();
  if (std::none_of(again.begin(), again.end(), [](bool b) { return b; })) return;
  const Tensor rows = ReducedRows(x.detach(), r.shape(keepdims)).flat;
  for (std::int64_t i = 0; i < again.size(); ++i) {
    if (!again[i]) continue;
    out[i] = static_cast<T>(long_product(rows.data<T>().data() + i * r.count(), r.count()));
  }
}

// ---- cumprod -------------------------------------------------------------------------------------------------------

/// The running product of n elements `step` apart. Returns false if N's range was left.
template <class N, class T>
bool running_product(T* y, const T* x, std::int64_t n, std::int64_t step, N one) {
  RunningProduct<N> product(one);
  for (std::int64_t i = 0; i < n; ++i) {
    product.times(N(x[i * step]));
    y[i * step] = static_cast<T>(product.value());
  }
  return product.fits();
}

/// dx[j] = sum over i >= j of dy[i] (the product of x[0] … x[i] without x[j]): the product of those before j, times
/// g[j] = dy[j] + x[j + 1] g[j + 1]. Returns false if N's range was left.
template <class N, class T>
bool running_product_gradient(T* dx, const T* x, const T* dy, std::int64_t n, std::int64_t step, N one) {
  const kernels::Scratch<N> before(std::max<std::int64_t>(n, 1));
  RunningProduct<N> left(one);
  for (std::int64_t i = 0; i < n; ++i) {
    before.get()[i] = left.value();
    left.times(N(x[i * step]));
  }
  bool fits = left.fits();
  N g(0);
  for (std::int64_t i = n - 1; i >= 0; --i) {
    if (i + 1 < n) {
      RunningProduct<N> later(g);
      later.times(N(x[(i + 1) * step]));
      fits &= later.fits();
      g = later.value();
    }
    g = g + N(dy[i * step]);
    dx[i * step] = static_cast<T>(before.get()[i] * g);
  }
  return fits && std::isfinite(static_cast<double>(g));
}

/// Calls body(offset of the first element) for each slice, in parallel.
template <class Body>
void each_slice(const kernels::AxisView& slices, const Body& body) {
  each_group_of_slices(slices, [&](std::int64_t at, std::int64_t count) {
    for (std::int64_t l = 0; l < count; ++l) body(at + l * (slices.inner > 1 ? 1 : slices.n));
  });
}

/// Calls eight and one as each_product() does for all slices, in parallel.
template <class Eights, class One>
void each_slice_product(const kernels::AxisView& slices, const Eights& eight, const One& one) {
  const kernels::EightSlices eights{slices.n, slices.inner, slices.inner > 1 ? 1 : slices.n};
  each_group_of_slices(slices, [&](std::int64_t at, std::int64_t count) {
    each_product(
        at, count, eights.apart, [&](std::int64_t at) { return eight(at, eights); }, one);
  });
}

Tensor running_products(const Tensor& x, int axis) {
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  const kernels::AxisView slices(x.shape(), axis);
  dispatch_compute(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const out = y.fresh<T>();
    const T* const in = x.data<T>().data();
    if constexpr (std::is_floating_point_v<T>)
      each_slice_product(
          slices, [&](std::int64_t at, const auto& s) { return kernels::products<T>().running(out + at, in + at, s); },
          [&](std::int64_t at, auto one) { return running_product(out + at, in + at, slices.n, slices.inner, one); });
    else
      each_slice(slices, [&](std::int64_t at) {
        std::int64_t product = 1;
        for (std::int64_t i = 0; i < slices.n; ++i) {
          product = Mul::integers(product, in[at + i * slices.inner]);
          out[at + i * slices.inner] = static_cast<T>(product);
        }
      });
  });
  return y;
}

/// Gradients by x and dy of the sum of h[j] dx[j], with dx of running_product_gradient(). In the direction of h,
/// p[i] = x[0] … x[i] has the derivative d[i] = x[i] d[i - 1] + h[i] p[i - 1], which is that by dy[i], and g of
/// running_product_gradient() has t[i] = h[i + 1] g[i + 1] + x[i + 1] t[i + 1]. By x[i], it is
/// d[i - 1] g[i] + p[i - 1] t[i].
template <class T>
void running_product_second_gradient(T* of_x, T* of_dy, const T* x, const T* dy, const T* h, std::int64_t n,
                                     std::int64_t step) {
  using N = LongRange;
  std::vector<std::pair<N, N>> before;  // p[i - 1] and d[i - 1]
  N p(1), d(0), g(0), t(0);
  for (std::int64_t i = 0; i < n; ++i) {
    before.emplace_back(p, d);
    d = N(x[i * step]) * d + N(h[i * step]) * p;
    p = p * N(x[i * step]);
    of_dy[i * step] = static_cast<T>(d);
  }
  for (std::int64_t i = n - 1; i >= 0; --i) {
    if (const std::int64_t next = (i + 1) * step; i + 1 < n) {
      t = N(h[next]) * g + N(x[next]) * t;
      g = N(x[next]) * g;
    }
    g = g + N(dy[i * step]);
    const auto [p, d] = before[static_cast<std::size_t>(i)];
    of_x[i * step] = static_cast<T>(d * g + p * t);
  }
}

Tensor running_product_gradients(const Tensor& x, const Tensor& dy, int axis) {
  Tensor dx = Tensor::empty(x.shape(), x.dtype());
  const kernels::AxisView slices(x.shape(), axis);
  dispatch_compute_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const out = dx.fresh<T>();
    const T *const in = x.data<T>().data(), *const seed = dy.data<T>().data();
    each_slice_product(
        slices,
        [&](std::int64_t at, const auto& s) {
          const kernels::Scratch<double> before(8 * s.n);
          return kernels::products<T>().running_gradient(out + at, in + at, seed + at, s, before.get());
        },
        [&](std::int64_t at, auto one) {
          return running_product_gradient(out + at, in + at, seed + at, slices.n, slices.inner, one);
        });
  });
  return dx;
}

/// By operations: after k rounds of doubling, an element is the product of the last 2^k. Its gradients of every order
/// are correct with zeros, too.
Tensor composed_cumprod(const Tensor& x, int axis) {
  Tensor y = x.clone();
  const std::int64_t n = kernels::AxisView(x.shape(), axis).n;
  for (std::int64_t step = 1; step < n; step *= 2)
    y = cat({slice(y, axis, 0, step), slice(y, axis, step, n) * slice(y, axis, 0, n - step)}, axis);
  return y;
}

/// The adjoint of cumprod; its own is of one pass, and of operations for third and higher derivatives.
Tensor cumprod_backward(const Tensor& x, const Tensor& dy, int axis) {
  return record("cumprod_backward", {x, dy}, running_product_gradients(x, dy, axis), keep::inputs, [axis](Backward& b) {
    if (b.recording())
      return give_by_decomposition(b, [axis](const std::vector<Tensor>& in) {
        const Tensor x = in[0].requires_grad() ? in[0] : in[0].detach().requires_grad_();
        return grad({composed_cumprod(x, axis)}, {x}, {in[1]}, create_graph);
      });
    const Tensor x = b.x(0), dy = b.x(1), h = b.dy();
    Tensor of_x = Tensor::empty(x.shape(), x.dtype()), of_dy = Tensor::empty(x.shape(), x.dtype());
    const kernels::AxisView slices(x.shape(), axis);
    dispatch_compute_floating(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T *const to_x = of_x.fresh<T>(), *const to_dy = of_dy.fresh<T>();
      const T *const in = x.data<T>().data(), *const seed = dy.data<T>().data(), *const along = h.data<T>().data();
      each_slice(slices, [&](std::int64_t at) {
        running_product_second_gradient(to_x + at, to_dy + at, in + at, seed + at, along + at, slices.n, slices.inner);
      });
    });
    if (b.wants(0)) b.give(0, std::move(of_x));
    if (b.wants(1)) b.give(1, std::move(of_dy));
  });
}

}  // namespace

Tensor prod(const Tensor& x, const Axes& axes, KeepDims keep) {
  const Reduction r("prod", x, axes);
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    Tensor y = Tensor::empty(r.shape(keep), total_dtype(x));
    dispatch_compute(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      Total<T>* const out = y.fresh<Total<T>>();
      constexpr auto times = [](auto a, auto b) { return Mul::integers(a, b); };
      if constexpr (std::is_floating_point_v<T>)
        products(r, x, out);
      else
        fold_plain<std::int64_t>(r, x.data<T>().data(), std::int64_t{1}, times, times,
                                 [out](std::int64_t i, std::int64_t p) { out[i] = p; });
    });
    return record(
        {"prod", {{"axes", r.axes()}, {"keepdims", keep == KeepDims::yes}}}, {x}, std::move(y), keep::inputs,
        [kept = r.shape(keepdims)](Backward& b) { b.give(0, product_gradient(b.x(0), b.dy(), kept, b.recording())); });
  });
}

Tensor cumprod(const Tensor& given, int axis, const CumulativeOptions& options) {
  axis = slice_axis("cumprod", given, axis);
  const auto products = [&](const Tensor& given) {
    const bool flips = options.reverse() && given.rank() > 0;
    const Tensor x = flips ? flip(given, axis) : given;
    const Tensor y = record("cumprod", {x}, running_products(x.dtype() == boolean ? x.to(int64) : x, axis),
                            keep::inputs, [axis](Backward& b) { b.give(0, cumprod_backward(b.x(0), b.dy(), axis)); });
    return flips ? flip(y, axis) : y;
  };
  return with_precision(Precision::float32, {given},
                        [&](const Tensor& given) { return cumulated(given, axis, options, 1, products); });
}

}  // namespace fit
