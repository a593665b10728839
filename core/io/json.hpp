#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "io/input_file.hpp"

namespace fit::io {

/// What a JSON text of a file may hold at most.
struct JsonLimits {
  int depth;                ///< brackets within brackets
  std::size_t innermost;    ///< values in a list at that depth
  std::size_t name = 4096;  ///< bytes of a key
};

/// Parses strictly: one value, valid UTF-8, no key twice in an object (a parser alone keeps the last), within the
/// limits, which hold while it parses. Throws FileError in the name of the file.
nlohmann::json parse_json(const InputFile& file, const std::string& text, const JsonLimits& limits);

}  // namespace fit::io
