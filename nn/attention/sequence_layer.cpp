#include "fit/nn/attention/sequence_layer.hpp"

#include "attention/with_weights.hpp"

namespace fit::nn {

Tensor SequenceLayer::operator()(const Tensor& x, const AttentionContext& context) const {
  if (!context.padding || takes_unpadded_) return detail::call_layer(*this, x, context);
  AttentionContext padded = context;
  padded.padding.reset();
  return context.padding->remove(detail::call_layer(*this, context.padding->restore(x), padded));
}

AttentionResult SequenceLayer::operator()(const Tensor& x, const AttentionContext& context, ReturnAttention) const {
  return with_weights(context, [&](const AttentionContext& c) { return (*this)(x, c); });
}

}  // namespace fit::nn
