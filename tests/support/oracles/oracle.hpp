#pragma once
#include <string>
#include <vector>

#include "fit/tensor/tensor.hpp"
#include "support/callable.hpp"

/// The column "xtensor" of the table of operations (op_table.hpp): what xtensor, xt::linalg (LAPACK) or cblas compute
/// in place of a row's function. No one of this project wrote them. xtensor_oracle_test.cpp compares. A family is in
/// oracles_<family>.cpp, as xtensor takes long to compile:
///
///     static std::vector<Oracle> arithmetic() {
///       return {
///           {"exp", [](const auto& in) { return xt::exp(in[0]); }},  // the row's name, and the same in xtensor
///       };
///     }
///     static const RegisterOracles arithmetic_oracles(arithmetic);
namespace fit::test {

struct Oracle {
  using Function = Callable<std::vector<Tensor>(const std::vector<Tensor>&)>;

  /// f takes the inputs as float64 arrays. It returns an expression, a number, or a vector of arrays
  /// (xtensor_oracle.hpp).
  template <class F>
  Oracle(std::string row, F f);

  /// The allowed difference in units of the type's epsilon, relative to 1 + |value|. The default is 4.
  Oracle within(double most) && { return units = most, std::move(*this); }
  /// xtensor does not do it for tensors without elements, or does it otherwise.
  Oracle not_empty() && { return empty = false, std::move(*this); }

  std::string row;
  Function f;
  double units = 4;
  bool empty = true;
};

/// A static object of this type adds a family to the column.
struct RegisterOracles {
  explicit RegisterOracles(std::vector<Oracle> (*family)());
};

}  // namespace fit::test
