#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "io/input_file.hpp"
#include "io/stored.hpp"

// Files of ggml's GGUF format (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), versions 2 and 3:
//   "GGUF" version tensors keys | key type value … | name axes sizes type offset … | padding | data
namespace fit::io {

/// The value of a key. All integers are int64 and all numbers double here. Written are uint32, float32 and arrays of
/// int32, float32 and strings.
using GGUFValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<std::string>>;
using GGUFKeys = std::vector<std::pair<std::string, GGUFValue>>;

/// A type of elements, which lie in blocks.
struct GGMLType {
  std::uint32_t id;
  const char* name;
  std::int64_t block, bytes;                    // elements and bytes of a block
  void (*read)(const unsigned char*, float*);   // a block
  void (*write)(const float*, unsigned char*);  // null: it is read only
};
/// The type with this name: "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q6_K"; null if there is none.
const GGMLType* find_ggml_type(const std::string& name);
const GGMLType* find_ggml_type(std::uint32_t id);

struct GGUFFile {
  std::shared_ptr<InputFile> file;  // for errors
  GGUFKeys keys;
  std::vector<Stored> tensors;  // float32; shapes as here, the last axis is contiguous
};
/// Reads keys and the list of tensors. Throws FileError with op.
GGUFFile open_gguf(const char* op, const std::string& path);

struct GGUFTensor {
  std::string name;
  Tensor values;  // floating
  const GGMLType* type;
};
void write_gguf(const char* op, const std::string& path, const GGUFKeys& keys, const std::vector<GGUFTensor>& tensors);

}  // namespace fit::io
