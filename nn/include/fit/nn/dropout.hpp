#pragma once
#include <memory>
#include <string>

#include "fit/nn/layer.hpp"
#include "fit/random.hpp"

namespace fit::nn {

/// In training, each element is 0 with probability p, and what survives is divided by 1 - p (Srivastava et al. 2014);
/// in evaluation, x itself.
class Dropout final : public UnaryLayer {
 public:
  /// A generator other than the default one must outlive the layer.
  explicit Dropout(double p = 0.5, Generator& generator = default_generator());
  Tensor forward(const Tensor& x) const override;
  FIT_FIELDS()
  std::string describe() const override;
  /// The probability.
  double p() const { return p_; }

 private:
  double p_;
  Generator* generator_;
};

}  // namespace fit::nn
