#pragma once
#include <vector>

#include "attention/expression.hpp"
#include "attention/score_program.hpp"

namespace fit::detail {

/// An expression as kernels take it, with its tables in W. wanted[t]: whether table t gets a gradient. The first
/// `skipped` keys and elements of the batch are left out of the call.
template <class W>
class LoweredScore {
 public:
  LoweredScore(const Expression& e, const std::vector<bool>& wanted, std::int64_t skipped_keys = 0,
               std::int64_t skipped_elements = 0);
  LoweredScore(LoweredScore&&) = default;  // keeps the steps where they are

  const kernels::ScoreProgram<W>* program() const { return &program_; }
  /// The offset of table t's gradient in the gradients of all tables; -1: table t gets none.
  std::int64_t gradient(std::size_t t) const { return gradients_[t]; }

 private:
  std::vector<Tensor> tables_;
  std::vector<std::int64_t> gradients_;
  std::vector<kernels::ScoreStep<W>> steps_;
  kernels::ScoreProgram<W> program_{};
};

}  // namespace fit::detail
