#pragma once
#include "tensor/check.hpp"

namespace fit::nn {

/// Throws Error if the model would drop: decoding computes the logits of the whole model, not of a sample.
template <class Model>
void check_drops_nothing(const char* op, const char* name, const Model& model) {
  if (model.training() && model.options().dropout() > 0)
    check::fail(op, name, " has dropout and is in training: call its eval() first");
}

}  // namespace fit::nn
