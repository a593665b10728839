#pragma once
#include <string>
#include <vector>

namespace fit {

/// The name with the smallest edit distance; null if no name matches in at least half of its letters.
const std::string* most_similar(const std::string& name, const std::vector<std::string>& names);

}  // namespace fit
