#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/tensor.hpp"

// Inputs for tests, and comparisons of results.
namespace fit::test {

inline constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();

inline RotaryOptions rotary_options(RotaryLayout layout, std::int64_t features = -1, std::int64_t offset = 0) {
  return RotaryOptions().layout(layout).features(features).offset(offset);
}

/// A distribution of inputs: uniform in low … high, at least 0.05 away from each point in `avoid` (kinks).
struct Domain {
  double low = -2, high = 2;
  std::vector<double> avoid = {};
  bool distinct = false;  ///< no two elements of one tensor are close to each other
  friend bool operator==(const Domain& a, const Domain& b) {
    return a.low == b.low && a.high == b.high && a.avoid == b.avoid && a.distinct == b.distinct;
  }
};

namespace domain {
inline const Domain real{};
inline const Domain positive{0.3, 2.5};
inline const Domain unit{-0.9, 0.9};
inline const Domain nonzero{-2, 2, {0}};
inline const Domain distinct{-2, 2, {}, true};
}  // namespace domain

/// Draws values that float32 represents exactly, so that both precisions compute with the same numbers.
inline Tensor random_tensor(const Shape& shape, const Domain& d, std::mt19937_64& random, DType dtype = float64) {
  const std::int64_t n = shape.numel();
  std::vector<double> values(static_cast<std::size_t>(n));
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double cell = (d.high - d.low) / static_cast<double>(n);
    double v;
    do {
      v = d.distinct ? d.low + cell * (static_cast<double>(i) + uniform(0.25, 0.75)) : uniform(d.low, d.high);
    } while (std::any_of(d.avoid.begin(), d.avoid.end(), [&](double a) { return std::abs(v - a) < 0.05; }));
    values[i] = static_cast<float>(v);
  }
  if (d.distinct)
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
  Tensor x = Tensor::empty(shape, float64);
  std::copy(values.begin(), values.end(), x.fresh<double>());
  return x.to(dtype);
}

/// A fixed random tensor with the shape and type of x.
inline Tensor random_like(const Tensor& x) {
  std::mt19937_64 random(5);
  return random_tensor(x.shape(), domain::real, random, x.dtype());
}

/// The elements of a tensor of any type, in row-major order.
inline std::vector<double> values(const Tensor& x) {
  const NoGrad no_grad;
  return x.to(float64).to_vector<double>();
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), static_cast<std::size_t>(a.numel() * size_of(a.dtype()))) == 0;
}

/// The max of |a - b| / (1 + |b|) over the elements; infinity if the shapes differ or only one of two numbers is NaN.
inline double max_difference(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return std::numeric_limits<double>::infinity();
  const NoGrad no_grad;
  const Tensor x = a.to(float64), y = b.to(float64);
  double worst = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double u = x.data<double>()[i], v = y.data<double>()[i];
    if (u == v || (std::isnan(u) && std::isnan(v))) continue;
    const double off = std::abs(u - v) / (1 + std::abs(v));
    worst = std::max(worst, std::isfinite(off) ? off : std::numeric_limits<double>::infinity());
  }
  return worst;
}

}  // namespace fit::test
