#include <cmath>

#include "fit/graph.hpp"
#include "fit/ops.hpp"
#include "fit/optim.hpp"
#include "kernels/sum_of_squares.hpp"
#include "optim/fused_step.hpp"
#include "optim/grad_norm.hpp"
#include "optim/named.hpp"
#include "tensor/check.hpp"

namespace fit::optim {
namespace {

// The limit may be infinite, which disables clipping.
void check_limit(const char* op, const char* name, double value) {
  if (!(value >= 0)) check::fail(op, name, " is ", value, ": it must not be negative");
}

}  // namespace

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

std::vector<Tensor> gradients(const char* op, const Parameters& parameters, double limit) {
  std::vector<Tensor> all;
  std::size_t number = 0;
  for (const auto& [given, p] : parameters.named()) {
    const std::string name = name_or_number(given, number++);
    if (!p.defined()) check::fail(op, "the parameter ", name, " is undefined");
    if (!std::isinf(limit))
      expect_gradient_kept(op, name, p, "clip. Call optimizer.step() after backward() and clipping instead");
    if (p.has_grad()) all.push_back(p.grad());
  }
  return all;
}

// Adds a gradient to the sum of |g|^p, or to max |g| for infinite p. NaN propagates.
void add_norm(double& total, const Tensor& g, double p) {
  if (p == 2) {
    total += sum_of_squares(g);
  } else if (g.numel() > 0) {
    const Tensor size = abs(g.to(float64));
    if (!std::isinf(p))
      total += sum(pow(size, p)).item();
    else if (const double most = max(size).item(); most > total || std::isnan(most))
      total = most;
  }
}

}  // namespace

double clip_grad_norm_(const Parameters& parameters, double max_norm, ErrorIfNonfinite check) {
  return clip_grad_norm_(parameters, max_norm, 2, check);
}

double clip_grad_norm_(const Parameters& parameters, double max_norm, double norm_type, ErrorIfNonfinite check) {
  check_limit("clip_grad_norm_", "max_norm", max_norm);
  if (!(norm_type > 0)) check::fail("clip_grad_norm_", "norm_type is ", norm_type, ": it must be positive");
  const NoGrad no_grad;
  double total = 0;
  std::vector<Tensor> all = gradients("clip_grad_norm_", parameters, max_norm);
  for (const Tensor& g : all) add_norm(total, g, norm_type);
  if (!std::isinf(norm_type)) total = norm_type == 2 ? std::sqrt(total) : std::pow(total, 1 / norm_type);
  if (check == error_if_nonfinite && !std::isfinite(total))
    check::fail("clip_grad_norm_", "the norm of the gradients is ", total, ": it must be finite");
  const double factor = max_norm / (total + 1e-6);
  if (!(factor >= 1))
    for (Tensor& g : all) g.mul_(factor);
  return total;
}

void clip_grad_value_(const Parameters& parameters, double limit) {
  check_limit("clip_grad_value_", "limit", limit);
  const NoGrad no_grad;
  for (Tensor& g : gradients("clip_grad_value_", parameters, limit)) g.copy_(clamp(g, -limit, limit));
}

}  // namespace fit::optim
