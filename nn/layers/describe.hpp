#pragma once
#include <ios>
#include <sstream>
#include <string>

namespace fit::nn {

/// Concatenates the parts of a description.
template <class... Parts>
std::string describe_all(const Parts&... parts) {
  std::ostringstream s;
  s << std::boolalpha;
  (s << ... << parts);
  return s.str();
}

}  // namespace fit::nn
