#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "io/input_file.hpp"

namespace fit::io {

/// Limits for the JSON text of a file.
struct JsonLimits {
  int depth;                ///< nesting of brackets
  std::size_t innermost;    ///< values in a list at that depth
  std::size_t name = 4096;  ///< bytes of a key
};

/// A JSON value whose destructor allocates nothing. nlohmann's destructor first copies the elements into a list, and
/// ends the program if that allocation fails.
template <class Value>
class Frugal : public Value {
 public:
  Frugal(Value&& value) noexcept : Value(std::move(value)) {}
  Frugal(Frugal&&) noexcept = default;
  Frugal& operator=(Frugal&&) = delete;
  ~Frugal() { empty(*this); }

 private:
  static void empty(Value& value) {
    if (auto* const object = value.template get_ptr<typename Value::object_t*>()) {
      for (auto& [key, child] : *object) empty(child);
      object->clear();
    } else if (auto* const array = value.template get_ptr<typename Value::array_t*>()) {
      for (Value& child : *array) empty(child);
      array->clear();
    }
  }
};
using Json = Frugal<nlohmann::json>;

/// Parses strictly: one value, valid UTF-8, no duplicate keys (nlohmann alone keeps the last), within the limits. The
/// limits are checked during parsing. Throws FileError with the file's name.
Json parse_json(const InputFile& file, const std::string& text, const JsonLimits& limits);

}  // namespace fit::io
