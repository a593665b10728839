// layer_norm and rms_norm.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/scratch.hpp"
#include "fit/threads/parallel.hpp"
#include "kernels/rows/rows_norm.hpp"
#include "kernels/wide_row.hpp"
#include "ops/common/precision.hpp"
#include "ops/reduce/reduction.hpp"
#include "ops/reduce/slice_scale.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

enum class Norm { layer, rms };

constexpr std::int64_t work = 1 << 14;    // minimum of elements for a thread
constexpr std::int64_t cached = 1 << 12;  // elements that stay in the L1 cache

std::int64_t row_count(const Tensor& x) { return x.numel() / std::max<std::int64_t>(x.shape().back(), 1); }

struct Forward {
  Tensor y, mean, rstd;  // mean is undefined for rms
};

template <class T>
const T* pointer(const Tensor& t) {
  return t.defined() ? t.data<T>().data() : nullptr;
}

// A copy of one row of x whose squares don't fit (slice_scale.hpp), scaled by a power of two.
template <class W>
class ScaledRow {
 public:
  template <class T>
  ScaledRow(Norm kind, const T* row, std::int64_t n, double eps)
      : kernels_(kernels::norm_rows<W>()), kind_(kind), n_(n), eps_(eps), memory_(2 * n) {
    std::transform(row, row + n, x(), [](T v) { return static_cast<W>(v); });
    const auto [low, high] = std::minmax_element(x(), x() + n);
    scale_ = scale_of<W>(std::max(std::abs(*low), std::abs(*high)));
    if (scale_ == 1) return;
    // A row of equal numbers is a row of zeros, moved: its 1 / std, scaled, could exceed W.
    if (kind == Norm::layer && *low == *high) constant_ = *low, scale_ = 1;
    for (std::int64_t i = 0; i < n; ++i) x()[i] = (x()[i] - constant_) * scale_;
  }

  /// Returns the normalised row.
  const W* forward(double* mean, double* rstd, const Tensor& weight, const Tensor& bias) const {
    normalise(mean, rstd, pointer<W>(weight), pointer<W>(bias));
    if (mean) *mean = *mean / static_cast<double>(scale_) + static_cast<double>(constant_);
    *rstd *= static_cast<double>(scale_);
    return y();
  }

  void backward(W* dx, W* dweight, W* dbias, const W* dy, const W* weight) const {
    double mean = 0, rstd = 0;
    normalise(&mean, &rstd, nullptr, nullptr);
    (kind_ == Norm::layer ? kernels_.layer_backward : kernels_.rms_backward)(dx, dweight, dbias, x(), dy, weight, &mean,
                                                                             &rstd, 1, n_, false);
    if (dx) std::transform(dx, dx + n_, dx, [this](W v) { return v * scale_; });
  }

 private:
  W* x() const { return memory_.get(); }
  W* y() const { return memory_.get() + n_; }

  void normalise(double* mean, double* rstd, const W* weight, const W* bias) const {
    const double scale = scale_;
    (kind_ == Norm::layer ? kernels_.layer : kernels_.rms)(y(), mean, rstd, x(), weight, bias, 1, n_,
                                                           eps_ * scale * scale, false);
  }

  const kernels::NormRows<W>& kernels_;
  Norm kind_;
  std::int64_t n_;
  double eps_;
  kernels::Scratch<W> memory_;
  W scale_ = 1, constant_ = 0;
};

