#pragma once
#include "fit/optim.hpp"

namespace fit::optim {

/// The parameters, each with its name or its number behind those of `before`. Throws Error in the name of `op` for one
/// that is no leaf of a floating type, or that is there already.
StateDict checked_parameters(const char* op, const Parameters& parameters, const StateDict& before);

}  // namespace fit::optim
