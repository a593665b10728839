#pragma once
#include <string>

#include "fit/tensor.hpp"
#include "io/input_file.hpp"

namespace fit::io {

/// Reads an .npy array from the current position to the end of the file.
Tensor read_npy(InputFile& in);

/// Throws Error with `op` for a dtype that .npy lacks. what: "the tensor".
void expect_npy_type(const char* op, const std::string& what, const Tensor& x);

/// The .npy header that precedes the elements.
std::string npy_header(const Tensor& x);

}  // namespace fit::io