// Rows of narrow types are converted, normalised and rounded in the cache; weight and bias are float32 then. Rows whose
// squares don't fit are normalised again.
Forward forward(Norm kind, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const std::int64_t n = x.shape().back(), rows = row_count(x);
  Forward f{Tensor::empty(x.shape(), x.dtype()), kind == Norm::layer ? Tensor::empty({rows}, float64) : Tensor(),
            Tensor::empty({rows}, float64)};
  if (x.numel() == 0) return f;
  dispatch_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = AccT<T>;
    const auto& kernels = kernels::norm_rows<W>();
    const auto kernel = kind == Norm::layer ? kernels.layer : kernels.rms;
    T* const y = f.y.fresh<T>();
    const T* const from = x.data<T>().data();
    double* const mean = f.mean.defined() ? f.mean.fresh<double>() : nullptr;
    double* const rstd = f.rstd.fresh<double>();
    const bool nontemporal = !narrow<T> && kernels::stores_nontemporal(y, rows, n);
    parallel_for(rows, std::max<std::int64_t>(1, work / n), [&](std::int64_t first, std::int64_t end) {
      const std::int64_t together = narrow<T> ? std::max<std::int64_t>(1, cached / n) : end - first;
      kernels::WideRow<T> wide(together * n);
      for (std::int64_t r = first; r < end; r += together) {
        const std::int64_t count = std::min(together, end - r);
        kernel(wide.target(y + r * n), mean ? mean + r : nullptr, rstd + r, wide.read(from + r * n, count * n),
               pointer<W>(weight), pointer<W>(bias), count, n, eps, nontemporal);
        wide.store(y + r * n, count * n);
      }
      for (std::int64_t r = first; r < end; ++r) {
        if (squares_fit<W>(rstd[r])) continue;
        const ScaledRow<W> row(kind, from + r * n, n, eps);
        const W* const again = row.forward(mean ? mean + r : nullptr, rstd + r, weight, bias);
        std::transform(again, again + n, y + r * n, [](W v) { return static_cast<T>(v); });
      }
    });
  });
  return f;
}

struct Gradients {
  Tensor x, weight, bias;
};

/// In one pass over x and dy. The rows are split into at most 32 blocks, which depend on the shape only. Each block
/// sums its part of the gradients of weight and bias.
struct FusedGradients {
  Norm kind;
  const Tensor &x, &dy, &weight, &mean, &rstd;
  double eps;
  std::int64_t n = x.shape().back(), rows = row_count(x);

  Gradients compute(bool want_x, bool want_weight, bool want_bias) const {
    const std::int64_t block = std::max<std::int64_t>(16, (rows + 31) / 32), blocks = (rows + block - 1) / block;
    Gradients g;
    if (want_x) g.x = Tensor::empty(x.shape(), x.dtype());
    if (want_weight) g.weight = zeros({blocks, n}, x.dtype());
    if (want_bias) g.bias = zeros({blocks, n}, x.dtype());
    dispatch_compute_floating(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const auto at = [](Tensor& t, std::int64_t offset) { return t.defined() ? t.fresh<T>() + offset : nullptr; };
      const bool nontemporal = want_x && kernels::stores_nontemporal(g.x.fresh<T>(), rows, n);
      parallel_for(blocks, std::max<std::int64_t>(1, work / std::max<std::int64_t>(block * n, 1)),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t k = begin; k < end; ++k)
                       add_rows(at(g.x, 0), at(g.weight, k * n), at(g.bias, k * n), k * block,
                                std::min((k + 1) * block, rows), nontemporal);
                   });
    });
    if (want_weight) g.weight = sum(g.weight, 0);
    if (want_bias) g.bias = sum(g.bias, 0);
    return g;
  }

 private:
  /// The rows from `r` to `last` - 1: runs of rows whose squares fit, and the other rows one by one.
  template <class T>
  void add_rows(T* dx, T* dweight, T* dbias, std::int64_t r, std::int64_t last, bool nontemporal) const {
    const auto& kernels = kernels::norm_rows<T>();
    const auto kernel = kind == Norm::layer ? kernels.layer_backward : kernels.rms_backward;
    const T *const from = pointer<T>(x), *const seed = pointer<T>(dy), *const w = pointer<T>(weight);
    const double *const means = pointer<double>(mean), *const rstds = pointer<double>(rstd);
    const auto row = [this](auto* p, std::int64_t i) { return p ? p + i * n : nullptr; };
    for (std::int64_t next; r < last; r = next) {
      next = std::find_if_not(rstds + r, rstds + last, squares_fit<T>) - rstds;
      if (next > r) {
        kernel(row(dx, r), dweight, dbias, row(from, r), row(seed, r), w, means ? means + r : nullptr, rstds + r,
               next - r, n, nontemporal);
      } else {
        ScaledRow<T>(kind, row(from, r), n, eps).backward(row(dx, r), dweight, dbias, row(seed, r), w);
        next = r + 1;
      }
    }
  }
};

