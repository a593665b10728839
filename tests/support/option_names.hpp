#pragma once
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/text.hpp"

namespace fit::test {

/// The names of the options of a struct, in the text of a header of the project. A test that has a case for each of
/// them fails for a new option.
inline std::vector<std::string> option_names(const std::string& type, const std::string& header) {
  const std::string text = get(FIT_GOLDEN_DIR "/../../" + header);
  const std::size_t begin = text.find("struct " + type + " "), end = text.find("\n};", begin);
  REQUIRE(end != std::string::npos);
  return matches(text.substr(begin, end - begin), "FIT_OPTION\\(.*, (\\w+)\\)");
}

}  // namespace fit::test
