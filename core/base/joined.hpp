#pragma once
#include <initializer_list>
#include <ostream>
#include <string>

namespace fit {

/// A part of a message: a reference to a text, or to anything else that can be written to a stream. One function for
/// each type writes it, so that a call with many parts compiles to a list of addresses.
class Part {
 public:
  Part(const char* text)
      : value_(text), write_([](std::ostream& s, const void* value) { s << static_cast<const char*>(value); }) {}
  template <class T>
  Part(const T& value)
      : value_(&value), write_([](std::ostream& s, const void* v) { s << *static_cast<const T*>(v); }) {}
  friend std::ostream& operator<<(std::ostream& s, const Part& part) {
    part.write_(s, part.value_);
    return s;
  }

 private:
  const void* value_;
  void (*write_)(std::ostream& s, const void* value);
};

/// The parts, one after another. A bool is "true" or "false".
std::string joined_parts(std::initializer_list<Part> parts);

template <class... Parts>
std::string joined(const Parts&... parts) {
  return joined_parts({Part(parts)...});
}

}  // namespace fit
