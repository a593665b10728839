#pragma once
#include <string>

#include "fit/optim.hpp"

namespace fit::optim {

/// Throws Error in the name of `op` for a parameter that wants a gradient but is bfloat16 or no leaf. A frozen one
/// passes: no optimiser changes it.
void check_trainable(const char* op, const std::string& name, const Tensor& parameter);

/// Throws the Error in the name of `op` for parameters that are all frozen.
[[noreturn]] void fail_all_frozen(const char* op);

/// The parameters, each with its name or its number behind those of `before`. Throws Error in the name of `op` for one
/// that is not floating, can't be trained though it is not frozen, or is there already.
StateDict checked_parameters(const char* op, const Parameters& parameters, const StateDict& before);

}  // namespace fit::optim
