#include "fit/nn/layers/position.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "attention/attend.hpp"
#include "common/functions.hpp"
#include "fit/ops/ops.hpp"
#include "layers/layer_options.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

namespace {

// The multiples 0 … T - 1 of angles, [T, angles], float64.
Tensor angles_at(std::int64_t T, const std::vector<double>& angles) {
  const auto n = static_cast<std::int64_t>(angles.size());
  return reshape(arange(T).to(float64), {T, 1}) * tensor(angles, {1, n});
}

}  // namespace

Tensor sinusoidal_positions(std::int64_t T, std::int64_t C) {
  if (T < 0 || C < 0) check::fail("sinusoidal_positions", "T is ", T, ", C is ", C, ": neither may be negative");
  std::vector<double> angles;
  for (std::int64_t c = 0; c < C; c += 2)
    angles.push_back(number::pow(10000.0, -static_cast<double>(c) / static_cast<double>(C)));
  const Tensor at = angles_at(T, angles);
  return slice(reshape(stack({sin(at), cos(at)}, -1), {T, 2 * at.size(1)}), 1, 0, C).to(float32);
}

namespace {

// The angle of pair i at position 1, for R rotated features.
std::vector<double> angles(std::int64_t R, const RotaryTableOptions& o) {
  const double features = static_cast<double>(R);
  const double turn = 2 * 3.14159265358979323846, length = static_cast<double>(o.original_length());
  const bool ntk = o.scaling() == RotaryScaling::ntk && R > 2;
  const double base = ntk ? o.base() * number::pow(o.factor(), features / (features - 2)) : o.base();
  const double fast = beta_fast(o), slow = o.beta_slow();
  // The pair that turns so often in original_length.
  const auto pair_of = [&](double turns) {
    return features * number::log(length / (turns * turn)) / (2 * number::log(base));
  };
  double low = 0, high = 0;
  if (o.scaling() == RotaryScaling::yarn) {
    low = pair_of(fast), high = pair_of(slow);
    if (o.truncate()) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.), high = std::min(high, features - 1);
    if (low == high) high += 0.001;
  }
  std::vector<double> all;
  for (std::int64_t i = 0; i < R / 2; ++i) {
    const double angle = number::pow(base, -2.0 * static_cast<double>(i) / features);
    double slowed = 0;  // how much of the angle is divided by the factor
    if (o.scaling() == RotaryScaling::linear) slowed = 1;
    if (o.scaling() == RotaryScaling::yarn) slowed = (static_cast<double>(i) - low) / (high - low);
    if (o.scaling() == RotaryScaling::llama3) slowed = (fast - length * angle / turn) / (fast - slow);
    slowed = std::clamp(slowed, 0., 1.);
    all.push_back(slowed == 0 ? angle : angle / o.factor() * slowed + angle * (1 - slowed));
  }
  return all;
}

// The length of (cos, sin): Peng et al. 2023, and Hugging Face's rope_scaling.
double length_of(const RotaryTableOptions& o) {
  if (o.scaling() != RotaryScaling::yarn) return 1;
  if (o.mscale().has_value() != o.mscale_all_dim().has_value())
    check::fail("rotary_table", o.mscale() ? "mscale" : "mscale_all_dim",
                " is given alone: give mscale and "
                "mscale_all_dim, or neither");
  const std::pair<const char*, std::optional<double>> given[] = {
      {"attention_factor", o.attention_factor()}, {"mscale", o.mscale()}, {"mscale_all_dim", o.mscale_all_dim()}};
  for (const auto& [name, value] : given)
    if (value && !(*value > 0 && std::isfinite(*value)))
      check::fail("rotary_table", name, " is ", *value, ": it must be positive and finite");
  if (o.attention_factor()) return *o.attention_factor();
  const auto m = [&](double scale) { return o.factor() > 1 ? 0.1 * scale * number::log(o.factor()) + 1 : 1; };
  return o.mscale() ? m(*o.mscale()) / m(*o.mscale_all_dim()) : m(1);
}

}  // namespace

Tensor rotary_table(std::int64_t T, std::int64_t D, double base) {
  return rotary_table(T, D, RotaryTableOptions().base(base));
}

Tensor rotary_table(std::int64_t T, std::int64_t D, const RotaryTableOptions& o) {
  constexpr const char* op = "rotary_table";
  if (T < 0 || D < 0 || D % 2 != 0)
    check::fail(op, "T is ", T, ", D is ", D, ": neither may be negative, and D must be even");
  if (!(o.base() > 0)) check::fail(op, "base is ", o.base(), ": it must be positive");
  if (o.features() < 0 || o.features() > D || o.features() % 2 != 0)
    check::fail(op, "features is ", o.features(), ", D is ", D, ": it must be even and in 0 … D");
  if (!(o.factor() > 0) || std::isinf(o.factor()))
    check::fail(op, "factor is ", o.factor(), ": it must be positive and finite");
  if (o.factor() != 1 && o.scaling() == RotaryScaling::none)
    check::fail(op, "factor is ", o.factor(),
                ", and scaling is none: set the scaling that it is the factor of, such as ", "RotaryScaling::linear");
  const bool yarn = o.scaling() == RotaryScaling::yarn;
  const double fast = beta_fast(o), slow = o.beta_slow();
  const bool fits = o.original_length() > 0 && slow > 0 && fast > slow && std::isfinite(fast);
  if ((yarn || o.scaling() == RotaryScaling::llama3) && !fits)
    check::fail(op, "original_length is ", o.original_length(), ", beta_fast ", fast, ", beta_slow ", slow, ": ",
                yarn ? "yarn" : "llama3", " needs a positive length, and finite beta_fast > beta_slow > 0");
  const std::vector<double> angle = angles(o.features() == 0 ? D : o.features(), o);
  const double length = length_of(o);
  const Tensor at = angles_at(T, angle), rotating = stack({cos(at), sin(at)}, -1) * length;
  const Shape fixed{T, D / 2 - at.size(1), 2};  // the features that are not rotated
  return cat({rotating, broadcast_to(tensor({1., 0.}, float64), fixed)}, 1);
}

Tensor alibi_slopes(std::int64_t num_heads) {
  constexpr std::int64_t most = 1 << 20;
  if (num_heads < 1 || num_heads > most)
    check::fail("alibi_slopes", "num_heads is ", num_heads, ": it must be in 1 … ", most);
  std::int64_t power = 1;
  while (2 * power <= num_heads) power *= 2;
  std::vector<double> slopes;
  const auto add = [&](std::int64_t i, std::int64_t of) {
    slopes.push_back(number::pow(2, -8.0 * static_cast<double>(i) / static_cast<double>(of)));
  };
  for (std::int64_t i = 1; i <= power; ++i) add(i, power);
  for (std::int64_t i = 1; power + (i + 1) / 2 <= num_heads; i += 2) add(i, 2 * power);
  return tensor(slopes, {num_heads});
}

Tensor alibi_bias(std::int64_t num_heads, std::int64_t queries, std::int64_t keys, DType dtype) {
  if (queries < 0 || keys < 0)
    check::fail("alibi_bias", "queries is ", queries, ", keys is ", keys, ": neither may be negative");
  return fit::detail::alibi_bias(alibi_slopes(num_heads), queries, keys, dtype);
}

}  // namespace fit::nn
