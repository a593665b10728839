#pragma once
#include "fit/tensor/tensor.hpp"

// Recording of in-place changes: the tensor takes over the result of the out-of-place operation.
namespace fit {

/// Whether a change of x by `operand` (may be undefined) must be recorded. Throws Error if it can't be: x is a leaf
/// that requires a gradient or is frozen, or another tensor or a recorded operation shares its buffer.
bool must_record(const char* op, const Tensor& x, const Tensor& operand);

/// Moves the elements and the history of `result` to x and all its handles.
void rebind_storage(Tensor& x, const Tensor& result);

/// sum += g, not recorded. The caller ensures that shapes and types are equal.
void add_into(Tensor& sum, const Tensor& g);

}  // namespace fit
