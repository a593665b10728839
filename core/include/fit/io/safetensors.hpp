#pragma once
#include <map>
#include <string>

#include "fit/tensor/lookup.hpp"
#include "fit/tensor/state_dict.hpp"
#include "fit/tensor/tensor.hpp"

/// Hugging Face's .safetensors files: named tensors and some strings. They can't contain code.
///
///     save_safetensors("model.safetensors", model.state_dict());
///     model.load_state_dict(load_safetensors("model.safetensors").tensors);
namespace fit {

/// The contents of a file.
struct SafeTensors {
  StateDict tensors;
  std::map<std::string, std::string> metadata = {};
};

/// Whether to write floating tensors in their own types, or all as F16: 1 sign, 5 exponent and 10 fraction bits,
/// rounded to nearest; numbers beyond 65504 become infinite. A Tensor can't have the type F16.
enum class FloatsAs : bool { own, f16 };

/// Writes the tensors, sorted by element size (largest first), otherwise in the given order. bfloat16 becomes BF16. The
/// write is atomic: an old file with this name stays until the new one is complete. Throws Error for a name that is
/// empty, duplicate, "__metadata__" or not printable UTF-8, and for an undefined tensor. Throws FileError if the file
/// can't be written.
void save_safetensors(const std::string& path, const StateDict& tensors,
                      const std::map<std::string, std::string>& metadata = {}, FloatsAs floats = FloatsAs::own);

/// The type for BF16 tensors: converted to float32, or bfloat16 as stored.
enum class Bfloat16As : bool { converted, stored };
inline constexpr Bfloat16As keep_bfloat16 = Bfloat16As::stored;

/// Reads F32, F64, I64, I8 and BOOL unchanged, I32, I16, U8, U16 and U32 as int64, F16 as float32, and BF16 as float32
/// unless keep_bfloat16 is given. The tensors keep the order of the file. The reader does not trust the file: a
/// damaged, truncated, too long or otherwise invalid one throws FileError, with the position, the expected and the
/// found value. Memory is allocated only after the length of the file is checked.
///
/// Tensors of 64 KiB and more are memory-mapped. Their elements are read from the file at first use, and writes stay in
/// memory (the system copies the page). So loading a large file is instant, and programs that load the same file share
/// memory. The file may be deleted, or replaced as by save_safetensors(). If it is changed in place or truncated,
/// elements not used so far change or disappear: clone() first if this can happen. nn::load_weights() and checkpoints
/// read all elements at once.
///
/// For a model in several files, pass "model.safetensors.index.json". It reads the files named there, from the same
/// folder; they must have exactly the listed tensors. A pickle (.pt) throws FileError, with Python code to convert it.
SafeTensors load_safetensors(const std::string& path, Bfloat16As bf16 = Bfloat16As::converted);

}  // namespace fit
