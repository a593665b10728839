#pragma once
#include <cstdint>

namespace fit::detail {

/// The key of the random numbers of one call: element i depends on (seed, call, i) only.
struct RandomKey {
  std::uint64_t seed, call;
};

}  // namespace fit::detail
