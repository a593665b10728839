#include "ops/reduce/distance.hpp"

#include <cmath>
#include <limits>

#include "fit/graph/graph.hpp"
#include "loss/common.hpp"

namespace fit::nn {
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return with_precision(Precision::float32, {input, target}, [&](const Tensor& input, const Tensor& target) {
    check_pair("mse_loss", input, target);
    if (reduction == Reduction::none) return square(input - target);
    const bool is_mean = reduction == Reduction::mean;
    return stated((is_mean ? fit::detail::mean_squared_distance : fit::detail::squared_distance)(input, target),
                  reduction, static_cast<double>(input.numel()));
  });
}

Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return with_precision(Precision::float32, {input, target}, [&](const Tensor& input, const Tensor& target) {
    check_pair("l1_loss", input, target);
    return reduced(abs(input - target), reduction);
  });
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1Options& options) {
  return with_precision(Precision::float32, {input, target}, [&](const Tensor& input, const Tensor& target) {
    constexpr const char* op = "smooth_l1_loss";
    check_pair(op, input, target);
    check::not_negative(op, "beta", options.beta());
    if (options.beta() > 0 && options.beta() < std::numeric_limits<float>::min())  // would give 0 / 0 in float32
      check::fail(op, "beta is ", options.beta(), ": it must be 0, or at least ", std::numeric_limits<float>::min());
    if (options.beta() == 0) return l1_loss(input, target, options.reduction());
    return reduced(fit::detail::huber(input, target, options.beta(), 1 / options.beta()), options.reduction());
  });
}

Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberOptions& options) {
  return with_precision(Precision::float32, {input, target}, [&](const Tensor& input, const Tensor& target) {
    constexpr const char* op = "huber_loss";
    check_pair(op, input, target);
    if (!(options.delta() > 0)) check::fail(op, "delta is ", options.delta(), ": it must be positive");
    return reduced(fit::detail::huber(input, target, options.delta(), 1), options.reduction());
  });
}

Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         const GaussianNLLOptions& options) {
  constexpr const char* op = "gaussian_nll_loss";
  check::floating(op, "var", var);
  return with_precision(
      Precision::float32, {input, target, var}, [&](const Tensor& input, const Tensor& target, const Tensor& var) {
        check_pair(op, input, target);
        const Shape& shape = input.shape();
        const int last = shape.rank() - 1;
        const bool lacks_axis = last >= 0 && var.shape() == shape.erased(last);
        if (var.shape() != shape && !lacks_axis && !(last >= 0 && var.shape() == shape.with(last, 1)))
          check::fail(op, "input is ", shape, ", var ", var.shape(),
                      ": var must have this shape, or no last axis, or size 1 there");
        if (!(options.eps() > 0)) check::fail(op, "eps is ", options.eps(), ": it must be positive");
        if (any(var < 0).item<bool>()) check::fail(op, "var has negative numbers: a variance can't be negative");
        // As in PyTorch, the gradient passes where the variance is limited.
        const Tensor limited = record("gaussian_nll_loss", {var}, clamp_min(var.detach(), options.eps()), keep::nothing,
                                      [](Backward& b) { b.give(0, b.take_dy()); });
        const Tensor v = lacks_axis ? unsqueeze(limited, -1) : limited;
        const double constant = options.full() ? 1.8378770664093454836 : 0;  // log(2 pi)
        return reduced((log(v) + square(input - target) / v + constant) * 0.5, options.reduction());
      });
}

Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivOptions& options) {
  return with_precision(Precision::float32, {input, target}, [&](const Tensor& input, const Tensor& given) {
    check_pair("kl_div", input, given);
    const Tensor target = is_floating(given.dtype()) ? given : given.to(input.dtype());  // one_hot() gives int64
    check_log_probabilities("kl_div", input, "; probabilities are the target");
    if (options.log_target()) return reduced(exp(target) * (target - input), options.reduction());
    check_probabilities("kl_div", "target", target, "; for their logarithms, set log_target");
    const Tensor logarithm = log(where(eq(target, 0), 1, target));  // 0 ln 0 = 0
    return reduced(target * (logarithm - input), options.reduction());
  });
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                             const CosineEmbeddingOptions& options) {
  return with_precision(Precision::float32, {a, b}, [&](const Tensor& a, const Tensor& b) {
    constexpr const char* op = "cosine_embedding_loss";
    check::floating(op, "a", a);
    check::defined(op, "b", b, "target", target);
    if (a.rank() == 0 || a.shape() != b.shape() || target.shape() != a.shape().erased(a.rank() - 1))
      check::fail(op, "a is ", a.shape(), ", b ", b.shape(), ", target ", target.shape(),
                  ": they must be [..., C], [..., C] and [...]");
    if (!std::isfinite(options.margin())) check::fail(op, "margin is ", options.margin(), ": it must be finite");
    const Tensor same = eq(target, 1);
    if (!all(same || eq(target, -1)).item<bool>()) check::fail(op, "target has other numbers than 1 and -1");
    constexpr double eps = 1e-12f;  // PyTorch's is a float
    const Tensor norms = sqrt((sum(a * a, {-1}) + eps) * (sum(b * b, {-1}) + eps)), cosine = sum(a * b, {-1}) / norms;
    const Tensor apart = relu(cosine - options.margin());
    return reduced(where(same, 1 - cosine, apart), options.reduction());
  });
}

// ---- as layers, printed ---------------------------------------------------------------------------------------------

std::string describe(const SmoothL1Options& o) { return joined("beta=", o.beta(), ", ", describe(o.reduction())); }
std::string describe(const HuberOptions& o) { return joined("delta=", o.delta(), ", ", describe(o.reduction())); }
std::string describe(const GaussianNLLOptions& o) {
  return joined("full=", o.full(), ", eps=", o.eps(), ", ", describe(o.reduction()));
}
std::string describe(const KLDivOptions& o) {
  return joined("log_target=", o.log_target(), ", ", describe(o.reduction()));
}
std::string describe(const CosineEmbeddingOptions& o) {
  return joined("margin=", o.margin(), ", ", describe(o.reduction()));
}
std::string describe(const Reduction& r) {
  return joined("reduction=", r == Reduction::none ? "none" : r == Reduction::mean ? "mean" : "sum");
}

}  // namespace fit::nn
