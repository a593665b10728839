#pragma once
#include "fit/nn/layers/feed_forward.hpp"
#include "fit/nn/layers/position.hpp"

// What the options of layers mean, for all who ask.
namespace fit::nn {

/// Whether a FeedForward has a third projection.
bool is_gated(Activation a);

/// The option, or the default of its scaling.
inline double beta_fast(const RotaryTableOptions& o) {
  return o.beta_fast().value_or(o.scaling() == RotaryScaling::llama3 ? 4 : 32);
}

}  // namespace fit::nn
