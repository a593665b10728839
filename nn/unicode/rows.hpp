#pragma once
#include <unordered_map>

#include "unicode/characters.hpp"

namespace fit::unicode {

/// A table of rows: a character, how many it becomes, and these.
inline std::unordered_map<char32_t, Points> rows_of(const tables::Table& table) {
  std::unordered_map<char32_t, Points> all;
  for (std::size_t i = 0; i + 1 < table.size;) {
    const auto n = static_cast<std::size_t>(table.numbers[i + 1]);
    Points& to = all[static_cast<char32_t>(table.numbers[i])];
    for (std::size_t k = 0; k < n; ++k) to.push_back(static_cast<char32_t>(table.numbers[i + 2 + k]));
    i += 2 + n;
  }
  return all;
}

/// Adds a table of runs: from the first character of the run before to the first, how many, their step, from the first
/// to its image, the images' step.
inline void add_runs(std::unordered_map<char32_t, Points>& all, const tables::Table& t) {
  std::int32_t first = 0;
  for (std::size_t i = 0; i + 4 < t.size; i += 5) {
    first += t.numbers[i];
    for (std::int32_t k = 0; k < t.numbers[i + 1]; ++k)
      all[static_cast<char32_t>(first + k * t.numbers[i + 2])] = {
          static_cast<char32_t>(first + t.numbers[i + 3] + k * t.numbers[i + 4])};
  }
}

}  // namespace fit::unicode
