#pragma once
#include <cstddef>
#include <string>

#include "fit/nn/models/bert.hpp"
#include "fit/nn/models/gpt.hpp"

// Sizes that a file asks for beside what it holds, compared before a model is made: so no number in a file makes memory
// that the file does not fill.
namespace fit::nn {

/// Why a model with these options is far larger than `tensors` tensors of `elements` elements; empty if it is not. What
/// differs by less, loading names tensor by tensor.
std::string oversized(const GPTOptions& o, std::size_t tensors, double elements);
std::string oversized(const BERTOptions& o, std::size_t tensors, double elements);

/// Whether the angles or sinusoids of all positions, which no file holds, are too many.
bool oversized_positions(const GPTOptions& o);

}  // namespace fit::nn
