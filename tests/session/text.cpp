#include "support/text.hpp"

#include <regex>

namespace fit::test {

std::vector<std::string> matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) {
    std::size_t group = 1;
    while (group < match->size() && !(*match)[group].matched) ++group;
    found.push_back((*match)[group]);
  }
  return found;
}

}  // namespace fit::test
