#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace fit {

/// How many letters of `a` have to be put in, left out or changed to make `b` of it (Levenshtein 1966).
std::size_t edit_distance(const std::string& a, const std::string& b);

/// The most similar of the names; null if none has most of its letters right.
const std::string* most_similar(const std::string& name, const std::vector<std::string>& names);

}  // namespace fit
