#pragma once
#include <string>

#include "fit/tensor/state_dict.hpp"

/// NumPy's archives (.npz): zip files of named .npy arrays.
namespace fit {

/// Writes the tensors in their order, uncompressed, as numpy.savez() does. The write is atomic: an old file with this
/// name stays until the new one is complete. Throws Error for an undefined tensor, and for a name that is empty,
/// duplicate or longer than 4096 bytes. Throws Error for more than 4 GB or 65535 tensors (use save_safetensors()).
/// Throws FileError if the file can't be written.
void save_npz(const std::string& path, const StateDict& tensors);

/// Reads files of numpy.savez() and numpy.savez_compressed(), with the types of load_npy(). Throws FileError for a
/// missing, damaged or truncated file, or other contents. The message has the file, the expected and the found value.
StateDict load_npz(const std::string& path);

}  // namespace fit
