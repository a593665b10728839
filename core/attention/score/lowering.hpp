#pragma once
#include <vector>

#include "attention/kernel/score_program.hpp"
#include "attention/score/expression.hpp"

namespace fit::detail {

/// An expression as kernels take it, with its tables in W. wanted[t]: whether table t gets a gradient. A division by a
/// number becomes a product with its reciprocal.
template <class W>
class LoweredScore {
 public:
  LoweredScore(const Expression& e, const std::vector<bool>& wanted);
  LoweredScore(LoweredScore&&) = default;  // keeps the steps where they are

  const kernels::ScoreProgram<W>* program() const { return &program_; }
  /// The offset of table t's gradient in the gradients of all tables; -1: table t gets none.
  std::int64_t gradient(std::size_t t) const { return gradients_[t]; }

 private:
  using Step = kernels::ScoreStep<W>;
  Step& step(int k) { return steps_[static_cast<std::size_t>(k)]; }
  Step lowered(const Expression& e, const Expression::Step& from);
  void read_table(const Expression& e, const Expression::Step& from, Step& s);
  int argument(int a, Step& s);
  void spread_queries(Step& s);
  int append(const Step& s);
  int append_spread(int a);
  void place_numbers();

  std::vector<int> places_;  // of the expression's steps in steps_
  std::vector<Tensor> tables_;
  std::vector<std::int64_t> gradients_;
  std::vector<kernels::ScoreStep<W>> steps_;
  kernels::ScoreProgram<W> program_{};
};

}  // namespace fit::detail
