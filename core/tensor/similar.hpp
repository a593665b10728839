#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace fit {

/// The edit distance: insertions, deletions and substitutions that turn `a` into `b` (Levenshtein 1966).
std::size_t edit_distance(const std::string& a, const std::string& b);

/// The name with the smallest edit distance; null if no name matches in at least half of its letters.
const std::string* most_similar(const std::string& name, const std::vector<std::string>& names);

}  // namespace fit
