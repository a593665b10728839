#pragma once
#include "fit/ops/ops.hpp"

namespace fit {

/// batch_norm() by the statistics of the batch, and these.
struct BatchNormalised {
  Tensor y;
  Tensor mean, var;  ///< [C], without gradient; var has the correction 1
};
BatchNormalised batch_norm_and_statistics(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps);

}  // namespace fit
