#pragma once
#include <optional>
#include <string>
#include <vector>

namespace fit::nn {

/// What each * of the pattern stands for, one or more letters, as few as can be; nothing if the name doesn't match.
std::optional<std::vector<std::string>> match(const std::string& pattern, const std::string& name);

/// The first of the patterns that each name matches, or their number if none does. Throws Error, with the most similar
/// name, for a pattern that no name matches.
std::vector<std::size_t> first_matches(const char* op, const std::vector<std::string>& patterns,
                                       const std::vector<std::string>& names);

}  // namespace fit::nn
