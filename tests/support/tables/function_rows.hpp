#pragma once
#include <vector>

#include "kernels/function_list.hpp"
#include "support/tables/op_table.hpp"

/// The unary functions of kernels/functions.hpp, one row each in tests/core/rows/ops_functions.cpp. A row brings the
/// checks of the operation (op_table.hpp), of the kernels against the reference, and of accuracy (docs/accuracy.md).
namespace fit::test {

struct FunctionRow {
  using Plain = long double (*)(long double);
  using LeastSize = double (*)(double x);

  const char* name;  // in docs/accuracy.md
  const char* op;
  const kernels::Function& kernel;
  Tensor (*f)(const Tensor& x);
  Domain domain;            // without kinks, for gradients by finite differences
  Plain value, derivative;  // the derivative has the kernel's argument: x, or the value of the function
  double parameter = 0;
  /// The min magnitude at x for the error of a derivative in units in the last place.
  LeastSize derivative_size = [](double) { return 0.; };
  double units = 4;  // allowed if docs/accuracy.md has no line
};

const std::vector<FunctionRow>& function_rows();

/// The allowed error in units in the last place, for "value" or "dx".
template <class T>
double allowed_units(const FunctionRow& row, const char* quantity);

}  // namespace fit::test
