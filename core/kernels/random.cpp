#include "kernels/random.hpp"

#include <algorithm>
#include <cmath>

namespace fit::kernels {

Dropout::Dropout(double probability, RandomKey k, std::int64_t first_number)
    : p(probability),
      key(k),
      first(first_number),
      limit(static_cast<std::uint32_t>(std::max(std::round(p * 0x1p32) - 1, 0.0))),
      kept(p < 1 ? 1 / (1 - p) : 0) {}

}  // namespace fit::kernels
