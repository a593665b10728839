// Alone in a file: xtensor-blas takes long to compile.
#include "plot/principal_axes.hpp"

#include <algorithm>
#include <cmath>
#include <xtensor-blas/xlinalg.hpp>

#include "fit/ops.hpp"
#include "fit/xtensor.hpp"

namespace fit::plot {

PrincipalAxes principal_axes(const Tensor& a, std::int64_t count) {
  // Of a tall matrix the vectors are those of a' a, which is small; its singular values are the squares.
  const bool tall = a.size(0) > a.size(1);
  const Tensor from = tall ? matmul(a.transpose(0, 1), a) : a;
  const auto m = static_cast<std::size_t>(from.size(0)), n = static_cast<std::size_t>(from.size(1));
  const std::vector<double> values = from.to_vector<double>();
  const auto view = xt::adapt(values.data(), m * n, xt::no_ownership(), std::array<std::size_t, 2>{m, n});
  const auto [u, s, vt] = xt::linalg::svd(view, false, true);
  PrincipalAxes p;
  for (std::size_t i = 0; i < s.size(); ++i) p.squares.push_back(tall ? s(i) : s(i) * s(i));
  for (std::size_t k = 0; k < std::min(static_cast<std::size_t>(count), s.size()); ++k) {
    std::vector<double> axis;
    for (std::size_t j = 0; j < n; ++j) axis.push_back(vt(k, j));
    const auto largest =
        std::max_element(axis.begin(), axis.end(), [](double x, double y) { return std::abs(x) < std::abs(y); });
    if (*largest < 0)
      for (double& v : axis) v = -v;
    p.axes.push_back(std::move(axis));
  }
  return p;
}

}  // namespace fit::plot
