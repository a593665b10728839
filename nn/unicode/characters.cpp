#include "unicode/characters.hpp"

#include <algorithm>
#include <unordered_map>

#include "common/utf8.hpp"
#include "tensor/check.hpp"
#include "unicode/rows.hpp"

namespace fit::unicode {
namespace {

// Ranges of characters, with a bitmap of the first 128.
class RangeSet {
 public:
  explicit RangeSet(const tables::Table& table) {
    char32_t end = 0;
    for (std::size_t i = 0; i + 1 < table.size; i += 2) {
      begins_.push_back(end + static_cast<char32_t>(table.numbers[i]));
      end = begins_.back() + static_cast<char32_t>(table.numbers[i + 1]);
      ends_.push_back(end);
    }
    for (char32_t c = 0; c < 128; ++c) ascii_[c] = found(c);
  }
  bool holds(char32_t c) const { return c < 128 ? ascii_[c] : found(c); }

 private:
  bool found(char32_t c) const {
    const auto at = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), c) - ends_.begin());
    return at < ends_.size() && c >= begins_[at];
  }
  Points begins_, ends_;
  bool ascii_[128];
};

template <const tables::Table& table>
bool in(char32_t c) {
  static const RangeSet set(table);
  return set.holds(c);
}

bool is_other_letter(char32_t c) {
  return is_letter(c) && !in<tables::category_Lu>(c) && !in<tables::category_Ll>(c) && !in<tables::category_Lt>(c) &&
         !in<tables::category_Lm>(c);
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

CharacterSet category(const std::string& name) {
  static const std::unordered_map<std::string, CharacterSet> all = {
      {"L", is_letter},
      {"N", is_number},
      {"M", in<tables::category_M>},
      {"P", in<tables::category_P>},
      {"S", in<tables::category_S>},
      {"Lu", in<tables::category_Lu>},
      {"Ll", in<tables::category_Ll>},
      {"Lt", in<tables::category_Lt>},
      {"Lm", in<tables::category_Lm>},
      {"Lo", is_other_letter},
      {"Nd", in<tables::category_Nd>},
  };
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}

Points lower_case_of(char32_t c) {
  static const std::unordered_map<char32_t, Points> all = [] {
    std::unordered_map<char32_t, Points> map = rows_of(tables::lower_case_several);
    const tables::Table& t = tables::lower_case;
    std::int32_t first = 0;
    for (std::size_t i = 0; i + 4 < t.size; i += 5) {
      first += t.numbers[i];
      for (std::int32_t k = 0; k < t.numbers[i + 1]; ++k)
        map[static_cast<char32_t>(first + k * t.numbers[i + 2])] = {
            static_cast<char32_t>(first + t.numbers[i + 3] + k * t.numbers[i + 4])};
    }
    return map;
  }();
  const auto found = all.find(c);
  return found == all.end() ? Points{c} : found->second;
}

}  // namespace fit::unicode
