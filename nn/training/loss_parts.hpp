#pragma once
#include <string>

#include "fit/nn/dist/dist.hpp"
#include "tensor/loss_terms.hpp"

namespace fit {

/// The loss of a batch that is computed in parts: sum of w L / sum of w over all parts, where the loss L of a part is a
/// mean over w items. Losses that are sums are added.
class LossParts {
 public:
  LossParts() = default;
  /// Adds a part, and returns its w: 1 for a sum, 0 if nothing counts. A loss that says nothing is a mean over `rows`.
  /// Throws Error in the name of `op` if its terms don't fit those of the parts before.
  double add(const char* op, const Tensor& loss, double rows);
  /// The parts of all ranks. If they don't fit, throws the same Error on all.
  LossParts of_all_ranks(const char* op, dist::World& world) const;
  /// Whether any part counts.
  bool counts() const { return kind_ != Kind::none; }
  /// The loss; 0 if nothing counts.
  double loss() const;
  /// What the sum of the gradients of w L is divided by.
  double divisor() const { return counts() && kind_ != Kind::sum ? weight_ : 1; }

 private:
  // What a loss is: a mean over rows by default, one or more means, a sum, or terms that can't be weighted alike.
  enum class Kind { none, rows, mean, sum, mixed };

  LossParts(const Tensor& loss, double rows);
  bool fits(const LossParts& other) const;
  void join(const LossParts& other);
  std::string mismatch(const LossParts& other) const;
  std::string words() const;

  Kind kind_ = Kind::none;
  bool sum_ = false;  // a term is a sum
  int size_ = 0;
  double counts_[detail::LossTerms::max_counts] = {};  // of the terms of the first part
  double value_ = 0;                                   // its loss
  double weight_ = 0, total_ = 0;                      // the sums of w and of w L
  double parts_ = 0;
};

}  // namespace fit
