#pragma once
#include <cstdint>
#include <vector>

#include "fit/tensor/tensor.hpp"

namespace fit {

/// Mean weights of a head over its queries. Fully masked queries, and queries with weights that are not finite, do not
/// count. NaN if no query counts.
struct TokenScores {
  double previous;   ///< on the previous position; over the queries with one
  double duplicate;  ///< on earlier positions with the query's token; over the queries with such a position
  double induction;  ///< on the positions right after those; over the same queries (Olsson et al. 2022)
};

/// The scores of each head, from the weights of self-attention, float32 [B, H, Sq, Sk]. Query i has position
/// i + Sk - Sq. `tokens` has the B x Sk tokens of the keys; if it is empty, duplicate and induction are NaN.
std::vector<TokenScores> token_scores(const Tensor& weights, const std::vector<std::int64_t>& tokens);

}  // namespace fit
