#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fit/lookup.hpp"
#include "fit/state_dict.hpp"
#include "fit/tensor.hpp"

/// Hugging Face's .safetensors files: named tensors and a few strings, in a form that can't hold code.
///
///     save_safetensors("model.safetensors", model.state_dict());
///     model.load_state_dict(load_safetensors("model.safetensors").tensors);
namespace fit {

/// What a file holds.
struct SafeTensors {
  StateDict tensors;
  std::map<std::string, std::string> metadata = {};
};

/// Whether floating tensors are written in their own types, or all as F16: 1 sign, 5 exponent and 10 fraction bits, to
/// the nearest; what is beyond 65504 becomes infinite. No tensor can have that type.
enum class FloatsAs : bool { own, f16 };

/// Writes the tensors, those of larger elements first, else in the order given. bfloat16 becomes BF16. The file is
/// written whole or not at all: an old one of that name stays until the new one is complete. Throws Error for a name
/// that is empty, is there twice, is "__metadata__", or is not printable UTF-8, and for an undefined tensor; FileError
/// if it can't be written.
void save_safetensors(const std::string& path, const StateDict& tensors,
                      const std::map<std::string, std::string>& metadata = {}, FloatsAs floats = FloatsAs::own);

/// What BF16 is read as: float32 unless it is to stay bfloat16.
enum class Bfloat16As : bool { float32, bfloat16 };
inline constexpr Bfloat16As keep_bfloat16 = Bfloat16As::bfloat16;

/// Reads F32, F64, I64, I8 and BOOL as they are, I32 and U8 as int64, F16 as float32, and BF16, too, unless
/// keep_bfloat16 is given, in the order in which they lie in the file. Nothing of the file is trusted: one that is
/// damaged, truncated, too long or not exactly what the format asks for throws FileError, which says where, what was
/// expected and what was found. Memory is taken only after the file's length has been found to fit.
///
/// Tensors of 64 KiB and more are mapped: their elements are read from the file when they are first used, and what is
/// written to one stays in memory (the system copies the page). So a large file is loaded at once, and programs that
/// load one file share its memory. The file may be deleted or replaced under its name, as save_safetensors() does; one
/// that is changed in place, or cut short, changes or takes away what has not been used yet: clone() first where that
/// can happen. nn::load_weights() and checkpoints read all of what they take.
///
/// Of a model in several files, it reads those that "model.safetensors.index.json" names: of the index's folder, with
/// exactly the tensors that it says. A pickle (.pt) is refused with the Python that converts it.
SafeTensors load_safetensors(const std::string& path, Bfloat16As bf16 = Bfloat16As::float32);

}  // namespace fit
