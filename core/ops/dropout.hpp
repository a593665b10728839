#pragma once
#include "fit/ops.hpp"

namespace fit {

/// dropout() as call `call` under `seed` of a generator: the same elements are dropped each time. It is linear in x, so
/// it is its own adjoint: no mask is stored. The first element of x counts as number `first`.
Tensor dropout_at(const Tensor& x, double p, std::uint64_t seed, std::uint64_t call, std::int64_t first);

}  // namespace fit
