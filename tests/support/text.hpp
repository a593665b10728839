#pragma once
#include <cstdint>
#include <string>

namespace fit::test {

/// The number of occurrences of a part in a text.
inline std::int64_t count(const std::string& text, const std::string& part) {
  std::int64_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

}  // namespace fit::test
