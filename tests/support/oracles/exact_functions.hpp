#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// The functions of one number with their first and second derivatives, as references: in double for float32, in long
// double for float64, whose errors are far below a unit of the type. Arguments are finite.
namespace fit::test::exact {

/// y[i] = f(x[i]) for i < n.
template <class R>
using Plain = std::function<void(const R* x, R* y, std::int64_t n)>;

struct Function {
  std::string name;
  std::vector<Plain<double>> narrow;     // value, first and second derivative
  std::vector<Plain<long double>> wide;  // the same

  template <class R>
  const Plain<R>& order(std::size_t n) const {
    if constexpr (sizeof(R) == sizeof(double))
      return narrow[n];
    else
      return wide[n];
  }
};

/// x^e, for an e in eighths.
Function power(double e, std::string name);
std::vector<Function> transcendental();
std::vector<Function> piecewise();

}  // namespace fit::test::exact
