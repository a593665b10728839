#include "fit/nn/layer/init.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/functions.hpp"
#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit::nn::init {
namespace {

thread_local bool skipping = false;

struct Fans {
  double in, out;
};

Fans fans(const char* op, const Tensor& t) {
  if (t.rank() < 2)
    check::fail(op, "the tensor has shape ", t.shape(), ": fan in and fan out need two axes or more, [out, in, ...]");
  double field = 1;
  for (int axis = 2; axis < t.rank(); ++axis) field *= static_cast<double>(t.size(axis));
  return {field * static_cast<double>(t.size(1)), field * static_cast<double>(t.size(0))};
}

double kaiming_std(const char* op, const Tensor& t, double a, Fan fan, Nonlinearity nonlinearity) {
  const Fans f = fans(op, t);
  return gain(nonlinearity, a) / std::sqrt(std::max(1.0, fan == Fan::in ? f.in : f.out));
}

double xavier_std(const char* op, const Tensor& t, double gain) {
  const Fans f = fans(op, t);
  return gain * std::sqrt(2 / std::max(1.0, f.in + f.out));
}

Tensor overwrite(const char* op, Tensor t, const Tensor& values) {
  check::floating(op, "the tensor", t);
  const NoGrad no_grad;
  t.copy_(values);
  return t;
}

// The x with erf(x) = y: Newton's method, starting at Winitzki's approximation.
double inverse_erf(double y) {
  if (std::abs(y) >= 1) return std::copysign(INFINITY, y);
  const double l = number::log((1 - y) * (1 + y)), b = 2 / (M_PI * 0.147) + l / 2;
  double x = std::copysign(std::sqrt(std::sqrt(b * b - l / 0.147) - b), y);
  for (int i = 0; i < 3; ++i) x -= (number::erf(x) - y) / (M_2_SQRTPI * number::exp(-x * x));
  return x;
}

}  // namespace

Skip::Skip() : Scoped(skipping, true) {}

double gain(Nonlinearity nonlinearity, double negative_slope) {
  switch (nonlinearity) {
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid:
      return 1;
    case Nonlinearity::tanh:
      return 5.0 / 3;
    case Nonlinearity::relu:
      return std::sqrt(2.0);
    case Nonlinearity::leaky_relu:
      return std::sqrt(2 / (1 + negative_slope * negative_slope));
    case Nonlinearity::selu:
      return 0.75;
  }
  check::fail("gain", "there is no such nonlinearity");
}

Tensor constant_(Tensor t, Scalar value) {
  if (skipping) return t;
  const NoGrad no_grad;
  return t.fill_(value);
}

Tensor zeros_(Tensor t) { return constant_(std::move(t), 0); }
Tensor ones_(Tensor t) { return constant_(std::move(t), 1); }

Tensor uniform_(Tensor t, double low, double high, Generator& g) {
  if (!(low <= high)) check::fail("uniform_", "low is ", low, ", high is ", high, ": low must not be above high");
  if (skipping) return t;
  const NoGrad no_grad;
  fit::detail::fill_uniform("uniform_", t, low, high, g);
  return t;
}

Tensor normal_(Tensor t, double mean, double std, Generator& g) {
  check::not_negative("normal_", "std", std);
  if (skipping) return t;
  const NoGrad no_grad;
  fit::detail::fill_normal("normal_", t, mean, std, g);
  return t;
}

Tensor trunc_normal_(Tensor t, double mean, double std, double low, double high, Generator& g) {
  if (!(std > 0) || !(low < high))
    check::fail("trunc_normal_", "std is ", std, ", low ", low, ", high ", high,
                ": std must be above 0, and low below high");
  if (skipping) return t;
  // Inverts the distribution function at numbers that are uniform between its values at low and high.
  const double from = number::erf((low - mean) / std * M_SQRT1_2), to = number::erf((high - mean) / std * M_SQRT1_2);
  constexpr double least = 1e-9;  // a double has seven digits of such a difference near 1
  if (to - from < least)
    check::fail("trunc_normal_", "the normal distribution with mean ", mean, " and std ", std, " is in ", low, " … ",
                high, " with a probability below ", least, ": take other bounds");
  Tensor values = rand(t.shape(), float64, g);
  for (double& v : values.edit<double>())
    v = std::clamp(mean + std * M_SQRT2 * inverse_erf(from + (to - from) * v), low, high);
  return overwrite("trunc_normal_", std::move(t), values);
}

Tensor xavier_uniform_(Tensor t, double gain, Generator& g) {
  const double bound = std::sqrt(3.0) * xavier_std("xavier_uniform_", t, gain);
  return uniform_(std::move(t), -bound, bound, g);
}

Tensor xavier_normal_(Tensor t, double gain, Generator& g) {
  const double std = xavier_std("xavier_normal_", t, gain);
  return normal_(std::move(t), 0, std, g);
}

Tensor kaiming_uniform_(Tensor t, double a, Fan fan, Nonlinearity nonlinearity, Generator& g) {
  const double bound = std::sqrt(3.0) * kaiming_std("kaiming_uniform_", t, a, fan, nonlinearity);
  return uniform_(std::move(t), -bound, bound, g);
}

Tensor kaiming_normal_(Tensor t, double a, Fan fan, Nonlinearity nonlinearity, Generator& g) {
  const double std = kaiming_std("kaiming_normal_", t, a, fan, nonlinearity);
  return normal_(std::move(t), 0, std, g);
}

Tensor orthogonal_(Tensor t, double gain, Generator& g) {
  if (t.rank() < 2) check::fail("orthogonal_", "the tensor has shape ", t.shape(), ": it needs two axes or more");
  const std::int64_t rows = t.size(0), columns = rows == 0 ? 0 : t.numel() / rows;
  if (skipping || t.numel() == 0) return t;
  const bool wide = rows < columns;
  const NoGrad no_grad;
  // q of a tall normal matrix is uniformly distributed over orthogonal matrices if the diagonal of r is positive.
  const auto [q, r] = qr(randn(wide ? Shape{columns, rows} : Shape{rows, columns}, float64, g));
  const Tensor uniform = q * (1 - 2 * (diagonal(r) < 0).to(float64));
  return overwrite("orthogonal_", t, reshape(wide ? transpose(uniform) : uniform, t.shape()) * gain);
}

}  // namespace fit::nn::init
