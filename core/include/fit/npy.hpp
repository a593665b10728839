#pragma once
#include <string>

#include "fit/tensor.hpp"

/// NumPy's array files (.npy), one array each.
namespace fit {

/// Writes x as format 1.0, byte by byte as numpy.save() does. The file is written whole or not at all: an old one of
/// that name stays until the new one is complete. Throws FileError if it can't be written.
void save_npy(const std::string& path, const Tensor& x);

/// Reads formats 1.0, 2.0 and 3.0: <f4, <f8, <i8, |b1, and <i4 and |u1, which become int64; row- or column-major.
/// Throws FileError, with the file, what was expected and what was found, for one that is missing, damaged, truncated,
/// too long, or of another type.
Tensor load_npy(const std::string& path);

}  // namespace fit
