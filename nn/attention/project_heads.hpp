#pragma once
#include "fit/attention/attention.hpp"
#include "fit/nn/layers/linear.hpp"

namespace fit::nn {

/// proj(z): z [B, S, H D] or [N, H D] are the outputs of the heads, side by side. Offers what each head adds as
/// "head_out", [B, H, S, C] or [1, H, N, C].
Tensor project_heads(const Linear& proj, const Tensor& z, std::int64_t num_heads);

/// The features of heads that are not first, [B, S, heads D].
Tensor features_of(const Heads& h);

}  // namespace fit::nn
