#pragma once
#include "io/input_file.hpp"

namespace fit::io {

/// Guesses the format of a file of tensors from its first bytes. idx is never guessed: any bytes can be one.
enum class FileKind { safetensors, json, zip, pickle, npy, text, idx };
FileKind kind_of(InputFile& file);

/// Throws FileError that shows how to convert a pickle to .safetensors in Python. A pickle may run code when read.
[[noreturn]] void refuse_pickle(const InputFile& file);
/// Throws FileError if the file is of another kind than `expected`. The message says which, and which function reads
/// it.
void refuse_others(InputFile& file, FileKind expected);

}  // namespace fit::io
