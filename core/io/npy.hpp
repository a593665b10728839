#pragma once
#include <string>

#include "fit/tensor.hpp"
#include "io/input_file.hpp"

namespace fit::io {

/// What load_npy() reads, from where the file is on to its end.
Tensor read_npy(InputFile& in);

/// What save_npy() writes before the elements.
std::string npy_header(const Tensor& x);

}  // namespace fit::io
