#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace fit::test {

/// The number of occurrences of a part in a text.
inline std::int64_t count(const std::string& text, const std::string& part) {
  std::int64_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

/// Finds all matches of a regular expression in a text, and returns the first group of each that takes part. Only one
/// file compiles <regex>, which takes seconds.
std::vector<std::string> matches(const std::string& text, const std::string& pattern);

}  // namespace fit::test
