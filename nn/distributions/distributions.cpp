#include "fit/nn/distributions/distributions.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include "fit/graph/graph.hpp"
#include "tensor/check.hpp"

namespace fit::distributions {
namespace {

constexpr double log_of_turn = 1.8378770664093454836;  // log(2 pi)
constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor wide(const Tensor& x, const Shape& shape) { return x.shape() == shape ? x : broadcast_to(x, shape); }

// Throws Error unless x is floating and without NaN.
void check_parameter(const char* op, const char* name, const Tensor& x) {
  check::floating(op, name, x);
  if (any(isnan(x)).item<bool>()) check::fail(op, name, " has NaN");
}

// Broadcasts and promotes two parameters: under Autocast, a mean may be bfloat16 beside a deviation exp(x) in float32.
std::pair<Tensor, Tensor> parameters(const char* op, const char* a_name, const Tensor& a, const char* b_name,
                                     const Tensor& b) {
  check_parameter(op, a_name, a);
  check_parameter(op, b_name, b);
  const DType type = promote(a.dtype(), b.dtype());
  const Shape shape = check::broadcast(op, a.shape(), b.shape());
  return {wide(a.to(type), shape), wide(b.to(type), shape)};
}

void expect(const char* op, const Tensor& holds, const char* problem) {
  if (!all(holds).item<bool>()) check::fail(op, problem);
}

// [first..., second...]
Shape joined(const Shape& first, const Shape& second) {
  Shape s = first;
  for (const std::int64_t n : second) s = s.inserted(s.rank(), n);
  return s;
}

// The smallest number with 1 + eps > 1.
double eps(DType t) { return t == float64 ? 0x1p-52 : t == float32 ? 0x1p-23 : 0x1p-7; }

// The probabilities, away from 0 and 1 by eps.
Tensor limited(const Tensor& probs) { return clamp(probs, eps(probs.dtype()), 1 - eps(probs.dtype())); }

// p f. Where p is 0, it is 0 with derivative 0, although f may be infinite: as p ln p.
Tensor weighted(const Tensor& p, const Tensor& f) { return p * where(p == 0, 0, f); }

// The term p ln(p / q) of a divergence: inf if only q excludes the value.
Tensor relative(const Tensor& p, const Tensor& excluded, const Tensor& log_ratio) {
  return where(p > 0 && excluded, infinity, weighted(where(excluded, 0, p), log_ratio));
}

// Whether the last axis has classes.
void expect_classes(const char* name, const Tensor& x) {
  check::floating("Categorical", name, x);
  if (x.rank() == 0 || x.shape().back() == 0)
    check::fail("Categorical", name, " has shape ", x.shape(), ": it must be [..., C] with C >= 1");
}

}  // namespace

// ---- Normal -------------------------------------------------------------------------------------------------------

Normal::Normal(const Tensor& loc, const Tensor& scale) {
  std::tie(loc_, scale_) = parameters("Normal", "loc", loc, "scale", scale);
  expect("Normal", scale > 0, "scale has numbers that are not positive: it is a standard deviation");
}
Tensor Normal::rsample(const Shape& shape, Generator& g) const {
  return loc_ + scale_ * randn(joined(shape, loc_.shape()), loc_.dtype(), g);
}
Tensor Normal::sample(const Shape& shape, Generator& g) const {
  const NoGrad no_grad;
  return rsample(shape, g);
}
Tensor Normal::log_prob(const Tensor& value) const {
  return square((value - loc_) / scale_) * -0.5 - log(scale_) - 0.5 * log_of_turn;
}
Tensor Normal::entropy() const { return 0.5 + 0.5 * log_of_turn + log(scale_); }

Tensor kl_divergence(const Normal& p, const Normal& q) {
  const Tensor ratio = square(p.scale() / q.scale());
  return (ratio + square((p.loc() - q.loc()) / q.scale()) - 1 - log(ratio)) * 0.5;
}

// ---- Uniform ------------------------------------------------------------------------------------------------------

Uniform::Uniform(const Tensor& low, const Tensor& high) {
  std::tie(low_, high_) = parameters("Uniform", "low", low, "high", high);
  expect("Uniform", low_ < high_, "low is not less than high everywhere");
  expect("Uniform", isfinite(high_ - low_), "high - low is not finite everywhere");
}
Tensor Uniform::rsample(const Shape& shape, Generator& g) const {
  const Tensor x = low_ + (high_ - low_) * rand(joined(shape, low_.shape()), low_.dtype(), g);
  // Rounding gives low and high half as often as a number between. So low gets what rounds to high.
  return where(x < high_, x, low_);
}
Tensor Uniform::sample(const Shape& shape, Generator& g) const {
  const NoGrad no_grad;
  return rsample(shape, g);
}
Tensor Uniform::log_prob(const Tensor& value) const {
  const Tensor inside = value >= low_ && value < high_;
  return where(inside, -log(high_ - low_), -infinity);
}
Tensor Uniform::entropy() const { return log(high_ - low_); }

Tensor kl_divergence(const Uniform& p, const Uniform& q) {
  const Tensor inside = q.low() <= p.low() && q.high() >= p.high();
  return where(inside, log((q.high() - q.low()) / (p.high() - p.low())), infinity);
}

// ---- Bernoulli ----------------------------------------------------------------------------------------------------

Bernoulli::Bernoulli(const Tensor& probs) : probs_(probs) {
  check::floating("Bernoulli", "probs", probs);
  expect("Bernoulli", probs >= 0 && probs <= 1, "probs has numbers outside 0 … 1: from_logits() takes logits");
  const Tensor p = limited(probs);
  logits_ = log(p) - log1p(-p);
}
Bernoulli Bernoulli::from_logits(const Tensor& logits) {
  check_parameter("Bernoulli", "logits", logits);
  return {sigmoid(logits), logits};
}
Tensor Bernoulli::sample(const Shape& shape, Generator& g) const {
  const NoGrad no_grad;
  return bernoulli(wide(probs_, joined(shape, probs_.shape())), g);
}
Tensor Bernoulli::log_prob(const Tensor& value) const {
  check::floating("Bernoulli", "value", value);
  expect("Bernoulli", value == 0 || value == 1, "value has other numbers than 0 and 1");
  return log_sigmoid(logits_ * (value * 2 - 1));
}
// -p ln p - (1 - p) ln(1 - p). Of logits without a difference; beyond 1000 it is 0.
Tensor Bernoulli::entropy() const {
  if (!from_logits_) {
    const double smallest = probs_.dtype() == float64 ? 0x1p-1022 : 0x1p-126, largest = 1 - eps(probs_.dtype()) / 2;
    const Tensor log_p = log(clamp_min(probs_, smallest)), log_q = log1p(-clamp_max(probs_, largest));
    return -(probs_ * log_p + (1 - probs_) * log_q);
  }
  const Tensor x = clamp(logits_, -1000, 1000);
  return sigmoid(x) * softplus(-x) + sigmoid(-x) * softplus(x);
}

// Finite logits exclude nothing, also where the probability has rounded to 0 or 1.
Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q) {
  const Tensor of_0 = p.from_logits_ ? sigmoid(-p.logits_) : 1 - p.probs_;  // exact beside p = 1, too
  const Tensor no_1 = q.from_logits_ ? q.logits_ == -infinity : q.probs_ == 0;
  const Tensor no_0 = q.from_logits_ ? q.logits_ == infinity : q.probs_ == 1;
  return relative(p.probs_, no_1, softplus(-q.logits_) - softplus(-p.logits_)) +
         relative(of_0, no_0, softplus(q.logits_) - softplus(p.logits_));
}

