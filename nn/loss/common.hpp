#pragma once
#include <algorithm>

#include "base/acc_type.hpp"
#include "base/joined.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/ops/ops.hpp"
#include "kernels/rows/reduce.hpp"
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

/// Whether all numbers are in low … high. NaN is not. It stops behind the first block with another.
inline bool all_within(const Tensor& x, double low, double high) {
  constexpr std::int64_t block = 1 << 12;
  bool within = true;
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const p = x.data<T>().data();
    for (std::int64_t i = 0, n; i < x.numel() && within; i += n) {
      n = std::min(block, x.numel() - i);
      if constexpr (std::is_floating_point_v<T>) {
        double least = high, most = low;  // NaN wins
        kernels::reduce<T>().min(&least, p + i, nullptr, 1, n, n, 1);
        kernels::reduce<T>().max(&most, p + i, nullptr, 1, n, n, 1);
        within = least >= low && most <= high;
      } else {
        for (std::int64_t j = i; j < i + n; ++j)
          within &= static_cast<double>(p[j]) >= low && static_cast<double>(p[j]) <= high;
      }
    }
  });
  return within;
}

/// Throws Error if targets are below 0, by more than rounding. `cure` completes the message. NaN passes.
inline void check_probabilities(const char* op, const char* name, const Tensor& x, const char* cure) {
  bool negative = false;
  dispatch_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    constexpr auto least = static_cast<AccT<T>>(-1e-6);
    for (const T v : x.data<T>()) negative |= static_cast<AccT<T>>(v) < least;
  });
  if (negative) check::fail(op, name, " has negative numbers: it must be probabilities", cure);
}

/// Throws Error for probabilities where their logarithms are wanted.
inline void check_log_probabilities(const char* op, const Tensor& input, const char* note) {
  // A logarithm may round to a little above 0.
  if (input.numel() > 0 && all_within(input, 0, 1) && !all_within(input, 0, 1e-6))
    check::fail(op,
                "input has numbers between 0 and 1 only: it must be log probabilities, log_softmax(logits) or log(p)",
                note);
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
