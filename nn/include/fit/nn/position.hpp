#pragma once
#include <cstdint>

#include "fit/tensor.hpp"

namespace fit::nn {

/// Sinusoidal positions (Vaswani et al. 2017), [T, C] float32: at position t
///     p[t][2i]     = sin(t / 10000^(2i / C))
///     p[t][2i + 1] = cos(t / 10000^(2i / C))
/// An odd C ends with a sine. Throws Error if T or C is negative.
Tensor sinusoidal_positions(std::int64_t T, std::int64_t C);

/// The table for rotary(), [T, D/2, 2] float64: cos and sin of t / base^(2i / D) for pair i at position t. D is even.
Tensor rotary_table(std::int64_t T, std::int64_t D, double base = 10000);

/// The slopes of attention with linear biases (Press et al. 2022), [H] float64, for AttentionOptions::alibi. If H is a
/// power of 2: 2^(-8/H), 2^(-16/H), … Otherwise, with P the largest power of 2 below H: the slopes for P, followed by
/// the 1st, 3rd, 5th … slope for 2P. Throws Error unless num_heads is in 1 … 2^20.
Tensor alibi_slopes(std::int64_t num_heads);
/// The bias that AttentionOptions::alibi adds to the scores: -slope |i + Sk - Sq - j|, (1, H, Sq, Sk).
Tensor alibi_bias(std::int64_t num_heads, std::int64_t queries, std::int64_t keys, DType dtype = float32);

}  // namespace fit::nn
