#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "io/input_file.hpp"

namespace fit::io {

/// What a JSON text of a file may hold at most.
struct JsonLimits {
  int depth;                ///< brackets within brackets
  std::size_t innermost;    ///< values in a list at that depth
  std::size_t name = 4096;  ///< bytes of a key
};

/// A JSON value that takes no memory to be destroyed. nlohmann's lists what is in an array or object first, and where
/// there is no memory for that list, its destructor ends the program.
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

/// Parses strictly: one value, valid UTF-8, no key twice in an object (a parser alone keeps the last), within the
/// limits, which hold while it parses. Throws FileError in the name of the file.
Json parse_json(const InputFile& file, const std::string& text, const JsonLimits& limits);

}  // namespace fit::io
