#include "common/pattern.hpp"

#include <algorithm>

#include "fit/tensor/lookup.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

std::optional<std::vector<std::string>> match(const std::string& pattern, const std::string& name) {
  // Only the last * so far takes more letters: what an earlier one took more, it could take itself.
  std::vector<std::string> letters;
  std::size_t p = 0, n = 0, after_star = 0, end = 0;  // what stands behind the last *, and where its letters end
  while (p < pattern.size() || n < name.size()) {
    if (n < name.size() && p < pattern.size() && pattern[p] == '*') {
      letters.emplace_back(1, name[n]);
      after_star = ++p, end = ++n;
    } else if (n < name.size() && p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (n < name.size() && !letters.empty()) {
      letters.back() += name[end];
      p = after_star, n = ++end;
    } else {
      return std::nullopt;
    }
  }
  return letters;
}

namespace {

// What the caller of a pattern that matches nothing may mean.
std::string advice(const std::string& pattern, const std::vector<std::string>& names) {
  const std::string behind = "*." + pattern;
  for (const std::string& name : names)
    if (match(behind, name)) return ": a pattern is of a full name, such as '" + behind + "' of '" + name + "'";
  if (const std::string* const near = most_similar(pattern, names)) return ": do you mean '" + *near + "'?";
  constexpr std::size_t shown = 8;
  std::string all;
  for (std::size_t i = 0; i < std::min(shown, names.size()); ++i) all += (i == 0 ? ": there are " : ", ") + names[i];
  return all + (names.size() > shown ? " …" : "");
}

}  // namespace

std::vector<std::size_t> first_matches(const char* op, const std::vector<std::string>& patterns,
                                       const std::vector<std::string>& names) {
  if (names == std::vector<std::string>{""}) return {0};
  for (const std::string& pattern : patterns) {
    if (std::any_of(names.begin(), names.end(), [&](const std::string& name) { return match(pattern, name); }))
      continue;
    check::fail(op, "nothing is called '", pattern, "', where * stands for one or more letters",
                advice(pattern, names));
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
