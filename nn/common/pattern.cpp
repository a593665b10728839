#include "common/pattern.hpp"

#include <algorithm>

#include "fit/tensor/lookup.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

// Matches pattern from p on with name from n on.
bool matches(const std::string& pattern, std::size_t p, const std::string& name, std::size_t n,
             std::vector<std::string>& letters) {
  for (; p < pattern.size() && pattern[p] != '*'; ++p, ++n)
    if (n == name.size() || pattern[p] != name[n]) return false;
  if (p == pattern.size()) return n == name.size();
  for (std::size_t end = n + 1; end <= name.size(); ++end) {
    letters.push_back(name.substr(n, end - n));
    if (matches(pattern, p + 1, name, end, letters)) return true;
    letters.pop_back();
  }
  return false;
}

}  // namespace

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::optional<std::vector<std::string>> match(const std::string& pattern, const std::string& name) {
  std::vector<std::string> letters;
  if (matches(pattern, 0, name, 0, letters)) return letters;
  return std::nullopt;
}

std::vector<std::size_t> first_matches(const char* op, const std::vector<std::string>& patterns,
                                       const std::vector<std::string>& names) {
  if (names == std::vector<std::string>{""}) return {0};
  for (const std::string& pattern : patterns) {
    if (std::any_of(names.begin(), names.end(), [&](const std::string& name) { return match(pattern, name); }))
      continue;
    const std::string* const near = most_similar(pattern, names);
    check::fail(op, "nothing is called '", pattern, "', where * stands for one or more letters",
                near ? ": do you mean '" + *near + "'?" : "");
  }
  std::vector<std::size_t> first;
  first.reserve(names.size());
  for (const std::string& name : names)
    first.push_back(static_cast<std::size_t>(
        std::find_if(patterns.begin(), patterns.end(), [&](const std::string& p) { return match(p, name); }) -
        patterns.begin()));
  return first;
}

}  // namespace fit::nn
