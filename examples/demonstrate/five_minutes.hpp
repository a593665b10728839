#pragma once
#include "support/example.hpp"

namespace example {

/// A sentence, and the heads of a trained model that find something in it: [T, T] weights of each.
struct Reading {
  std::vector<std::string> words;
  std::vector<fit::TextHead> heads;
};

/// Trains a small GPT on sentences of 49 words, checks it on new sentences, computes one head by hand, and writes the
/// page "Attention in five minutes" in which the model runs: DIR/EXAMPLE/five_minutes.html. About two seconds. Returns
/// how it reads a sentence.
Reading five_minutes(Example& e);

}  // namespace example
