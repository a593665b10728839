#pragma once
#include "io/input_file.hpp"

namespace fit::io {

/// Guesses the format of a file of tensors from its first bytes.
enum class FileKind { safetensors, json, zip, pickle, npy, text };
FileKind kind_of(InputFile& file);

/// Throws FileError that shows how to convert a pickle to .safetensors in Python. A pickle may run code when read.
[[noreturn]] void refuse_pickle(const InputFile& file);
/// Throws FileError if the file is not .safetensors. The message names the format and the function that reads it.
void refuse_others(InputFile& file);

}  // namespace fit::io
