#pragma once
#include <string>

#include "fit/tensor/tensor.hpp"
#include "io/input_file.hpp"

namespace fit::io {

struct NpyArray {
  Tensor values;
  const char* file_dtype;  // the file's own dtype if reading converts it, such as "int32"; else null
};
/// Reads an .npy array from the current position to the end of the file.
NpyArray read_npy(InputFile& in);

/// Throws Error with `op` for a dtype that .npy lacks. what: "the tensor".
void expect_npy_type(const char* op, const std::string& what, const Tensor& x);

/// The .npy header that precedes the elements.
std::string npy_header(const Tensor& x);

}  // namespace fit::io
