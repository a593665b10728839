#pragma once
#include <string>
#include <unordered_set>

#include "fit/nn/optim/optim.hpp"

namespace fit::optim {

/// The name, or the number of a parameter without a name.
inline std::string name_or_number(const std::string& name, std::size_t number) {
  return name.empty() ? std::to_string(number) : name;
}

/// Throws Error in the name of `op` if the parameter is in `seen`, and adds it.
void check_once(const char* op, const std::string& name, const Tensor& parameter,
                std::unordered_set<const void*>& seen);

/// Throws Error in the name of `op` for a trainable parameter that is bfloat16 or not a leaf. A frozen parameter
/// passes, because no optimiser changes it.
void check_trainable(const char* op, const std::string& name, const Tensor& parameter);

/// Whether a StepInBackward updates this parameter.
bool steps_in_backward(const Tensor& parameter);

/// Throws Error in the name of `op` for such a parameter: its gradient is gone before all are known. `cure` completes
/// the message.
void expect_gradient_kept(const char* op, const std::string& name, const Tensor& parameter, const char* cure);

/// Throws the Error in the name of `op` that all parameters are frozen.
[[noreturn]] void fail_all_frozen(const char* op);

/// The parameters with their names. A parameter without a name gets its number, counted on from `before`. Throws Error
/// in the name of `op` for a parameter that is not floating, fails check_trainable(), or was given before.
StateDict checked_parameters(const char* op, const Parameters& parameters, const StateDict& before);

}  // namespace fit::optim
