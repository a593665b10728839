#pragma once
#include "io/input_file.hpp"

namespace fit::io {

/// What a file of tensors seems to be, by its first bytes.
enum class FileKind { safetensors, json, zip, pickle };
FileKind kind_of(InputFile& file);

/// Throws FileError that says how a pickle, which may run code as it is read, is made a .safetensors file in Python.
[[noreturn]] void refuse_pickle(const InputFile& file);
/// Throws FileError unless the file may be .safetensors: what else it is, and what to do.
void refuse_others(InputFile& file);

}  // namespace fit::io
