#include "fit/nn/attention/sequence_layer.hpp"

#include "attention/whole_sequences.hpp"
#include "attention/with_weights.hpp"

namespace fit::nn {

Tensor SequenceLayer::operator()(const Tensor& x, const AttentionContext& context) const {
  const auto call = [this](const AttentionContext& c, const Tensor& given) {
    return within(
        *this, [&](const Tensor& y) { return forward(y, c); }, given);
  };
  return !context.padding || takes_unpadded_ ? call(context, x) : call_with_whole_sequences(context, call, x);
}

AttentionResult SequenceLayer::operator()(const Tensor& x, const AttentionContext& context, ReturnAttention) const {
  return with_weights(context, [&](const AttentionContext& c) { return (*this)(x, c); });
}

}  // namespace fit::nn
