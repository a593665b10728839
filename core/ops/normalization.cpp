// layer_norm and rms_norm.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "base/scratch.hpp"
#include "fit/parallel.hpp"
#include "kernels/convert.hpp"
#include "kernels/rows_norm.hpp"
#include "ops/precision.hpp"
#include "ops/reduction.hpp"
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

// Rows of bfloat16 are converted, normalised and rounded in the cache; weight and bias are float32 then.
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
    const bool nontemporal = kernels::stores_nontemporal(y, rows, n);
    const auto normalise = [&](W* to, const W* rows_of_x, std::int64_t r, std::int64_t count, bool past_caches) {
      kernel(to, mean ? mean + r : nullptr, rstd + r, rows_of_x, pointer<W>(weight), pointer<W>(bias), count, n, eps,
             past_caches);
    };
    parallel_for(rows, std::max<std::int64_t>(1, work / n), [&](std::int64_t r, std::int64_t end) {
      if constexpr (std::is_same_v<T, BFloat16>) {
        const std::int64_t together = std::max<std::int64_t>(1, cached / n);
        const kernels::Scratch<float> block(together * n);
        for (; r < end; r += together) {
          const std::int64_t count = std::min(together, end - r);
          kernels::widen(block.get(), from + r * n, count * n);
          normalise(block.get(), block.get(), r, count, false);
          kernels::round(y + r * n, block.get(), count * n);
        }
      } else {
        normalise(y + r * n, from + r * n, r, end - r, nontemporal);
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
Gradients fused_gradients(Norm kind, const Tensor& x, const Tensor& dy, const Tensor& weight, const Tensor& mean,
                          const Tensor& rstd, bool want_x, bool want_weight, bool want_bias) {
  const std::int64_t n = x.shape().back(), rows = row_count(x);
  const std::int64_t block = std::max<std::int64_t>(16, (rows + 31) / 32), blocks = (rows + block - 1) / block;
  Gradients g;
  if (want_x) g.x = Tensor::empty(x.shape(), x.dtype());
  if (want_weight) g.weight = zeros({blocks, n}, x.dtype());
  if (want_bias) g.bias = zeros({blocks, n}, x.dtype());
  dispatch_compute_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto& kernels = kernels::norm_rows<T>();
    const auto kernel = kind == Norm::layer ? kernels.layer_backward : kernels.rms_backward;
    const bool nontemporal = want_x && kernels::stores_nontemporal(g.x.fresh<T>(), rows, n);
    const auto at = [](Tensor& t, std::int64_t offset) { return t.defined() ? t.fresh<T>() + offset : nullptr; };
    parallel_for(blocks, std::max<std::int64_t>(1, work / std::max<std::int64_t>(block * n, 1)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t k = begin; k < end; ++k) {
                     const std::int64_t r = k * block;
                     kernel(at(g.x, r * n), at(g.weight, k * n), at(g.bias, k * n), x.data<T>().data() + r * n,
                            dy.data<T>().data() + r * n, pointer<T>(weight),
                            mean.defined() ? mean.data<double>().data() + r : nullptr, rstd.data<double>().data() + r,
                            std::min(block, rows - r), n, nontemporal);
                   }
                 });
  });
  if (want_weight) g.weight = sum(g.weight, 0);
  if (want_bias) g.bias = sum(g.bias, 0);
  return g;
}

/// Decomposition into operations, for higher derivatives.
Gradients composed_gradients(Norm kind, const Tensor& x, const Tensor& dy, const Tensor& weight, double eps) {
  const auto average = [](const Tensor& t) { return mean(t, -1, keepdims); };
  const Tensor centred = kind == Norm::layer ? x - average(x) : x;
  const Tensor r = rsqrt(average(centred * centred) + eps), h = centred * r;
  const Tensor g = weight.defined() ? dy * weight : dy;
  Tensor dx = g - h * average(g * h);
  if (kind == Norm::layer) dx = dx - average(g);
  const Shape row{x.shape().back()};
  return {r * dx, sum_to(dy * h, row), sum_to(dy, row)};
}

// x, weight and bias have the same type.
Tensor normalised(const char* op, Norm kind, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  Forward f = forward(kind, x, weight, bias, eps);
  return record(op, {x, weight, bias}, std::move(f.y), keep::input(0, 1) | keep::saved(f.mean, f.rstd),
                [kind, eps](Backward& b) {
                  const bool want_x = b.wants(0), want_weight = b.wants(1), want_bias = b.wants(2);
                  Gradients g = b.recording() ? composed_gradients(kind, b.x(0), b.dy(), b.x(1), eps)
                                              : fused_gradients(kind, b.x(0), b.dy(), b.x(1), b.saved(0), b.saved(1),
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
  if (!(eps >= 0)) check::fail(op, "eps is ", eps, ": it can't be negative");
  constexpr Precision p = Precision::float32;
  if (t == bfloat16 && result_dtype(p, t) == bfloat16 && !detail::wants_record({x, weight, bias}))
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
