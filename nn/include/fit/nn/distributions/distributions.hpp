#pragma once
#include "fit/ops/ops.hpp"
#include "fit/tensor/random.hpp"
#include "fit/tensor/tensor.hpp"

/// Probability distributions, with the names and formulas of torch.distributions:
///
///     distributions::Normal q(mean, exp(0.5 * logvar));      // a distribution for each element
///     Tensor z = q.rsample(), kl = kl_divergence(q, distributions::Normal(0 * mean, ones_like(mean)));
///
///     distributions::Categorical policy = distributions::Categorical::from_logits(net(state));
///     Tensor action = policy.sample(), loss = -mean(policy.log_prob(action) * reward);
///
/// Parameters broadcast, and mixed floating types are promoted. Their common shape, without the classes of Categorical,
/// is the batch's. sample(shape) gives [shape..., batch...] without a gradient; rsample(shape) gives a sample with a
/// gradient (Kingma & Welling 2014). log_prob(value) broadcasts value with the batch. Values and parameters outside of
/// their range throw Error, and so do parameters that are NaN.
namespace fit::distributions {

/// The normal distribution with mean `loc` and standard deviation `scale` > 0.
class Normal {
 public:
  Normal(const Tensor& loc, const Tensor& scale);
  /// The parameters, broadcast.
  const Tensor& loc() const { return loc_; }
  const Tensor& scale() const { return scale_; }
  Tensor sample(const Shape& shape = {}, Generator& g = default_generator()) const;
  Tensor rsample(const Shape& shape = {}, Generator& g = default_generator()) const;  ///< loc + scale randn()
  Tensor log_prob(const Tensor& value) const;  ///< -((value - loc) / scale)^2 / 2 - ln(scale) - ln(2 pi) / 2
  Tensor entropy() const;                      ///< (1 + ln(2 pi)) / 2 + ln(scale)

 private:
  Tensor loc_, scale_;
};

/// The uniform distribution in [low, high), low < high; their difference is finite.
class Uniform {
 public:
  Uniform(const Tensor& low, const Tensor& high);
  /// The parameters, broadcast.
  const Tensor& low() const { return low_; }
  const Tensor& high() const { return high_; }
  Tensor sample(const Shape& shape = {}, Generator& g = default_generator()) const;
  /// low + (high - low) rand(); where that rounds to high, low.
  Tensor rsample(const Shape& shape = {}, Generator& g = default_generator()) const;
  Tensor log_prob(const Tensor& value) const;  ///< -ln(high - low); -inf outside (PyTorch: an error)
  Tensor entropy() const;                      ///< ln(high - low)

 private:
  Tensor low_, high_;
};

/// 1 with probability p, else 0, in the type of p.
class Bernoulli {
 public:
  explicit Bernoulli(const Tensor& probs);             ///< probabilities, in 0 … 1
  static Bernoulli from_logits(const Tensor& logits);  ///< ln(p / (1 - p))
  const Tensor& probs() const { return probs_; }       ///< the probabilities
  /// ln(p / (1 - p)), with p limited to eps … 1 - eps of its type unless given as logits.
  const Tensor& logits() const { return logits_; }
  Tensor sample(const Shape& shape = {}, Generator& g = default_generator()) const;
  Tensor log_prob(const Tensor& value) const;  ///< ln(p) for value 1, ln(1 - p) for 0
  /// -p ln(p) - (1 - p) ln(1 - p). The derivative ln((1 - p) / p) is finite at 0 and 1, too.
  Tensor entropy() const;

 private:
  Bernoulli(Tensor probs, Tensor logits) : probs_(std::move(probs)), logits_(std::move(logits)), from_logits_(true) {}
  friend Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q);
  Tensor probs_, logits_;
  bool from_logits_ = false;
};

/// The classes 0 … C - 1, int64. The last axis of the parameters has the classes.
class Categorical {
 public:
  explicit Categorical(const Tensor& probs);             ///< [..., C], not negative; divided by their sum
  static Categorical from_logits(const Tensor& logits);  ///< probabilities softmax(logits); a row of only -inf has none
  const Tensor& probs() const { return probs_; }         ///< the probabilities
  /// ln(probs), with probs limited to eps … 1 - eps of their type unless given as logits.
  const Tensor& logits() const { return logits_; }
  Tensor sample(const Shape& shape = {}, Generator& g = default_generator()) const;
  Tensor log_prob(const Tensor& value) const;  ///< ln(probs[..., value])
  Tensor entropy() const;  ///< -sum of p ln(p), with these logits for ln(p); a logit of -inf counts as 0

 private:
  Categorical(Tensor probs, Tensor logits) : probs_(std::move(probs)), logits_(std::move(logits)), from_logits_(true) {}
  friend Tensor kl_divergence(const Categorical& p, const Categorical& q);
  Tensor probs_, logits_;
  bool from_logits_ = false;
};

/// The Kullback-Leibler divergence of q from p, E_p[ln p - ln q], for each element of the batch; inf where q excludes
/// what p may give. Of a Bernoulli or Categorical by logits, only an infinite logit does, also where the probability
/// has rounded to 0 (PyTorch: inf there, too, such as beyond logits of 17).
Tensor kl_divergence(const Normal& p, const Normal& q);
Tensor kl_divergence(const Uniform& p, const Uniform& q);
Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q);
Tensor kl_divergence(const Categorical& p, const Categorical& q);

}  // namespace fit::distributions
