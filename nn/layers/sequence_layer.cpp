#include "fit/nn/sequence_layer.hpp"

namespace fit::nn {

AttentionOptions SequenceContext::options(AttentionOptions options) const {
  return options.causal(true).mask(mask).attends(attends).cache(cache);
}

Tensor SequenceLayer::operator()(const Tensor& x, const SequenceContext& context) const {
  return detail::call_layer(*this, x, context);
}

}  // namespace fit::nn
