// Exercise entropy: the entropy of attention weights.
//
// -sum of p log p over the last axis, in nats. A weight of 0 adds nothing.
#include "exercises/exercises.hpp"

using namespace fit;

Tensor weights_entropy(const Tensor& p) { return -sum(p * log(p), -1); }

EXERCISE(entropy, weights_entropy)
