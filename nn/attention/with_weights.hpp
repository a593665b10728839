#pragma once
#include <vector>

#include "fit/nn/attention/attention_context.hpp"

namespace fit::nn {

/// call(context), and the weights of the first attention under it; undefined if there is none.
template <class Call>
AttentionResult with_weights(const AttentionContext& given, const Call& call) {
  std::vector<Tensor> weights;
  AttentionContext context = given;
  context.weights = &weights;
  const Tensor y = call(context);
  return {y, weights.empty() ? Tensor() : weights[0]};
}

}  // namespace fit::nn
