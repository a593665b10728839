#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/affixes.hpp"

namespace fit::nn {

/// Whether the name is that of the layer or of what is below it. All is below the model itself, whose name is empty.
inline bool is_below(const std::string& name, const std::string& layer) {
  return layer.empty() || name == layer || starts_with(name, layer + '.');
}

/// The text that each * matches: at least one character, as few as possible. Nothing if the name doesn't match.
std::optional<std::vector<std::string>> match(const std::string& pattern, const std::string& name);

/// For each name, the index of the first pattern that matches, or the number of patterns if none does. Throws Error for
/// a pattern that matches no name; the message suggests the most similar name. If the only name is empty, it is that of
/// the model itself, and every pattern matches it.
std::vector<std::size_t> first_matches(const char* op, const std::vector<std::string>& patterns,
                                       const std::vector<std::string>& names);

}  // namespace fit::nn
