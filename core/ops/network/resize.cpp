// interpolate, pixel_shuffle and pixel_unshuffle.
#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>
#include <vector>

#include "fit/ops/ops.hpp"
#include "fit/threads/parallel.hpp"
#include "ops/common/precision.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

// One axis: how many elements it has and gets. Two of the result are `over` / `under` apart, a quotient that is rounded
// once. Trivially copyable.
struct Resampling {
  std::int64_t from, to;
  double over, under;
  bool linear, centred;  // centred: positions are those of the middles of cells

  double at(std::int64_t i) const {
    const double x = static_cast<double>(i) + (centred ? 0.5 : 0), y = x * over / under - (centred ? 0.5 : 0);
    return std::clamp(y, 0., static_cast<double>(from - 1));
  }
};

// An element of the result is (1 - weight) x[low] + weight x[high]; if weight is 0, x[low] alone.
template <class T>
struct Taps {
  explicit Taps(const Resampling& r) : low(size(r)), high(size(r)), weight(size(r)) {
    for (std::size_t i = 0; i < low.size(); ++i) {
      const double at = r.at(static_cast<std::int64_t>(i)), below = std::floor(at);
      low[i] = static_cast<std::int64_t>(below);
      weight[i] = r.linear ? static_cast<T>(at - below) : T(0);
      high[i] = weight[i] == 0 ? low[i] : low[i] + 1;
    }
  }
  static std::size_t size(const Resampling& r) { return static_cast<std::size_t>(r.to); }

  std::vector<std::int64_t> low, high;
  std::vector<T> weight;
};

// The two axes of a plane. Trivially copyable, so that an adjoint can capture it.
struct Plane {
  Resampling down, right;
};

// Calls rows(taps down, taps right, columns of x, x, y) for each plane of x, which has the old size, and of y, which
// has the new one; so many of them that a thread has enough to do.
template <class X, class Y, class Rows>
void each_plane(const Plane& p, std::int64_t planes, X* x, Y* y, const Rows& rows) {
  const Taps<std::remove_const_t<X>> down(p.down), right(p.right);
  const std::int64_t before = p.down.from * p.right.from, after = p.down.to * p.right.to;
  parallel_for(planes, std::max<std::int64_t>(1, (1 << 14) / std::max<std::int64_t>({before, after, 1})),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i)
                   rows(down, right, p.right.from, x + i * before, y + i * after);
               });
}

template <class T>
void resample_rows(const Taps<T>& down, const Taps<T>& right, std::int64_t cols, const T* x, T* y) {
  std::vector<T> mixed(static_cast<std::size_t>(cols));
  const std::size_t width = right.low.size();
  for (std::size_t i = 0; i < down.low.size(); ++i, y += width) {
    const T *row = x + down.low[i] * cols, w = down.weight[i];
    if (w != 0) {
      const T* const next = x + down.high[i] * cols;
      for (std::int64_t j = 0; j < cols; ++j) mixed[j] = (1 - w) * row[j] + w * next[j];
      row = mixed.data();
    }
    for (std::size_t j = 0; j < width; ++j) {
      const T v = right.weight[j], a = row[right.low[j]];
      y[j] = v == 0 ? a : (1 - v) * a + v * row[right.high[j]];
    }
  }
}

// The adjoint: adds the elements of y to those of x that they were made of.
template <class T>
void spread_rows(const Taps<T>& down, const Taps<T>& right, std::int64_t cols, T* x, const T* y) {
  std::vector<T> row(static_cast<std::size_t>(cols));
  const std::size_t width = right.low.size();
  for (std::size_t i = 0; i < down.low.size(); ++i, y += width) {
    std::fill(row.begin(), row.end(), T(0));
    for (std::size_t j = 0; j < width; ++j) {
      const T v = right.weight[j];
      row[right.low[j]] += (1 - v) * y[j];
      if (v != 0) row[right.high[j]] += v * y[j];
    }
    T *const to = x + down.low[i] * cols, *const next = x + down.high[i] * cols, w = down.weight[i];
    for (std::int64_t j = 0; j < cols; ++j) to[j] += (1 - w) * row[j];
    if (w == 0) continue;
    for (std::int64_t j = 0; j < cols; ++j) next[j] += w * row[j];
  }
}

Tensor spread(const Tensor& y, const Plane& p, const Shape& shape);

// x [N, C, ...] of the plane's old size gives `shape`, with its new one.
Tensor resample(const detail::OpName& name, const Tensor& x, const Plane& p, const Shape& shape) {
  Tensor y = Tensor::empty(shape, x.dtype());
  dispatch_compute_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    each_plane(p, shape[0] * shape[1], x.data<T>().data(), y.fresh<T>(), resample_rows<T>);
  });
  return record(name, {x}, std::move(y), keep::nothing, [p](Backward& b) { b.give(0, spread(b.dy(), p, b.shape(0))); });
}

