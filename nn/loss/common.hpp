#pragma once
#include "fit/nn/loss.hpp"
#include "fit/ops.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

inline Tensor reduced(const Tensor& losses, Reduction reduction) {
  return reduction == Reduction::none ? losses : reduction == Reduction::mean ? mean(losses) : sum(losses);
}

inline void check_pair(const char* op, const Tensor& input, const Tensor& target) {
  check::floating(op, "input", input);
  check::defined(op, "target", target);
  if (input.shape() != target.shape())
    check::fail(op, "input is ", input.shape(), ", target is ", target.shape(), ": they must be equal");
}

}  // namespace fit::nn
