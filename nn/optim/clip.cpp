#include <cmath>
#include <limits>
#include <unordered_set>

#include "base/acc_type.hpp"
#include "common/functions.hpp"
#include "fit/graph/graph.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/ops/ops.hpp"
#include "kernels/rows/sum_of_squares.hpp"
#include "optim/fused_step.hpp"
#include "optim/grad_norm.hpp"
#include "optim/named.hpp"
#include "tensor/check.hpp"

namespace fit::optim {
// Adds sums of blocks in order. The size of a block does not depend on the number of threads.
double sum_of_squares(const Tensor& x) {
  if (x.dtype() == bfloat16) {
    const NoGrad no_grad;
    return sum_of_squares(x.to(float32));
  }
  constexpr std::int64_t block = 1 << 15;
  const std::int64_t n = x.numel(), blocks = (n + block - 1) / block;
  std::vector<double> sums(static_cast<std::size_t>(blocks));
  dispatch_compute_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* data = static_cast<const T*>(x.raw());
    parallel_for(blocks, 2, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b)
        sums[b] = kernels::sum_of_squares<T>()(data + b * block, std::min(block, n - b * block));
    });
  });
  double total = 0;
  for (const double s : sums) total += s;
  return total;
}

bool all_finite(const Tensor& x) {
  if (std::isfinite(sum_of_squares(x))) return true;
  const NoGrad no_grad;
  return all(isfinite(x)).item<bool>();  // squares of finite numbers may overflow
}

namespace {

// The sum of |g|^p of all elements, or the max of |g| for infinite p. NaN propagates.
double sum_of_powers(const std::vector<Tensor>& all, double p) {
  double total = 0;
  for (const Tensor& g : all) {
    if (p == 2) {
      total += sum_of_squares(g);
    } else if (g.numel() > 0) {
      const Tensor size = abs(g.to(float64));
      if (!std::isinf(p))
        total += sum(pow(size, p)).item();
      else if (const double largest = max(size).item(); largest > total || std::isnan(largest))
        total = largest;
    }
  }
  return total;
}

}  // namespace

double joint_norm(const std::vector<Tensor>& all, double p) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), smallest_exact = 0x1p-900;
  const NoGrad no_grad;
  const double total = sum_of_powers(all, p);
  if (std::isinf(p)) return total;
  const auto root = [p](double x) { return p == 2 ? std::sqrt(x) : nn::number::pow(x, 1 / p); };
  if (std::isfinite(total) && total >= smallest_exact) return root(total);
  // Powers that overflow or underflow: the largest element is divided out first.
  const double largest = sum_of_powers(all, infinity);
  if (largest == 0 || !std::isfinite(largest)) return largest;
  double scaled = 0;
  for (const Tensor& g : all) scaled += sum_of_powers({g.to(float64) / largest}, p);
  return largest * root(scaled);
}

namespace {

void check_norm_type(const char* op, double norm_type) {
  if (!(norm_type > 0)) check::fail(op, "norm_type is ", norm_type, ": it must be positive");
}

// The gradients of the parameters that have one. With `use`, none may be updated within backward().
std::vector<Tensor> gradients(const char* op, const Parameters& parameters, const char* use) {
  std::vector<Tensor> all;
  std::unordered_set<const void*> seen;
  for (const auto& [given, p] : parameters.named()) {
    const std::string name = name_or_number(given, seen.size());
    if (!p.defined()) check::fail(op, "the parameter ", name, " is undefined");
    check_once(op, name, p, seen);
    if (use) expect_gradient_kept(op, name, p, use);
    if (p.has_grad()) all.push_back(p.grad());
  }
  return all;
}

std::vector<Tensor> clipped_gradients(const char* op, const Parameters& parameters, double limit) {
  return gradients(op, parameters,
                   std::isinf(limit) ? nullptr : "clip. Call optimizer.step() after backward() and clipping instead");
}

// g *= max_norm / norm. A factor below the normal numbers of g's type would lose digits: its root is applied twice.
void scale(Tensor& g, double max_norm, double norm) {
  const double factor = max_norm / norm;
  if (!(factor < smallest_normal(g.dtype())) || max_norm == 0 || std::isinf(norm)) {
    g.mul_(factor);
    return;
  }
  const double root = std::sqrt(max_norm) / std::sqrt(norm);
  g.mul_(root).mul_(root);
}

}  // namespace

double grad_norm(const Parameters& parameters, double norm_type) {
  check_norm_type("grad_norm", norm_type);
  return joint_norm(gradients("grad_norm", parameters, "measure"), norm_type);
}

double clip_grad_norm_(const Parameters& parameters, double max_norm, ErrorIfNonfinite check) {
  return clip_grad_norm_(parameters, max_norm, 2, check);
}

double clip_grad_norm_(const Parameters& parameters, double max_norm, double norm_type, ErrorIfNonfinite check) {
  check::not_negative("clip_grad_norm_", "max_norm", max_norm);  // infinity: no clipping
  check_norm_type("clip_grad_norm_", norm_type);
  const NoGrad no_grad;
  std::vector<Tensor> all = clipped_gradients("clip_grad_norm_", parameters, max_norm);
  const double norm = joint_norm(all, norm_type);
  if (check == error_if_nonfinite && !std::isfinite(norm))
    check::fail("clip_grad_norm_", "the norm of the gradients is ", norm, ": it must be finite");
  constexpr double eps = 1e-6;  // PyTorch's
  if (!std::isinf(max_norm) && !(max_norm / (norm + eps) >= 1))
    for (Tensor& g : all) scale(g, max_norm, norm + eps);
  return norm;
}

void clip_grad_value_(const Parameters& parameters, double limit) {
  check::not_negative("clip_grad_value_", "limit", limit);  // infinity: no clipping
  const NoGrad no_grad;
  for (Tensor& g : clipped_gradients("clip_grad_value_", parameters, limit))
    if (!std::isinf(limit)) g.copy_(clamp(g, -limit, limit));
}

}  // namespace fit::optim