Tensor spread(const Tensor& y, const Plane& p, const Shape& shape) {
  Tensor x = zeros(shape, y.dtype());
  dispatch_compute_floating(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    each_plane(p, shape[0] * shape[1], x.fresh<T>(), y.data<T>().data(), spread_rows<T>);
  });
  return record("interpolate", {y}, std::move(x), keep::nothing,
                [p](Backward& b) { b.give(0, resample({"interpolate"}, b.dy(), p, b.shape(0))); });
}

// Axis a of those along which x is resampled, with n elements.
Resampling resampling(const InterpolateOptions& o, int a, std::int64_t n) {
  const bool linear = o.mode() == Interpolation::linear;
  const double scale = o.scale_factor();
  const std::int64_t to = o.size() != 0 ? o.size()[a] : static_cast<std::int64_t>(static_cast<double>(n) * scale);
  if (to < 1)
    check::fail("interpolate", "size ", to, ", scale_factor ", scale, " for an axis of ", n,
                ": the result must have an element, so give size or scale_factor, positive");
  const auto before = static_cast<double>(n), after = static_cast<double>(to);
  if (o.align_corners()) return {n, to, to > 1 ? before - 1 : 0, std::max(after - 1, 1.), linear, false};
  return {n, to, o.size() != 0 ? before : 1, o.size() != 0 ? after : scale, linear, linear};
}

void expect_interpolation(const Tensor& x, const InterpolateOptions& o) {
  constexpr const char* op = "interpolate";
  check::floating(op, "x", x);
  if ((x.rank() != 3 && x.rank() != 4) || x.size(2) < 1 || x.size(-1) < 1)
    check::fail(op, "x has shape ", x.shape(), ": it must be [N, C, L] or [N, C, H, W], of one element or more");
  if (o.size() != 0 && o.scale_factor() != 0)
    check::fail(op, "size is ", o.size().str(), ", scale_factor ", o.scale_factor(), ": give one of them");
  if (!(o.scale_factor() >= 0 && o.scale_factor() <= 1 << 20))
    check::fail(op, "scale_factor is ", o.scale_factor(), ": it must be positive, and at most 2^20");
  if (o.size().count() > x.rank() - 2)
    check::fail(op, "size is ", o.size().str(), ", x has shape ", x.shape(),
                ": one axis changes, so it must be one number");
  if (o.align_corners() && o.mode() == Interpolation::nearest)
    check::fail(op, "align_corners is set, mode is nearest: only linear interpolation has it");
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& o) {
  expect_interpolation(x, o);
  const bool image = x.rank() == 4;
  const Resampling whole{1, 1, 1, 1, false, false};
  const Plane p{image ? resampling(o, 0, x.size(2)) : whole, resampling(o, image ? 1 : 0, x.size(-1))};
  const Shape shape =
      image ? Shape{x.size(0), x.size(1), p.down.to, p.right.to} : Shape{x.size(0), x.size(1), p.right.to};
  const std::array<std::int64_t, 2> from{p.down.from, p.right.from}, to{p.down.to, p.right.to};
  const auto sizes = [&](const auto& both) { return Span<const std::int64_t>(both.data() + !image, image ? 2 : 1); };
  return with_precision(Precision::rounded, {x}, [&](const Tensor& x) {
    return resample({"interpolate",
                     {{"from", sizes(from)},
                      {"to", sizes(to)},
                      {"scale_factor", o.scale_factor()},
                      {"linear", o.mode() == Interpolation::linear},
                      {"align_corners", o.align_corners()}}},
                    x, p, shape);
  });
}

namespace {

void expect_factor(const char* op, const Tensor& x, std::int64_t r) {
  check::defined(op, "x", x);
  if (r < 1 || r > 1 << 15) check::fail(op, "the factor is ", r, ": it must be in 1 … 2^15");
  if (x.rank() != 4) check::fail(op, "x has shape ", x.shape(), ": it must be [N, C, H, W]");
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, std::int64_t r) {
  expect_factor("pixel_shuffle", x, r);
  const std::int64_t n = x.size(0), c = x.size(1) / (r * r), h = x.size(2), w = x.size(3);
  if (x.size(1) % (r * r) != 0)
    check::fail("pixel_shuffle", "x has shape ", x.shape(), ", the factor is ", r, ": ", r * r,
                " must divide the channels");
  return reshape(permute(reshape(x, Shape{n, c, r, r, h, w}), {0, 1, 4, 2, 5, 3}), Shape{n, c, h * r, w * r});
}

Tensor pixel_unshuffle(const Tensor& x, std::int64_t r) {
  expect_factor("pixel_unshuffle", x, r);
  const std::int64_t n = x.size(0), c = x.size(1), h = x.size(2) / r, w = x.size(3) / r;
  if (x.size(2) % r != 0 || x.size(3) % r != 0)
    check::fail("pixel_unshuffle", "x has shape ", x.shape(), ", the factor is ", r,
                ": it must divide the height and the width");
  return reshape(permute(reshape(x, Shape{n, c, h, r, w, r}), {0, 1, 3, 5, 2, 4}), Shape{n, c * r * r, h, w});
}

}  // namespace fit
