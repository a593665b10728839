#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fit/io/safetensors.hpp"
#include "fit/tensor/state_dict.hpp"

namespace fit::io {

/// The most bytes that the name of a tensor may have in a file.
inline constexpr std::size_t longest_name = 4096;

/// A tensor in a file. Each call of read() reads it again.
struct Stored {
  std::string name;
  Shape shape;
  DType dtype = DType::float32;      // after reading
  std::function<Tensor()> read;      // null if the tensor is undefined
  const char* file_dtype = nullptr;  // the dtype in the file if reading converts it: "int32"
  /// Reads into a tensor of this shape and any floating type, with little memory beside it; null where read() is the
  /// only way.
  std::function<void(Tensor&)> read_into = nullptr;
  /// The elements as a mapping of the file, see mapped(); null where the file holds others.
  std::function<Tensor()> map = nullptr;

  /// The dtype for messages: the one in the file.
  const char* dtype_name() const { return file_dtype ? file_dtype : name_of(dtype); }
};

std::vector<Stored> stored(const StateDict& state);

/// Reads all arrays of an .npz.
std::vector<Stored> open_npz(const std::string& path);

/// Opens a .safetensors file, a .safetensors.index.json with its files, or an .npz. The headers are checked now. Only a
/// failing disk and booleans other than 0 and 1 are reported later, by read().
std::vector<Stored> open_tensors(const std::string& path);

/// The strings of a .safetensors file; none for a file of another kind.
std::map<std::string, std::string> metadata_of(const std::string& path);

/// save_safetensors() that calls `check`, if there is one, before the new file replaces the old one. `check` is given
/// the path of the complete temporary file. If it throws, the old file stays.
void write_safetensors(const std::string& path, const StateDict& tensors,
                       const std::map<std::string, std::string>& metadata, FloatsAs floats,
                       const std::function<void(const std::string& temporary)>& check);

}  // namespace fit::io
