#pragma once
#include <cstdint>
#include <optional>

#include "fit/base/option.hpp"
#include "fit/tensor/tensor.hpp"

namespace fit::nn {

/// Sinusoidal positions (Vaswani et al. 2017), [T, C] float32: at position t
///     p[t][2i]     = sin(t / 10000^(2i / C))
///     p[t][2i + 1] = cos(t / 10000^(2i / C))
/// An odd C ends with a sine. Throws Error if T or C is negative.
Tensor sinusoidal_positions(std::int64_t T, std::int64_t C);

/// How rotary angles change when a model reads more positions than it was trained on.
enum class RotaryScaling {
  none,
  linear,  ///< Every angle is divided by the factor (Chen et al. 2023).
  ntk,     ///< The base is multiplied by factor^(D / (D - 2)): slow pairs slow down, fast ones stay.
  yarn,    ///< Pairs with few turns slow down, those with many stay; scores are scaled, too (Peng et al. 2023).
  llama3,  ///< Pairs with few turns slow down, those with many stay, as in Llama 3.1 (Dubey et al. 2024).
};

/// The options of rotary_table().
struct RotaryTableOptions {
  FIT_OPTION(double, base) = 10000;  ///< The base of the angles.
  /// How many of the D features rotate, an even number R; 0: all. The first R/2 pairs of the layout rotate. half_split
  /// pairs i and i + D/2. GPT-NeoX, Phi and StableLM pair i and i + R/2: see GPTOptions::rotary_features and
  /// RotaryOptions::head_size.
  FIT_OPTION(std::int64_t, features) = 0;
  FIT_OPTION(RotaryScaling, scaling) = RotaryScaling::none;  ///< How angles change for more positions.
  FIT_OPTION(double, factor) = 1;                            ///< For scaling: how many times as many positions.
  /// For yarn and llama3: the positions of the training. Must be set.
  FIT_OPTION(std::int64_t, original_length) = 0;
  /// For yarn and llama3: pairs with more turns in original_length stay. By default 32 for yarn, 4 for llama3, which
  /// calls it high_freq_factor.
  FIT_OPTION(std::optional<double>, beta_fast);
  /// For yarn and llama3: the angles of pairs with fewer turns are divided by the factor. llama3's low_freq_factor.
  FIT_OPTION(double, beta_slow) = 1;
  /// For yarn: cos and sin are multiplied by this. If not given, by m(mscale) / m(mscale_all_dim), which are given
  /// together, with m(s) = 0.1 s ln(factor) + 1; without them by m(1). m is 1 for a factor up to 1.
  FIT_OPTION(std::optional<double>, attention_factor);
  FIT_OPTION(std::optional<double>, mscale);          ///< For yarn: see attention_factor.
  FIT_OPTION(std::optional<double>, mscale_all_dim);  ///< For yarn: see attention_factor.
  /// For yarn: whether the first and the last pair between beta_fast and beta_slow turns are whole numbers.
  FIT_OPTION(bool, truncate) = true;
};

/// The table for rotary(), [T, D/2, 2] float64: cos and sin of t / base^(2i / D) for pair i at position t. D is even.
Tensor rotary_table(std::int64_t T, std::int64_t D, double base = 10000);
/// The same with options. If only R < D features rotate, the first R/2 pairs have the angles for D = R, and the others
/// have angle 0. For yarn, cos and sin are multiplied by attention_factor. Between beta_slow and beta_fast turns, a
/// part of the angle is divided by the factor. It is linear in the pair's number (yarn), or in the turns (llama3).
/// Throws Error for options out of range, for a factor without scaling, and for one of mscale and mscale_all_dim
/// without the other.
Tensor rotary_table(std::int64_t T, std::int64_t D, const RotaryTableOptions& options);

/// The slopes of attention with linear biases (Press et al. 2022), [H] float64, for AttentionOptions::alibi. If H is a
/// power of 2: 2^(-8/H), 2^(-16/H), … Otherwise, with P the largest power of 2 below H: the slopes for P, followed by
/// the 1st, 3rd, 5th … slope for 2P. Throws Error unless num_heads is in 1 … 2^20.
Tensor alibi_slopes(std::int64_t num_heads);
/// The bias that AttentionOptions::alibi adds to the scores: -slope |i + Sk - Sq - j|, (1, H, Sq, Sk).
Tensor alibi_bias(std::int64_t num_heads, std::int64_t queries, std::int64_t keys, DType dtype = float32);

}  // namespace fit::nn
