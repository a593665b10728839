#pragma once
#include <string>
#include <vector>

#include "fit/detail/function_ref.hpp"
#include "fit/tensor/tensor.hpp"

// Results that are the same on every processor. tests/golden/one_result.txt holds a fingerprint of each.
namespace fit::test {

/// SHA-256 of types, shapes and elements, 64 hexadecimal digits. Every NaN counts as the same: only that it is NaN is
/// promised.
std::string fingerprint(const std::vector<Tensor>& tensors);

/// Checks, on every instruction set of this machine, each with another number of threads, that make() has the
/// fingerprint of `name` in the file. With FIT_WRITE_ONE_RESULT=1 in the environment, the file gets the fingerprint of
/// the widest set first.
void check_one_result(const std::string& name, FunctionRef<std::vector<Tensor>()> make);

/// The same for bfloat16 and weights of 8 bits: in the mode Reproducible, also where there are instructions for them.
void check_one_narrow_result(const std::string& name, FunctionRef<std::vector<Tensor>()> make);

}  // namespace fit::test
