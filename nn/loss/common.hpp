#pragma once
#include "base/joined.hpp"
#include "fit/nn/loss.hpp"
#include "fit/ops.hpp"
#include "ops/precision.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit::nn {

inline Tensor reduced(const Tensor& losses, Reduction reduction) {
  return reduction == Reduction::none ? losses : reduction == Reduction::mean ? mean(losses) : sum(losses);
}

/// Whether all numbers are in low … high. NaN is not.
inline bool all_within(const Tensor& x, double low, double high) {
  bool within = true;
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (const T v : x.data<T>()) within &= static_cast<double>(v) >= low && static_cast<double>(v) <= high;
  });
  return within;
}

inline void check_pair(const char* op, const Tensor& input, const Tensor& target) {
  check::floating(op, "input", input);
  check::defined(op, "target", target);
  if (input.shape() != target.shape())
    check::fail(op, "input is ", input.shape(), ", target is ", target.shape(), ": they must be equal");
}

/// The text of a weight tensor in describe().
inline std::string weight_of(const char* name, const Tensor& weight) {
  return weight.defined() ? joined(name, '=', weight.shape(), ", ") : std::string();
}

}  // namespace fit::nn
