// cdist: distances between the rows of two matrices. That with p = 2 is computed by kernels in double, without a tensor
// of the differences; where double's range does not suffice, and for other p, by operations.
#include <atomic>
#include <cmath>

#include "base/scratch.hpp"
#include "fit/threads/parallel.hpp"
#include "kernels/rows/distances.hpp"
#include "ops/common/composed.hpp"
#include "ops/common/precision.hpp"
#include "ops/reduce/slice_scale.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

Tensor composed_distances(const Tensor& a, const Tensor& b, double p) {
  const Tensor x = unsqueeze(a, -2), y = unsqueeze(b, -3);
  const Tensor distances = norm(x - y, p, -1);
  if (p == 0 || all(isfinite(distances)).item<bool>()) return distances;
  return norm(x * 0.5 - y * 0.5, p, -1) * 2;  // half of a difference can't overflow
}

/// Matrices a [..., M, C] and b [..., N, C] with equal leading axes, without gradients.
struct Pairs {
  Pairs(const Tensor& given_a, const Tensor& given_b) : M(given_a.size(-2)), N(given_b.size(-2)), C(given_a.size(-1)) {
    const auto lead = [](const Tensor& x) { return Shape(x.shape().begin(), x.rank() - 2); };
    const Shape batch = check::broadcast("cdist", lead(given_a), lead(given_b));
    const auto wide = [&](const Tensor& x, std::int64_t rows) {
      const Shape shape = batch.inserted(batch.rank(), rows).inserted(batch.rank() + 1, C);
      return x.shape() == shape ? x.detach() : broadcast_to(x.detach(), shape);
    };
    a = wide(given_a, M);
    b = wide(given_b, N);
    batches = batch.numel();
    result = batch.inserted(batch.rank(), M).inserted(batch.rank() + 1, N);
  }
  /// Calls body(batch, first row, rows, wide) for blocks of the rows of a side, `work` elements for each row, in
  /// parallel; `wide` has room for a block.
  template <class Body>
  void each_block(std::int64_t rows, std::int64_t work, const Body& body) const {
    const std::int64_t blocks = (rows + kernels::distance_rows - 1) / kernels::distance_rows;
    const std::int64_t grain = (1 << 15) / std::max<std::int64_t>(1, work * kernels::distance_rows);
    parallel_for(batches * blocks, std::max<std::int64_t>(1, grain), [&](std::int64_t task, std::int64_t end) {
      const kernels::Scratch<double> wide(std::max<std::int64_t>(1, kernels::distance_rows * C));
      for (; task < end; ++task) {
        const std::int64_t first = task % blocks * kernels::distance_rows;
        body(task / blocks, first, std::min(kernels::distance_rows, rows - first), wide.get());
      }
    });
  }

  Tensor a, b;
  std::int64_t batches, M, N, C;
  Shape result;
};

/// Whether a distance is as exact as squares in double can give it: if it is 0, the rows are equal.
template <class T>
bool is_exact(T y, const T* a, const T* b, std::int64_t C) {
  if (std::is_same_v<T, float> || std::isnan(y) || squares_fit<double>(y)) return true;
  return y == 0 && std::equal(a, a + C, b);
}

/// The distances; undefined if one leaves the range.
template <class T>
Tensor distances_within_range(const Pairs& p) {
  Tensor y = Tensor::empty(p.result, dtype_of<T>());
  T* const out = y.fresh<T>();
  const T *const left = p.a.data<T>().data(), *const right = p.b.data<T>().data();
  std::atomic<bool> exact{true};
  p.each_block(p.M, p.N * p.C, [&](std::int64_t batch, std::int64_t first, std::int64_t m, double* wide) {
    const T *const a = left + (batch * p.M + first) * p.C, *const b = right + batch * p.N * p.C;
    T* const rows = out + (batch * p.M + first) * p.N;
    kernels::distances<T>().euclidean(rows, a, m, b, p.N, p.C, wide);
    for (std::int64_t i = 0; i < m * p.N; ++i)
      if (!is_exact(rows[i], a + i / p.N * p.C, b + i % p.N * p.C, p.C)) exact = false;
  });
  return exact ? y : Tensor();
}

/// dy / y, the factor of a difference in the gradient: 0 where y is 0. Sets `exact` to false if double's range does not
/// suffice.
double weight_of(double dy, double y, bool& exact) {
  if (y == 0) return 0;
  const double w = dy / y;
  exact &= dy == 0 || !std::isfinite(dy) || std::isnan(y) || (std::isnormal(y) && std::isnormal(w));
  return w;
}
/// A distance of floats that is infinite, or has lost digits, is computed again: double holds it.
template <class T>
double wide_distance(T y, const T* a, const T* b, std::int64_t C) {
  if (std::is_same_v<T, double> || std::isnormal(y) || y == 0 || std::isnan(y)) return y;
  double sum = 0;
  for (std::int64_t c = 0; c < C; ++c) sum += (double{a[c]} - b[c]) * (double{a[c]} - b[c]);
  return std::sqrt(sum);
}

