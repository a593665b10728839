#pragma once
#include <functional>
#include <optional>

#include "fit/base/option.hpp"
#include "fit/tensor/tensor.hpp"

/// Attention without softmax. Each head has a state, a matrix S [D, Dv] that maps keys to values: its size and the time
/// of a step do not grow with the number of steps.
///
///     auto [y, state] = linear_attention(q, k, v, LinearAttentionOptions().decay(log_factor).beta(rate));
///
/// Step t reads and writes the state, with a_t = exp(decay_t):
///
///     S   = a_t S                  fades (without decay: S)
///     u_t = beta_t (v_t - S' k_t)  delta rule: replaces the value of k_t (without beta: u_t = v_t)
///     S   = S + k_t u_t'
///     o_t = scale S' q_t
///
/// | decay | beta | the literature's name |
/// |---|---|---|
/// | | | linear attention (Katharopoulos et al. 2020, arXiv 2006.16236) |
/// | (H) | | retention, RetNet (Sun et al. 2023, arXiv 2307.08621) |
/// | (B, H, T) | | Mamba-2 (Dao & Gu 2024, arXiv 2405.21060) |
/// | (B, H, T, D) | | gated linear attention (Yang et al. 2024, arXiv 2312.06635) |
/// | | (B, H, T) | DeltaNet (Schlag et al. 2021; in chunks: Yang et al. 2024, arXiv 2406.06484) |
/// | (B, H, T) | (B, H, T) | gated DeltaNet (Yang et al. 2025, arXiv 2412.06464) |
/// | (B, H, T, D) | (B, H, T) | Kimi delta attention (arXiv 2510.26692) |
namespace fit {
/// Options of linear_attention().
struct LinearAttentionOptions {
  /// The logarithm of a_t, as in the papers: (H), (B, H, T), or (B, H, T, D) with a factor for each feature of the
  /// keys. It should not be positive: then the state fades. -inf clears the state before step t, except
  /// for numbers that are not finite: 0 times them is NaN. float32: a product of factors below 2^-100 is 0.
  FIT_OPTION(Tensor, decay);
  /// How far the delta rule replaces the value that the state has under k_t, (B, H, T): 0 not at all, 1 completely. The
  /// keys should have norm 1 (normalize()): with larger ones the state may grow without limit.
  FIT_OPTION(Tensor, beta);
  /// Applied to q and k first, for example elu_plus_one. Empty: nothing is applied.
  FIT_OPTION(std::function<Tensor(const Tensor&)>, feature_map);
  /// Divides o_t by the sum of the weights of its values, as softmax does. The state then has a column more, for that
  /// sum: [D, Dv + 1]. The feature map must keep the sum away from 0. Does not combine with beta.
  FIT_OPTION(bool, normalize) = false;
  /// The factor of the output, instead of 1 / sqrt(D) for q (…, D).
  FIT_OPTION(std::optional<double>, scale);
  /// The state before the first step; undefined: zeros.
  FIT_OPTION(Tensor, initial_state);
};

/// The result of linear_attention().
struct LinearAttentionResult {
  Tensor output;  ///< (B, H, T, Dv)
  /// After the last step, (B, H, D, Dv): the initial_state of the steps that follow. float32 for bfloat16 operands.
  Tensor state;
};

/// q and k (B, H, T, D), v (B, H, T, Dv), all of one floating type. Both results are differentiable, by q, k, v, decay,
/// beta and initial_state, which may be of another floating type. Time and memory are linear in T: steps are computed
/// in chunks of 64 by products of matrices, and T = 1, as in decoding, by the same code. Step by step with a state
/// gives the same to rounding. bfloat16 operands are computed in float32, and the output is rounded once. No step has
/// an effect on earlier ones, even if it is NaN. Throws Error for other shapes or types, a scale that is not finite,
/// and normalize with beta.
LinearAttentionResult linear_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const LinearAttentionOptions& options = {});

/// elu(x) + 1, a feature map: positive, and 1 at 0 (Katharopoulos et al. 2020).
Tensor elu_plus_one(const Tensor& x);

}  // namespace fit
