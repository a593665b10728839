#pragma once
#include <string>

#include "fit/nn/layer/layer.hpp"
#include "fit/tensor/random.hpp"

namespace fit::nn {

/// In training, sets each element to 0 with probability p, and divides the others by 1 - p (Srivastava et al. 2014). In
/// evaluation, returns x itself.
class Dropout final : public UnaryLayer {
 public:
  /// `generator` must outlive the layer.
  explicit Dropout(double p = 0.5, Generator& generator = default_generator());
  Tensor forward(const Tensor& x) const override;
  FIT_FIELDS_DECLARED
  std::string describe() const override;
  /// The probability of a 0.
  double p() const { return p_; }

 private:
  double p_;
  Generator* generator_;
};

}  // namespace fit::nn
