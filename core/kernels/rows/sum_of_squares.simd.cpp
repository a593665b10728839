#include "kernels/rows/sum_of_squares.hpp"

namespace fit::kernels {
namespace {

template <class T>
double squares(const T* x, std::int64_t n) {
  constexpr int lanes = 16;
  double sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int k = 0; k < lanes; ++k) sums[k] += static_cast<double>(x[i + k]) * static_cast<double>(x[i + k]);
  for (int k = 0; i < n; ++i, ++k) sums[k] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  double total = 0;
  for (const double s : sums) total += s;
  return total;
}

}  // namespace

template <class IsaTag, class T>
SumOfSquares<T> sum_of_squares_of() {
  return squares<T>;
}
template SumOfSquares<float> sum_of_squares_of<FIT_ISA, float>();
template SumOfSquares<double> sum_of_squares_of<FIT_ISA, double>();

}  // namespace fit::kernels
