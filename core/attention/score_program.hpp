#pragma once
#include <cstdint>

#include "fit/detail/symbol_op.hpp"

// A function of the scores as kernels compute it: a list of steps over the keys of a row. score_lowering.cpp makes it
// of an Expression.
namespace fit::kernels {

/// constant + batch b + head h + query place + key j
struct PairForm {
  std::int64_t constant = 0, batch = 0, head = 0, query = 0, key = 0;
  [[gnu::always_inline]] std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t place, std::int64_t j) const {
    return constant + batch * b + head * h + query * place + key * j;
  }
};

/// An index of a table: a form, or the value of a step.
struct ScoreIndex {
  bool linear;
  PairForm form;
  int step;
  std::int64_t size, stride;
};

/// Integers and conditions (0 or 1) are numbers of W, too.
template <class W>
struct ScoreStep {
  static constexpr int max_axes = 4;
  detail::SymbolOp op{};
  bool linear = false;          // its value is `form`
  bool integer = false;         // a / b is rounded down
  bool varies = false;          // within a head; otherwise it is computed once for a head
  bool differentiable = false;  // its gradient is wanted
  int args[3] = {};             // earlier steps
  W number = 0;                 // of a number, and the exponent of pow
  PairForm form;
  // A lookup. gradient: where its table's gradient begins, or -1.
  const W* table = nullptr;
  int axes = 0;
  bool linear_indices = false;
  ScoreIndex index[max_axes] = {};
  std::int64_t gradient = -1;
  // For a unary function: its kernels in FunctionKernels; otherwise null.
  void (*forward)(W*, const W*, std::int64_t, W) = nullptr;
  void (*backward)(W*, const W*, const W*, std::int64_t, W) = nullptr;
  bool from_output = false;
};

template <class W>
struct ScoreProgram {
  const ScoreStep<W>* steps;  // the last is the result
  int count;
  std::int64_t gradients;  // numbers in the gradients of all tables
};

}  // namespace fit::kernels
