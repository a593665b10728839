#pragma once
#include <cstdint>

#include "fit/tensor.hpp"

namespace fit::nn {

/// Sinusoidal positions (Vaswani et al. 2017), [T, C] float32: at position t
///     p[t][2i]     = sin(t / 10000^(2i / C))
///     p[t][2i + 1] = cos(t / 10000^(2i / C))
/// An odd C ends with a sine. Throws Error if T or C is negative.
Tensor sinusoidal_positions(std::int64_t T, std::int64_t C);

/// What rotary() turns by, [T, D/2, 2] float64: cos and sin of t / base^(2i / D) for pair i at position t. D is even.
Tensor rotary_table(std::int64_t T, std::int64_t D, double base = 10000);

/// The slopes of attention with linear biases (Press et al. 2022), [H] float64: 2^(-8/H), 2^(-16/H), … where H is a
/// power of 2; else those of the power below, and between them as many as are missing of the power above. They are what
/// AttentionOptions::alibi takes. Throws Error unless num_heads is in 1 … 2^20.
Tensor alibi_slopes(std::int64_t num_heads);
/// What AttentionOptions::alibi adds to the scores, as a bias: -slope |i + Sk - Sq - j|, (1, H, Sq, Sk).
Tensor alibi_bias(std::int64_t num_heads, std::int64_t queries, std::int64_t keys, DType dtype = float32);

}  // namespace fit::nn
