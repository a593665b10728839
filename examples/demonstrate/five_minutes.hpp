#pragma once
#include "support/example.hpp"

namespace example {

/// Trains a small GPT on sentences of 49 words, checks it on new sentences, computes one head by hand, and writes the
/// page "Attention in five minutes" in which the model runs: DIR/EXAMPLE/five_minutes.html. About two seconds.
void five_minutes(Example& e);

}  // namespace example
