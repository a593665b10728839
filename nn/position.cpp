#include "fit/nn/position.hpp"

#include <cmath>

#include "check.hpp"

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

}  // namespace fit::nn
