#include "common/class_name.hpp"

#include <cxxabi.h>

#include <cstdlib>

namespace fit {

std::string class_name(const std::type_info& type) {
  int status = 0;
  char* const readable = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  const std::string full = status == 0 ? readable : type.name();
  std::free(readable);
  std::string last;  // the text after the last "::" outside of template arguments
  int depth = 0;
  for (const char c : full) {
    depth += (c == '<') - (c == '>');
    if (depth > 0 || c == '>') continue;
    if (c == ':')
      last.clear();
    else
      last += c;
  }
  return last;
}

}  // namespace fit
