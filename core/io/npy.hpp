#pragma once
#include <string>

#include "fit/tensor.hpp"
#include "io/input_file.hpp"

namespace fit::io {

/// What load_npy() reads, from where the file is on to its end.
Tensor read_npy(InputFile& in);

/// Throws Error in the name of `op` for a type that the format doesn't have. what: "the tensor".
void expect_npy_type(const char* op, const std::string& what, const Tensor& x);

/// What save_npy() writes before the elements.
std::string npy_header(const Tensor& x);

}  // namespace fit::io
