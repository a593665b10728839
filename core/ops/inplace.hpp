#pragma once
#include "fit/tensor.hpp"

// How a change in place is recorded: the operation's out-of-place form takes the tensor's place.
namespace fit {

/// Whether a change of x by `operand` (may be undefined) must be recorded. Throws Error where it can't be: x is a leaf
/// that wants a gradient, or another tensor or a recorded operation shares its buffer.
bool must_record(const char* op, const Tensor& x, const Tensor& operand);

/// Makes x, with all its handles, hold what `result` holds: its elements and its history.
void rebind_storage(Tensor& x, const Tensor& result);

/// sum += g, unrecorded; g is of its shape and type, which the callers have seen to.
void add_into(Tensor& sum, const Tensor& g);

}  // namespace fit
