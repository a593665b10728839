#include "tokenizers/unicode.hpp"

#include <algorithm>
#include <unordered_map>

#include "common/utf8.hpp"
#include "tensor/check.hpp"

namespace fit::unicode {
namespace {

// Ranges of code points.
class Set {
 public:
  explicit Set(const std::vector<std::int32_t>& table) {
    std::int32_t end = 0;
    for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
      const std::int32_t begin = end + table[i];
      end = begin + table[i + 1];
      ends_.push_back(static_cast<char32_t>(end));
      begins_.push_back(static_cast<char32_t>(begin));
    }
  }
  bool holds(char32_t c) const {
    const auto range = std::upper_bound(ends_.begin(), ends_.end(), c) - ends_.begin();
    return range < static_cast<std::ptrdiff_t>(ends_.size()) && c >= begins_[range];
  }

 private:
  std::vector<char32_t> begins_, ends_;
};

// Whether a table has a character. The set of the table is made at the first use.
template <const std::vector<std::int32_t>& table>
bool holds(char32_t c) {
  static const Set set(table);
  return set.holds(c);
}

// Replacements of characters, except those in `gone` and `blank` and Hangul.
std::unordered_map<char32_t, Points> replacements() {
  std::unordered_map<char32_t, Points> all;
  std::int32_t first = 0;
  const std::vector<std::int32_t>&single = tables::single, &several = tables::several;
  for (std::size_t i = 0; i + 4 < single.size(); i += 5) {
    first += single[i];
    for (std::int32_t k = 0; k < single[i + 1]; ++k)
      all[static_cast<char32_t>(first + k * single[i + 2])] = {
          static_cast<char32_t>(first + single[i + 3] + k * single[i + 4])};
  }
  for (std::size_t i = 0; i + 1 < several.size(); i += 2 + static_cast<std::size_t>(several[i + 1]))
    for (std::int32_t k = 0; k < several[i + 1]; ++k)
      all[static_cast<char32_t>(several[i])].push_back(
          static_cast<char32_t>(several[i + 2 + static_cast<std::size_t>(k)]));
  return all;
}

// Decomposes a Hangul syllable into two or three letters (The Unicode Standard, 3.12).
void append_hangul(Points& to, char32_t c) {
  const char32_t s = c - 0xAC00, last = s % 28;
  to.push_back(0x1100 + s / 588);
  to.push_back(0x1161 + s % 588 / 28);
  if (last != 0) to.push_back(0x11A7 + last);
}

}  // namespace

Points points_of(const char* op, const std::string& text) {
  Points all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    all.push_back(utf8::next(text, at));
    // U+FFFD itself has three bytes.
    if (all.back() == 0xFFFD && at == begin + 1) check::fail(op, "the text is not UTF-8 at byte ", begin);
  }
  return all;
}

void append(std::string& text, char32_t c) {
  const auto last = [&](int shift) { text += static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xC0 | c >> 6);
    last(0);
  } else if (c < 0x10000) {
    text += static_cast<char>(0xE0 | c >> 12);
    last(6), last(0);
  } else {
    text += static_cast<char>(0xF0 | c >> 18);
    last(12), last(6), last(0);
  }
}

bool is_letter(char32_t c) { return holds<tables::letters>(c); }
bool is_number(char32_t c) { return holds<tables::numbers>(c); }
bool is_space(char32_t c) { return holds<tables::spaces>(c); }
bool is_punctuation(char32_t c) { return holds<tables::punctuation>(c); }

void append_for_bert(Points& to, char32_t c) {
  static const Set chinese(tables::chinese), gone(tables::gone), blank(tables::blank);
  static const std::unordered_map<char32_t, Points> others = replacements();
  const bool apart = chinese.holds(c);
  if (gone.holds(c)) return;
  if (blank.holds(c)) return to.push_back(U' ');
  if (c >= 0xAC00 && c < 0xD7A4) return append_hangul(to, c);
  if (apart) to.push_back(U' ');
  const auto found = others.find(c);
  if (found == others.end())
    to.push_back(c);
  else
    to.insert(to.end(), found->second.begin(), found->second.end());
  if (apart) to.push_back(U' ');
}

}  // namespace fit::unicode