/// Decomposition into operations, for higher derivatives.
Gradients gradients_by_decomposition(Norm kind, const Tensor& given, const Tensor& dy, const Tensor& weight, double eps,
                                     const Tensor& rstd) {
  const auto average = [](const Tensor& t) { return mean(t, -1, keepdims); };
  const Shape kept = given.shape().with(given.rank() - 1, 1);
  const Tensor scale = given.numel() == 0 ? Tensor() : slice_scale(given, kept, reshape(rstd, kept));
  const Tensor x = scale.defined() ? given * scale : given;
  const Tensor centred = kind == Norm::layer ? x - average(x) : x, variance = average(centred * centred);
  const Tensor r = rsqrt(scale.defined() ? variance + square(scale * std::sqrt(eps)) : variance + eps), h = centred * r;
  const Tensor g = weight.defined() ? dy * weight : dy;
  Tensor dx = g - h * average(g * h);
  if (kind == Norm::layer) dx = dx - average(g);
  const Shape row{x.shape().back()};
  dx = r * dx;
  return {scale.defined() ? dx * scale : dx, sum_to(dy * h, row), sum_to(dy, row)};
}

// x, weight and bias have the same type.
Tensor normalised(const char* op, Norm kind, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  Forward f = forward(kind, x, weight, bias, eps);
  return record({op, {{"eps", eps}}}, {x, weight, bias}, std::move(f.y),
                keep::input(0, 1) | keep::saved(f.mean, f.rstd), [kind, eps](Backward& b) {
                  const bool want_x = b.wants(0), want_weight = b.wants(1), want_bias = b.wants(2);
                  Gradients g = b.recording()
                                    ? gradients_by_decomposition(kind, b.x(0), b.dy(), b.x(1), eps, b.saved(1))
                                    : FusedGradients{kind, b.x(0), b.dy(), b.x(1), b.saved(0), b.saved(1), eps}.compute(
                                          want_x, want_weight, want_bias);
                  if (want_x) b.give(0, std::move(g.x));
                  if (want_weight) b.give(1, std::move(g.weight));
                  if (want_bias) b.give(2, std::move(g.bias));
                });
}

Tensor norm_rows(const char* op, Norm kind, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  check::floating(op, "x", x);
  if (x.rank() == 0) check::fail(op, "x is a scalar: it must have an axis to normalise along");
  DType t = x.dtype();
  const auto consider = [&](const char* name, const Tensor& p) {
    if (!p.defined()) return;
    check::floating(op, name, p);
    check::shape(op, name, p, {x.shape().back()});
    t = promote(t, p.dtype());
  };
  consider("weight", weight);
  consider("bias", bias);
  check::not_negative(op, "eps", eps);
  constexpr Precision p = Precision::float32;
  if (is_narrow(t) && is_narrow(result_dtype(p, t)) && !detail::wants_record({x, weight, bias}))
    return forward(kind, x, to_float32(weight), to_float32(bias), eps).y;
  t = compute_dtype(p, t);
  return with_precision(p, {x, weight, bias}, [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return normalised(op, kind, x.to(t), weight.defined() ? weight.to(t) : weight, bias.defined() ? bias.to(t) : bias,
                      eps);
  });
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return norm_rows("layer_norm", Norm::layer, x, weight, bias, eps);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return norm_rows("rms_norm", Norm::rms, x, weight, {}, eps);
}

}  // namespace fit
