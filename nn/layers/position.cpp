#include "fit/nn/position.hpp"

#include <cmath>

#include "attention/attend.hpp"
#include "fit/ops.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

Tensor sinusoidal_positions(std::int64_t T, std::int64_t C) {
  if (T < 0 || C < 0) check::fail("sinusoidal_positions", "T is ", T, ", C is ", C, ": neither may be negative");
  Tensor positions = Tensor::empty({T, C});
  auto* p = positions.fresh<float>();
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t c = 0; c < C; ++c) {
      const double pair = static_cast<double>(c - c % 2);
      const double angle = static_cast<double>(t) * std::pow(10000.0, -pair / static_cast<double>(C));
      p[t * C + c] = static_cast<float>(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  return positions;
}

Tensor rotary_table(std::int64_t T, std::int64_t D, double base) {
  constexpr const char* op = "rotary_table";
  if (T < 0 || D < 0 || D % 2 != 0)
    check::fail(op, "T is ", T, ", D is ", D, ": neither may be negative, and D must be even");
  if (!(base > 0)) check::fail(op, "base is ", base, ": it must be positive");
  Tensor table = Tensor::empty({T, D / 2, 2}, float64);
  auto* to = table.fresh<double>();
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t i = 0; i < D / 2; ++i) {
      const double angle =
          static_cast<double>(t) * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(D));
      *to++ = std::cos(angle);
      *to++ = std::sin(angle);
    }
  return table;
}

Tensor alibi_slopes(std::int64_t num_heads) {
  constexpr std::int64_t most = 1 << 20;
  if (num_heads < 1 || num_heads > most)
    check::fail("alibi_slopes", "num_heads is ", num_heads, ": it must be in 1 … ", most);
  std::int64_t power = 1;
  while (2 * power <= num_heads) power *= 2;
  std::vector<double> slopes;
  const auto add = [&](std::int64_t i, std::int64_t of) {
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(of)));
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