// ---- Categorical --------------------------------------------------------------------------------------------------

Categorical::Categorical(const Tensor& probs) {
  expect_classes("probs", probs);
  const Tensor sums = sum(probs, -1, keepdims);
  expect("Categorical", probs >= 0, "probs has negative numbers: from_logits() takes logits");
  expect("Categorical", sums > 0 && isfinite(sums), "the sum of probs is not positive and finite");
  probs_ = probs / sums;
  logits_ = log(limited(probs_));
}
Categorical Categorical::from_logits(const Tensor& logits) {
  expect_classes("logits", logits);
  const Tensor logarithms = log_softmax(logits);
  check_parameter("Categorical", "log_softmax(logits)", logarithms);
  return {softmax(logits), logarithms};
}
Tensor Categorical::sample(const Shape& shape, Generator& g) const {
  const NoGrad no_grad;
  const std::int64_t classes = probs_.shape().back(), rows = probs_.numel() / classes;
  const Tensor ids = multinomial(reshape(probs_, {rows, classes}), shape.numel(), Replacement::yes, g);  // [rows, n]
  return reshape(transpose(ids), joined(shape, probs_.shape().erased(probs_.rank() - 1)));
}
Tensor Categorical::log_prob(const Tensor& value) const {
  check::dtype("Categorical", "value", value, int64);
  const std::int64_t classes = logits_.shape().back();
  if (!all(value >= 0 && value < classes).item<bool>())
    check::fail("Categorical", "value has ids outside 0 … ", classes - 1, ": there are ", classes, " classes");
  const Shape batch = logits_.shape().erased(logits_.rank() - 1);
  const Shape shape = check::broadcast("Categorical", value.shape(), batch);
  const Tensor rows = wide(logits_, shape.inserted(shape.rank(), classes));
  return squeeze(gather(rows, -1, unsqueeze(wide(value, shape), -1)), -1);
}
// A class of probability 0 has a slope, ln(eps) of its type, unless its logit is -inf: then p ln p is 0 for good.
Tensor Categorical::entropy() const { return -sum(probs_ * where(isinf(logits_), 0, logits_), -1); }

Tensor kl_divergence(const Categorical& p, const Categorical& q) {
  if (p.probs().shape().back() != q.probs().shape().back())
    check::fail("kl_divergence", "p has ", p.probs().shape().back(), " classes, q ", q.probs().shape().back(),
                ": both must have the same");
  const Tensor excluded = q.from_logits_ ? q.logits_ == -infinity : q.probs_ == 0;
  return sum(relative(p.probs_, excluded, p.logits_ - q.logits_), -1);
}

}  // namespace fit::distributions
