#include <limits>

#include "fit/graph/graph.hpp"
#include "loss/common.hpp"
#include "ops/network/logits_entropy.hpp"

namespace fit::nn {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

void check_binary(const char* op, const Tensor& input, const Tensor& target) {
  check_pair(op, input, target);
  if (!all_within(target, 0, 1))
    check::fail(op, "target has numbers outside 0 … 1: 1 is yes, 0 is no, and what lies between is a probability");
}

Tensor cut_off(const Tensor& logarithm) { return clamp(logarithm, -100, infinity); }

// ln p and ln(1 - p), cut off. Their derivatives are 0 at p = 0 and p = 1, where those of the logarithms are infinite.
Tensor cut_off_log(const Tensor& p) {
  const Tensor none = eq(p, 0);
  return where(none, -100, cut_off(log(where(none, 1, p))));
}
Tensor cut_off_log_of_rest(const Tensor& p) {
  const Tensor none = eq(p, 1);
  return where(none, -100, cut_off(log1p(-where(none, 0, p))));
}

// p (1 - p), at least 1e-12. PyTorch's is a float, too.
Tensor limited_variance(const Tensor& p) { return clamp(p * (1 - p), 1e-12f, infinity); }

// dy (p - y) / (p (1 - p)) with the limit. Its derivative by p is (p^2 - 2 p y + y) / (p (1 - p))^2 with the limit, as
// PyTorch's: that of the limited formula would be 1e12 where p = y = 0.
Tensor bce_slope(const Tensor& dy, const Tensor& p, const Tensor& y) {
  Tensor slope;
  {
    const NoGrad no_grad;
    slope = dy * (p - y) / limited_variance(p);
  }
  return record("binary_cross_entropy_slope", {dy, p, y}, std::move(slope), keep::inputs, [](Backward& b) {
    const Tensor dy = b.x(0), p = b.x(1), y = b.x(2), v = limited_variance(p), of_v = b.dy() / v;
    if (b.wants(0)) b.give(0, of_v * (p - y));
    if (b.wants(1)) b.give(1, of_v * dy * (p * p - 2 * p * y + y) / v);
    if (b.wants(2)) b.give(2, -of_v * dy);
  });
}

// -(y ln p + (1 - y) ln(1 - p)) with logarithms of at least -100. The gradient is that of bce_slope(): that of the
// clamped formula would be 0 for very wrong predictions.
Tensor bce(const Tensor& probability, const Tensor& target) {
  Tensor loss;
  {
    const NoGrad no_grad;
    loss = -(target * cut_off(log(probability)) + (1 - target) * cut_off(log1p(-probability)));
  }
  return record("binary_cross_entropy", {probability, target}, std::move(loss), keep::inputs, [](Backward& b) {
    const Tensor p = b.x(0), y = b.x(1);
    if (b.wants(0)) b.give(0, bce_slope(b.dy(), p, y));
    if (b.wants(1)) b.give(1, b.dy() * (cut_off_log_of_rest(p) - cut_off_log(p)));
  });
}

// (1 - p_t)^gamma with p_t = p t + (1 - p) (1 - t). For t = 1 and 0, 1 - p_t is e^-softplus(x) and e^-softplus(-x),
// which has a power where 1 - p_t has become 0.
Tensor focus(const Tensor& x, const Tensor& t, double gamma) {
  // The order in which operations are recorded is that in which gradients are added: each has its own statement.
  // The power's own form has a slope in t.
  if (t.requires_grad()) {
    const Tensor missed_one = t * sigmoid(-x), missed_zero = (1 - t) * sigmoid(x);
    return pow(missed_one + missed_zero, gamma);
  }
  const Tensor of_one = softplus(x), of_zero = softplus(-x);
  const Tensor sharp = exp(-gamma * where(t == 1, of_one, of_zero)), hard = t == 0 || t == 1;
  if (all(hard).item<bool>()) return sharp;
  const Tensor between = where(hard, 0.5, t), missed_one = between * sigmoid(-x),
               missed_zero = (1 - between) * sigmoid(x);
  return where(hard, sharp, pow(missed_one + missed_zero, gamma));
}

// losses * weight, or losses if there is no weight.
Tensor weighted(const char* op, const char* name, const Tensor& losses, const Tensor& weight) {
  if (!weight.defined()) return losses;
  if (check::broadcast(op, weight.shape(), losses.shape()) != losses.shape())
    check::fail(op, name, " has shape ", weight.shape(), ": it must broadcast to that of the input, ", losses.shape());
  return losses * weight.detach().to(losses.dtype());
}

}  // namespace

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BCEOptions& options) {
  return with_precision(Precision::float32, {input, target}, [&](const Tensor& input, const Tensor& target) {
    constexpr const char* op = "binary_cross_entropy";
    check_binary(op, input, target);
    if (!all_within(input, 0, 1))
      check::fail(op, "input has numbers outside 0 … 1: it must be probabilities (the form with logits takes others)");
    return reduced(weighted(op, "weight", bce(input, target), options.weight()), options.reduction());
  });
}

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const BCEWithLogitsOptions& options) {
  return with_precision(Precision::float32, {logits, target}, [&](const Tensor& logits, const Tensor& target) {
    constexpr const char* op = "binary_cross_entropy_with_logits";
    check_binary(op, logits, target);
    Tensor losses;
    if (options.pos_weight().defined()) {
      const Tensor ones = weighted(op, "pos_weight", target * softplus(-logits), options.pos_weight());
      losses = ones + (1 - target) * softplus(logits);
    } else {
      const DType t = promote(logits.dtype(), target.dtype());
      losses = logits_entropy(op, logits.to(t), target.to(t));
    }
    return reduced(weighted(op, "weight", losses, options.weight()), options.reduction());
  });
}

Tensor focal_loss(const Tensor& logits, const Tensor& target, const FocalOptions& options) {
  return with_precision(Precision::float32, {logits, target}, [&](const Tensor& logits, const Tensor& target) {
    constexpr const char* op = "focal_loss";
    check_binary(op, logits, target);
    if (!(options.gamma() >= 0 && options.gamma() <= std::numeric_limits<float>::max()))
      check::fail(op, "gamma is ", options.gamma(), ": it must be finite and not negative");
    if (!(options.alpha() <= 1)) check::fail(op, "alpha is ", options.alpha(), ": it must be at most 1");
    const Tensor t = target.to(logits.dtype()), factor = focus(logits, t, options.gamma());
    const Tensor losses = factor * logits_entropy(op, logits, t);
    return reduced(options.alpha() < 0 ? losses : (options.alpha() * t + (1 - options.alpha()) * (1 - t)) * losses,
                   options.reduction());
  });
}

// ---- as layers, printed ---------------------------------------------------------------------------------------------

BCEWithLogitsLoss::BCEWithLogitsLoss(const BCEWithLogitsOptions& options)
    : WeightedLossOf(options), pos_weight(options.pos_weight()) {}

BCEWithLogitsOptions BCEWithLogitsLoss::options() const { return WeightedLossOf::options().pos_weight(pos_weight); }

FIT_FIELDS_OF(BCEWithLogitsLoss, weight, pos_weight)

std::string describe(const BCEOptions& o) { return weight_of("weight", o.weight()) + describe(o.reduction()); }
std::string describe(const BCEWithLogitsOptions& o) {
  return weight_of("weight", o.weight()) + weight_of("pos_weight", o.pos_weight()) + describe(o.reduction());
}
std::string describe(const FocalOptions& o) {
  return joined("alpha=", o.alpha(), ", gamma=", o.gamma(), ", ", describe(o.reduction()));
}

}  // namespace fit::nn
