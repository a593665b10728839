#pragma once
#include <vector>

#include "fit/tensor.hpp"

namespace fit::plot {

// The right singular vectors of a [m, n] float64 matrix that belong to its `count` largest singular values, row by row,
// and the squares of all its singular values, the largest first.
struct PrincipalAxes {
  std::vector<std::vector<double>> axes;
  std::vector<double> squares;
};
PrincipalAxes principal_axes(const Tensor& a, std::int64_t count);

}  // namespace fit::plot
