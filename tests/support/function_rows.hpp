#pragma once
#include <vector>

#include "kernels/functions.hpp"
#include "support/op_table.hpp"

/// The functions of one number that kernels/functions.hpp states: one row each, in tests/core/ops_functions.cpp. From a
/// row follow the checks of the operation (op_table.hpp), those of the kernels against the plain form, and those of
/// accuracy where docs/accuracy.md has a line.
namespace fit::test {

struct FunctionRow {
  using Plain = long double (*)(long double);
  using LeastSize = double (*)(double x);

  const char* name;  // as docs/accuracy.md has it
  const char* op;
  kernels::Function kernel;
  Tensor (*f)(const Tensor& x);
  Domain domain;            // for gradients against differences: away from kinks
  Plain value, derivative;  // the derivative as the kernel takes it: from the value if that is what it is computed from
  double parameter = 0;
  /// Units in the last place of a derivative count for numbers of at least this size, at x.
  LeastSize derivative_size = [](double) { return 0.; };
  double units = 4;  // allowed where docs/accuracy.md has no line
};

const std::vector<FunctionRow>& function_rows();

/// In units in the last place, for "value" or "dx".
template <class T>
double allowed_units(const FunctionRow& row, const char* quantity);

}  // namespace fit::test
