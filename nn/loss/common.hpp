#pragma once
#include "base/joined.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/ops/ops.hpp"
#include "ops/common/precision.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"
#include "tensor/loss_terms.hpp"

namespace fit::nn {

/// `loss`, a new tensor, which then says that it is a sum, or a mean over `count` items.
inline Tensor stated(Tensor loss, Reduction reduction, double count) {
  if (reduction == Reduction::mean)
    fit::detail::set_loss_mean(loss, count);
  else if (reduction == Reduction::sum)
    fit::detail::set_loss_sum(loss);
  return loss;
}

inline Tensor reduced(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return stated(reduction == Reduction::mean ? mean(losses) : sum(losses), reduction,
                static_cast<double>(losses.numel()));
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
