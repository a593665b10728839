#include "unicode/normal_forms.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "unicode/rows.hpp"

namespace fit::unicode {
namespace {

std::unordered_map<char32_t, int> combining_class_map() {
  std::unordered_map<char32_t, int> all;
  std::int32_t end = 0;
  const tables::Table& t = tables::combining_classes;
  for (std::size_t i = 0; i + 2 < t.size; i += 3) {
    const std::int32_t begin = end + t.numbers[i];
    end = begin + t.numbers[i + 1];
    for (std::int32_t p = begin; p < end; ++p) all[static_cast<char32_t>(p)] = t.numbers[i + 2];
  }
  return all;
}

int combining_class(char32_t c) {
  static const std::unordered_map<char32_t, int> all = combining_class_map();
  if (c < 0x300) return 0;
  const auto found = all.find(c);
  return found == all.end() ? 0 : found->second;
}

// Hangul syllables are composed by arithmetic (The Unicode Standard, 3.12).
constexpr char32_t first_syllable = 0xAC00, first_lead = 0x1100, first_vowel = 0x1161, before_tail = 0x11A7;
constexpr char32_t leads = 19, vowels = 21, tails = 28, syllables = leads * vowels * tails;

std::optional<char32_t> composition(char32_t a, char32_t b) {
  static const std::map<std::pair<char32_t, char32_t>, char32_t> all = [] {
    std::map<std::pair<char32_t, char32_t>, char32_t> pairs;
    const tables::Table& t = tables::compositions;
    for (std::size_t i = 0; i + 2 < t.size; i += 3)
      pairs[{static_cast<char32_t>(t.numbers[i]), static_cast<char32_t>(t.numbers[i + 1])}] =
          static_cast<char32_t>(t.numbers[i + 2]);
    return pairs;
  }();
  if (a >= first_lead && a < first_lead + leads && b >= first_vowel && b < first_vowel + vowels)
    return first_syllable + ((a - first_lead) * vowels + (b - first_vowel)) * tails;
  if (a >= first_syllable && a < first_syllable + syllables && (a - first_syllable) % tails == 0 && b > before_tail &&
      b < before_tail + tails)
    return a + (b - before_tail);
  const auto found = all.find({a, b});
  if (found == all.end()) return std::nullopt;
  return found->second;
}

using Decompositions = std::unordered_map<char32_t, Points>;

const Decompositions& decompositions_to(Equivalence equivalence) {
  static const Decompositions canonical = rows_of(tables::decompositions);
  if (equivalence == Equivalence::canonical) return canonical;
  static const Decompositions compatible = [] {
    Decompositions all = canonical;
    add_runs(all, tables::compatible);
    for (const auto& [c, parts] : rows_of(tables::compatible_several)) all[c] = parts;
    return all;
  }();
  return compatible;
}

void append_decomposition(Points& to, char32_t c, const Decompositions& all) {
  if (c < 0xA0) return to.push_back(c);
  if (c >= first_syllable && c < first_syllable + syllables) {
    const char32_t s = c - first_syllable;
    to.push_back(first_lead + s / (vowels * tails));
    to.push_back(first_vowel + s % (vowels * tails) / tails);
    if (s % tails != 0) to.push_back(before_tail + s % tails);
    return;
  }
  const auto found = all.find(c);
  if (found == all.end()) return to.push_back(c);
  to.insert(to.end(), found->second.begin(), found->second.end());
}

}  // namespace

Changes decomposed(const Points& text, Equivalence to) {
  const Decompositions& decompositions = decompositions_to(to);
  Changes all;
  all.reserve(text.size());
  Points parts;
  std::size_t sorted = 0;
  const auto sort_marks = [&] {
    if (all.size() > sorted + 1)
      std::stable_sort(all.begin() + static_cast<std::ptrdiff_t>(sorted), all.end(),
                       [](const Change& a, const Change& b) { return combining_class(a.c) < combining_class(b.c); });
    sorted = all.size();
  };
  for (const char32_t c : text) {
    parts.clear();
    append_decomposition(parts, c, decompositions);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (combining_class(parts[i]) == 0) sort_marks();
      all.push_back({parts[i], i > 0});
    }
  }
  sort_marks();
  return all;
}

Changes composed(const Points& text, Equivalence equivalence) {
  Changes all;
  std::ptrdiff_t starter = -1;  // where marks may be joined
  int last = -1;                // the class of the mark before, since the starter
  for (const Change& next : decomposed(text, equivalence)) {
    const int own = combining_class(next.c);
    if (starter >= 0 && last < own) {
      Change& to = all[static_cast<std::size_t>(starter)];
      if (const auto joined = composition(to.c, next.c)) {
        to = {*joined, to.added + next.added - 1};
        continue;
      }
    }
    if (own == 0) {
      starter = static_cast<std::ptrdiff_t>(all.size());
      last = -1;
    } else {
      last = own;
    }
    all.push_back(next);
  }
  return all;
}

}  // namespace fit::unicode
