#pragma once
#include "fit/tensor/tensor.hpp"

// A loss says of how many items it is the mean, so that the parts of a batch can be joined as sum of w L / sum of w.
// The functions of nn/loss say so of their results. record() passes it on to the numbers that are computed from them,
// also under NoGrad.
namespace fit::detail {

/// What the terms of a loss are. Tensors share it, so it never changes.
struct LossTerms {
  static constexpr int max_counts = 4;
  Atomic<std::uint32_t> refs{1};
  bool sum = false;                // a term is a sum
  bool many = false;               // there are more counts than max_counts
  int size = 0;                    // of counts
  double counts[max_counts] = {};  // the numbers of items over which terms are means: each once, as they appeared
};

/// Says that y, a new tensor, is a mean over `count` items, or a sum. It replaces what was known of y.
void set_loss_mean(const Tensor& y, double count);
void set_loss_sum(const Tensor& y);
/// What is known of x; null for nothing.
inline const LossTerms* loss_terms(const Tensor& x) { return x.defined() ? x.impl()->loss_terms : nullptr; }

void free_loss_terms(LossTerms* terms) noexcept;

}  // namespace fit::detail
