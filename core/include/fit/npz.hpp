#pragma once
#include <string>

#include "fit/state_dict.hpp"

/// NumPy's archives (.npz): arrays by name, each an .npy within a zip file.
namespace fit {

/// Writes the tensors in their order, uncompressed, as numpy.savez() does. The file is written whole or not at all: an
/// old one of that name stays until the new one is complete. Throws Error for a name that is empty, is there twice, or
/// is longer than 4096 bytes, for an undefined tensor, and for more than 4 GB or 65535 tensors, which are for
/// save_safetensors(); FileError if it can't be written.
void save_npz(const std::string& path, const StateDict& tensors);

/// Reads what numpy.savez() and numpy.savez_compressed() write; the types are those of load_npy(). Throws FileError,
/// with the file, what was expected and what was found, for one that is missing, damaged, truncated, or holds something
/// else.
StateDict load_npz(const std::string& path);

}  // namespace fit
