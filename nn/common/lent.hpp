#pragma once
#include <string>

#include "fit/tensor/state_dict.hpp"

namespace fit::nn {

/// Notes that these parameters hold other values for a scope, which gives them their own back at its end. What is
/// written to them in between is lost then.
void lend(const StateDict& parameters);
/// The end of the scope.
void give_back(const StateDict& parameters) noexcept;

/// Throws Error if x is lent, or shares the elements of a tensor that is. `lost` says what the end of the scope would
/// do: "would undo the step".
void check_not_lent(const char* op, const std::string& name, const Tensor& x, const char* lost);

}  // namespace fit::nn
