#include "models/oversized.hpp"

#include "base/joined.hpp"

namespace fit::nn {
namespace {

// The sizes as doubles, whose products don't overflow.
double real(std::int64_t n) { return static_cast<double>(n); }

double features_of_head(const GPTOptions& o) {
  return o.head_size() == 0 ? real(o.d_model()) / real(o.num_heads()) : real(o.head_size());
}

// The weights outside of the layers, and those of a layer: no model with these options has fewer.
struct Least {
  double outside, of_layer;
};

Least least_weights(const GPTOptions& o) {
  const double C = real(o.d_model()), D = features_of_head(o);
  const double heads = real(o.num_heads()), kv_heads = o.num_kv_heads() == 0 ? heads : real(o.num_kv_heads());
  const double hidden = o.attention_only() ? 0 : o.hidden() == 0 ? 4 * C : real(o.hidden());
  const double positions = o.positions() == Positions::learned ? real(o.context_length()) : 0;
  const double of_values = o.value_embeddings() ? real(o.vocab_size()) * kv_heads * D : 0;
  return {C * (real(o.vocab_size()) + positions), 2 * C * (heads + kv_heads) * D + 2 * C * hidden + of_values};
}

Least least_weights(const BERTOptions& o) {
  const double C = real(o.d_model()), hidden = o.hidden() == 0 ? 4 * C : real(o.hidden());
  return {C * (real(o.vocab_size()) + real(o.max_length()) + real(o.num_segments())), 2 * C * (C + hidden)};
}

template <class Options>
std::string far_larger(const Options& o, std::size_t tensors, double elements) {
  constexpr double most = 4;  // times the elements, each of which may be two weights of 4 bits
  const Least least = least_weights(o);
  const double weights = least.outside + least.of_layer * real(o.num_layers());
  if (!(real(o.num_layers()) > static_cast<double>(tensors) || weights > most * elements)) return {};
  return joined("with these sizes has ", o.num_layers(), " layers and at least ", weights, " weights: the files have ",
                tensors, " tensors with ", elements);
}

}  // namespace

std::string oversized(const GPTOptions& o, std::size_t tensors, double elements) {
  return far_larger(o, tensors, elements);
}
std::string oversized(const BERTOptions& o, std::size_t tensors, double elements) {
  return far_larger(o, tensors, elements);
}

bool oversized_positions(const GPTOptions& o) {
  constexpr double most = 1 << 28;
  const double features = o.positions() == Positions::rotary       ? features_of_head(o)
                          : o.positions() == Positions::sinusoidal ? real(o.d_model())
                                                                   : 0;
  return real(o.context_length()) * features > most;
}

}  // namespace fit::nn
