#pragma once
#include <cstdint>
#include <string>

#include "fit/tensor/tensor.hpp"
#include "io/input_file.hpp"

namespace fit::io {

/// A type of elements in files.
struct ElementType {
  const char* safetensors;  // its name in .safetensors, or empty
  const char* npy;          // its name in .npy, or empty
  std::int64_t size;
  DType dtype;                                            // of the tensor that is read
  Tensor (*convert)(InputFile&, const Shape&) = nullptr;  // null: the elements are read as they are
  const char* converted_from = nullptr;                   // "int32" if reading changes the type, else null

  /// Reads a tensor at the file's position.
  Tensor read(InputFile& in, const Shape& shape) const;
  /// The same into a tensor, whose type may be another one if both are floating.
  void read_into(InputFile& in, Tensor& to) const;
};

/// The type with this name, one of the two above; null if there is none.
const ElementType* find_type(const char* ElementType::*format, const std::string& name);
/// The names of all types in this format, "F32, F64, ...".
std::string type_names(const char* ElementType::*format);
/// The type in which a tensor is written.
const ElementType& type_of(DType dtype);

}  // namespace fit::io