/// The weights of all differences; undefined if one leaves the range.
template <class T>
Tensor weights_within_range(const Pairs& p, const Tensor& y, const Tensor& dy) {
  Tensor weights = Tensor::empty(p.result, float64);
  double* const out = weights.fresh<double>();
  const T *const distance = y.data<T>().data(), *const seed = dy.data<T>().data();
  const T *const left = p.a.data<T>().data(), *const right = p.b.data<T>().data();
  std::atomic<bool> all_exact{true};
  p.each_block(p.M, p.N, [&](std::int64_t batch, std::int64_t first, std::int64_t m, double*) {
    bool exact = true;
    for (std::int64_t i = batch * p.M + first; m > 0; ++i, --m) {
      const std::int64_t row = i * p.N;
      if (kernels::distances<T>().weights(out + row, seed + row, distance + row, p.N)) continue;
      for (std::int64_t j = 0; j < p.N; ++j) {
        const T *const a = left + i * p.C, *const b = right + (batch * p.N + j) * p.C;
        out[row + j] = weight_of(seed[row + j], wide_distance(distance[row + j], a, b, p.C), exact);
      }
    }
    if (!exact) all_exact = false;
  });
  return all_exact ? weights : Tensor();
}

/// dx_i = the sum over j of w[i, j] (x_i - y_j), for the rows of a side: with w [M, N] for a, with its transpose for b.
template <class T>
Tensor side_gradient(const Pairs& p, const Tensor& weights, bool of_a) {
  const Tensor &x = of_a ? p.a : p.b, &y = of_a ? p.b : p.a;
  const std::int64_t rows = of_a ? p.M : p.N, others = of_a ? p.N : p.M;
  Tensor dx = Tensor::empty(x.shape(), x.dtype());
  T* const out = dx.fresh<T>();
  const T *const from = x.data<T>().data(), *const to = y.data<T>().data();
  const double* const w = weights.data<double>().data();
  p.each_block(rows, others * p.C, [&](std::int64_t batch, std::int64_t first, std::int64_t m, double*) {
    const std::int64_t at = (batch * rows + first) * p.C, wi = of_a ? p.N : 1, wj = of_a ? 1 : p.N;
    kernels::distances<T>().weighted(out + at, from + at, m, to + batch * others * p.C, others, p.C,
                                     w + batch * p.M * p.N + first * wi, wi, wj);
  });
  return dx;
}

void give_gradients(Backward& g) {
  const auto by_operations = [&] {
    give_by_decomposition(
        g, [](const std::vector<Tensor>& x) { return std::vector<Tensor>{composed_distances(x[0], x[1], 2)}; });
  };
  if (g.recording()) return by_operations();
  const Pairs p(g.x(0), g.x(1));
  dispatch_compute_floating(p.a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const Tensor weights = weights_within_range<T>(p, g.y(), g.dy());
    if (!weights.defined()) return by_operations();
    for (const int i : {0, 1})
      if (g.wants(i)) g.give(i, side_gradient<T>(p, weights, i == 0));
  });
}

Tensor euclidean_distances(const Tensor& a, const Tensor& b) {
  const Pairs p(a, b);
  Tensor y;
  dispatch_compute_floating(a.dtype(), [&](auto zero) { y = distances_within_range<decltype(zero)>(p); });
  if (!y.defined()) {
    const NoGrad no_grad;
    y = composed_distances(a, b, 2);
  }
  return record("cdist", {a, b}, std::move(y), keep::inputs | keep::output, [](Backward& g) { give_gradients(g); });
}

}  // namespace

Tensor cdist(const Tensor& a, const Tensor& b, double p) {
  check::floating("cdist", "a", a);
  check::floating("cdist", "b", b);
  if (a.rank() < 2 || b.rank() < 2 || a.shape().back() != b.shape().back())
    check::fail("cdist", "a has shape ", a.shape(), ", b ", b.shape(), ": they must be [..., M, C] and [..., N, C]");
  check::not_negative("cdist", "p", p);
  return with_precision(Precision::float32, {a, b}, [&](const Tensor& a, const Tensor& b) {
    check::broadcast("cdist", unsqueeze(a, -2).shape(), unsqueeze(b, -3).shape());
    if (p != 2) return composed_distances(a, b, p);
    const DType t = promote(a.dtype(), b.dtype());
    return euclidean_distances(a.to(t), b.to(t));
  });
}

}  // namespace fit
