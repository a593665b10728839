#pragma once
#include <cstdint>

#include "fit/tensor.hpp"

namespace fit::nn {

/// Sinusoidal positions (Vaswani et al. 2017), [T, C] float32: at position t
///     p[t][2i]     = sin(t / 10000^(2i / C))
///     p[t][2i + 1] = cos(t / 10000^(2i / C))
/// An odd C ends with a sine. Throws Error if T or C is negative.
Tensor sinusoidal_positions(std::int64_t T, std::int64_t C);

}  // namespace fit::nn
