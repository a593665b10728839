#include "unicode/characters.hpp"

#include <unordered_map>

#include "common/utf8.hpp"
#include "tensor/check.hpp"
#include "unicode/range_set.hpp"
#include "unicode/rows.hpp"

namespace fit::unicode {
namespace {

template <const tables::Table& table>
bool in(char32_t c) {
  static const RangeSet set(table);
  return set.holds(c);
}

}  // namespace

void check_utf8(const char* op, const std::string& text) {
  for (std::size_t at = 0, n = 0; at < text.size(); at += n) {
    n = utf8::sequence_length(text, at);
    if (n == 0) check::fail(op, "the text is not UTF-8 at byte ", at);
  }
}

Points points_of(const char* op, const std::string& text) {
  check_utf8(op, text);
  Points all;
  for (std::size_t at = 0; at < text.size();) all.push_back(utf8::next(text, at));
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

bool is_letter(char32_t c) { return in<tables::letters>(c); }
bool is_number(char32_t c) { return in<tables::numbers>(c); }
bool is_space(char32_t c) { return in<tables::spaces>(c); }
bool is_punctuation(char32_t c) { return in<tables::punctuation>(c); }

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool is_control(char32_t c) { return in<tables::control>(c); }
bool is_nonspacing(char32_t c) { return in<tables::nonspacing>(c); }
bool is_combining(char32_t c) { return in<tables::combining>(c); }
bool is_numeric(char32_t c) { return in<tables::numeric>(c); }
bool is_word(char32_t c) { return in<tables::word>(c); }
bool is_regex_word(char32_t c) { return in<tables::regex_word>(c); }

bool is_joined(char32_t character, char32_t next) {
  if (character == U'\r' && next == U'\n') return true;
  if (in<tables::grapheme_controls>(character)) return false;
  return in<tables::grapheme_extends>(next) ||
         (in<tables::grapheme_prepends>(character) && !in<tables::grapheme_controls>(next));
}

Points lower_case_of(char32_t c) {
  static const std::unordered_map<char32_t, Points> all = [] {
    std::unordered_map<char32_t, Points> map = rows_of(tables::lower_case_several);
    add_runs(map, tables::lower_case);
    return map;
  }();
  const auto found = all.find(c);
  return found == all.end() ? Points{c} : found->second;
}

}  // namespace fit::unicode
