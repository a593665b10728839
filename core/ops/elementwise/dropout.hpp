#pragma once
#include "fit/ops/ops.hpp"

namespace fit {

/// dropout() with the random numbers of call `call` under `seed`: each call drops the same elements. It is linear in x,
/// so it is its own adjoint and stores no mask. `first` is the number of x's first element.
Tensor dropout_at(const Tensor& x, double p, std::uint64_t seed, std::uint64_t call, std::int64_t first);

}  // namespace fit
