#pragma once
#include <string>

#include "fit/tensor/tensor.hpp"

/// NumPy's array files (.npy): one array in each file.
namespace fit {

/// Writes x in format 1.0; the bytes are those of numpy.save(). The write is atomic: an old file with this name stays
/// until the new one is complete. Throws FileError if the file can't be written.
void save_npy(const std::string& path, const Tensor& x);

/// Reads formats 1.0, 2.0 and 3.0, row- or column-major: <f4, <f8, <i8 and |b1 unchanged, <i4, <i2, |i1, |u1, <u2 and
/// <u4 as int64, and <f2 as float32. Throws FileError for a missing, damaged, truncated or too long file, or another
/// type. The message has the file, the expected and the found value.
Tensor load_npy(const std::string& path);

}  // namespace fit
