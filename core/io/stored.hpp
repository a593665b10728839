#pragma once
#include <functional>
#include <string>
#include <vector>

#include "fit/state_dict.hpp"

namespace fit::io {

/// A tensor that is in a file, or elsewhere, and is read when it is asked for: each time anew.
struct Stored {
  std::string name;
  Shape shape;
  DType dtype = DType::float32;  // as it is given
  std::function<Tensor()> read;  // null if the tensor is undefined
};

std::vector<Stored> stored(const StateDict& state);

/// What a .safetensors file holds, or those that a .safetensors.index.json lists, or an .npz. What is wrong with a file
/// is found now, but for a disk that fails later on and booleans that are neither 0 nor 1.
std::vector<Stored> open_tensors(const std::string& path);

}  // namespace fit::io
