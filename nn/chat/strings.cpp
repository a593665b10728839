// The filters and methods of strings.
#include <algorithm>
#include <cmath>

#include "base/affixes.hpp"
#include "base/from_chars.hpp"
#include "chat/jinja.hpp"
#include "common/utf8.hpp"
#include "unicode/characters.hpp"

namespace fit::jinja {

const std::string& string_in(const char* what, const Value& value) {
  if (!value.is_string()) fail(what, " of a ", value.type_name(), ": expected a string");
  return value.text();
}

std::int64_t integer_in(const char* what, const Value& value) {
  if (value.is_boolean()) return value.boolean();
  if (!value.is_integer()) fail(what, " of a ", value.type_name(), ": expected a whole number");
  return value.integer();
}

std::string lower(const std::string& text) {
  std::string all;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = utf8::next(text, at);
    if (c == 0x3A3) fail("lower of a sigma, whose form depends on its place, is not known here");
    for (const char32_t one : unicode::lower_case_of(c)) unicode::append(all, one);
  }
  return all;
}

namespace {

bool is_cased(char32_t c) {
  for (const char* const category : {"Ll", "Lu", "Lt"})
    if (unicode::category(category)(c)) return true;
  return false;
}

// Upper case is known here for ASCII alone.
std::string upper(const std::string& text) {
  std::string all = text;
  for (std::size_t at = 0; at < text.size();)
    if (const char32_t c = utf8::next(text, at); c >= 0x80 && is_cased(c))
      fail("upper of letters beyond ASCII is not known here");
  for (char& c : all)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  return all;
}

std::string capitalized(const std::string& text) {
  std::size_t end = 0;
  if (!text.empty()) utf8::next(text, end);
  return upper(text.substr(0, end)) + lower(text.substr(end));
}

// `ends_word`: whether a character ends a word. Python's method ends it at all without a case, Jinja's filter at some.
std::string titled(const std::string& text, bool (*ends_word)(char32_t)) {
  std::string all;
  bool begins = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = utf8::next(text, at);
    const std::string one = text.substr(begin, at - begin);
    all += begins ? upper(one) : lower(one);
    begins = ends_word(c);
  }
  return all;
}
bool has_no_case(char32_t c) { return !is_cased(c); }
bool separates_words(char32_t c) {
  return is_blank(c) || (c < 0x80 && std::string("-({[<").find(static_cast<char>(c)) != std::string::npos);
}

// In the first `count` places; in all if it is negative. `text_in`: what the texts of the arguments are.
template <class TextIn>
std::string replaced(const std::string& text, Arguments& a, TextIn text_in) {
  const std::string from = text_in(a.needed(0, "old")), to = text_in(a.needed(1, "new"));
  const Value count = a.get(2, "count", nullptr);
  std::int64_t left = count.is_null() ? -1 : integer_in("replace", count);
  if (from.empty()) fail("replace: the text to replace is empty");
  std::string all;
  std::size_t at = 0;
  for (std::size_t found = text.find(from); found != std::string::npos && left != 0; found = text.find(from, at)) {
    all.append(text, at, found - at).append(to);
    if (all.size() > (std::size_t{16} << 20)) fail("replace: the text gets longer than 16 MiB");
    at = found + from.size();
    left -= left > 0;
  }
  return all.append(text, at);
}

std::string strip(const std::string& text, Arguments& a, bool left, bool right) {
  const Value which = a.get(0, "chars", nullptr);
  if (which.is_null()) return stripped(text, left, right);
  return string_in("strip", which).empty() ? text : stripped(text, left, right, which.text());
}

// ---- parts --------------------------------------------------------------------------------------------------------

// The text before the first white space.
std::string first_word(const std::string& text) {
  std::size_t at = 0;
  for (std::size_t next = 0; at < text.size() && !is_blank(utf8::next(text, next)); at = next) {
  }
  return text.substr(0, at);
}

Value::List words_of(const std::string& text, std::int64_t left) {
  Value::List all;
  for (std::string rest = stripped(text, true, false); !rest.empty(); rest = stripped(rest, true, false)) {
    const std::string word = left-- == 0 ? rest : first_word(rest);
    all.push_back(word);
    rest.erase(0, word.size());
  }
  return all;
}

// At most `left` splits; any number if it is negative. `last`: the last ones.
Value split(const std::string& text, Arguments& a, bool last) {
  const Value separator = a.get(0, "sep", nullptr);
  std::int64_t left = integer_in("split", a.get(1, "maxsplit", -1));
  if (separator.is_null()) {
    if (last && left >= 0) fail("rsplit: a number of splits needs a separator here");
    return Value::list(words_of(text, left));
  }
  const std::string& by = string_in("split", separator);
  if (by.empty()) fail("split: the separator is empty");
  Value::List all;
  if (last) {
    std::size_t end = text.size();
    for (; left != 0 && end >= by.size(); --left) {
      const std::size_t found = text.rfind(by, end - by.size());
      if (found == std::string::npos) break;
      all.push_back(text.substr(found + by.size(), end - found - by.size()));
      end = found;
    }
    all.push_back(text.substr(0, end));
    std::reverse(all.begin(), all.end());
    return Value::list(std::move(all));
  }
  std::size_t at = 0;
  for (std::size_t found = text.find(by); found != std::string::npos && left != 0; found = text.find(by, at)) {
    left -= left > 0;
    all.push_back(text.substr(at, found - at));
    at = found + by.size();
  }
  all.push_back(text.substr(at));
  return Value::list(std::move(all));
}

// Before the separator, it, and behind it.
Value parted(const std::string& text, Arguments& a, bool last) {
  const Value separator = a.needed(0, "sep");
  const std::string& by = string_in("partition", separator);
  if (by.empty()) fail("partition: the separator is empty");
  const std::size_t at = last ? text.rfind(by) : text.find(by);
  if (at == std::string::npos) return last ? Value::tuple({"", "", text}) : Value::tuple({text, "", ""});
  return Value::tuple({text.substr(0, at), by, text.substr(at + by.size())});
}

bool ends_line(char32_t c) {
  return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

Value::List lines_of(const std::string& text) {
  Value::List all;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    const char32_t c = utf8::next(text, at);
    if (!ends_line(c)) continue;
    all.push_back(text.substr(begin, end - begin));
    if (c == '\r' && text[at] == '\n') ++at;
    begin = at;
  }
  if (begin < text.size()) all.push_back(text.substr(begin));
  return all;
}

std::string indented(const std::string& text, Arguments& a) {
  const Value width = a.get(0, "width", 4);
  const bool first = is_true(a.get(1, "first", false)), blank = is_true(a.get(2, "blank", false));
  const std::int64_t spaces = width.is_string() ? 0 : std::max<std::int64_t>(integer_in("indent", width), 0);
  if (spaces > 1000) fail("indent of ", spaces, " spaces: expected 1000 at most");
  const std::string by = width.is_string() ? width.text() : std::string(static_cast<std::size_t>(spaces), ' ');
  std::string all;
  const Value::List lines = lines_of(text + '\n');
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) all += '\n';
    if (i > 0 ? blank || !lines[i].text().empty() : first) all += by;
    all += lines[i].text();
  }
  return all;
}

std::string joined(const std::string& by, Arguments& a) {
  const Value::List all = elements_of("join", a.needed(0, "iterable"));
  std::string text;
  for (const Value& one : all) text += (&one == all.data() ? "" : by) + string_in("join", one);
  return text;
}

// ---- searches -----------------------------------------------------------------------------------------------------

bool begins_with_any(const std::string& text, const Value& what, bool at_end) {
  if (what.kind() == Value::Kind::tuple)
    return std::any_of(what.elements().begin(), what.elements().end(),
                       [&](const Value& one) { return begins_with_any(text, one, at_end); });
  const std::string& affix = string_in("startswith", what);
  return at_end ? ends_with(text, affix) : starts_with(text, affix);
}

// The byte at which a character begins; a negative number counts from the end.
std::size_t byte_of(const std::string& text, std::int64_t character) {
  const auto size = static_cast<std::int64_t>(length_of(text));
  if (character < 0) character = std::max<std::int64_t>(character + size, 0);
  std::size_t at = 0;
  for (; character > 0 && at < text.size(); --character) utf8::next(text, at);
  return at;
}

// The place of a text in the characters from `start` to `end`, -1 without one.
std::int64_t place_of(const std::string& text, Arguments& a, bool last) {
  const Value what = a.needed(0, "sub"), start = a.get(1, "start", nullptr), end = a.get(2, "end", nullptr);
  const std::string& sub = string_in("find", what);
  const std::int64_t first = start.is_null() ? 0 : integer_in("find", start);
  if (first > static_cast<std::int64_t>(length_of(text))) return -1;
  const std::size_t begin = byte_of(text, first);
  const std::size_t stop = end.is_null() ? text.size() : byte_of(text, integer_in("find", end));
  if (stop < begin) return -1;
  const std::string part = text.substr(begin, stop - begin);
  const std::size_t at = last ? part.rfind(sub) : part.find(sub);
  return at == std::string::npos ? -1 : static_cast<std::int64_t>(length_of(text.substr(0, begin + at)));
}

Value index_of(const std::string& text, Arguments& a, bool last) {
  const std::int64_t at = place_of(text, a, last);
  if (at < 0) fail("index: the text is not there");
  return at;
}

Value count_of(const std::string& text, Arguments& a) {
  const Value what = a.needed(0, "sub");
  const std::string& sub = string_in("count", what);
  if (sub.empty()) return length_of(text) + 1;
  std::int64_t count = 0;
  for (std::size_t at = text.find(sub); at != std::string::npos; at = text.find(sub, at + sub.size())) ++count;
  return count;
}

// Whether there are characters, all of them of this class, which is known here for ASCII.
Value all_are(const char* name, const std::string& text, bool (*is)(char)) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) >= 0x80) fail(name, " of characters beyond ASCII is not known here");
  return !text.empty() && std::all_of(text.begin(), text.end(), is);
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// ---- forms --------------------------------------------------------------------------------------------------------

// `by` is before (left) or behind the text as often as it needs to have so many characters.
std::string filled(const std::string& text, std::int64_t width, bool left, char by = ' ') {
  if (width > 10'000) fail("a width of ", width, " characters: expected 10000 at most");
  const auto size = static_cast<std::int64_t>(length_of(text));
  const std::string fill(static_cast<std::size_t>(std::max<std::int64_t>(width - size, 0)), by);
  return left ? fill + text : text + fill;
}

// With zeros between the sign and the digits.
std::string zero_filled(const std::string& text, std::int64_t width) {
  const bool has_sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  return text.substr(0, has_sign) + filled(text.substr(has_sign), width - has_sign, true, '0');
}

std::string fixed(double x, int places) {
  if (!std::isfinite(x)) fail("a number is not finite: it can't be printed here");
  char digits[512];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, x, std::chars_format::fixed, places).ptr);
}

// What %s, %r, %d or %f, with this number of places, makes of a value.
std::string converted(const std::string& kind, const Value& value, int places) {
  if (kind == "s" && places < 0) return text_of(value);
  if (kind == "r" && places < 0) return repr_of(value);
  if ((kind == "d" || kind == "i") && places < 0) {
    if (value.is_real() && std::abs(value.number()) < 9e15)
      return std::to_string(static_cast<std::int64_t>(value.number()));
    return std::to_string(integer_in("%d", value));
  }
  if (kind == "f")
    return fixed(value.is_real() ? value.number() : static_cast<double>(integer_in("%f", value)),
                 places < 0 ? 6 : places);
  fail("'%", kind, "' is not known here in a format");
}

}  // namespace

std::string formatted(const std::string& format, const Value::List& values) {
  std::string all;
  std::size_t next = 0, at = 0;
  const auto number = [&] {
    int n = 0;
    for (; at < format.size() && is_digit(format[at]) && n < 1000; ++at) n = 10 * n + (format[at] - '0');
    return n;
  };
  while (at < format.size()) {
    if (format[at] != '%') {
      all += format[at++];
      continue;
    }
    if (++at < format.size() && format[at] == '%') {
      all += format[at++];
      continue;
    }
    bool left = false, zeros = false;
    for (; at < format.size() && (format[at] == '-' || format[at] == '0'); ++at)
      (format[at] == '-' ? left : zeros) = true;
    const int width = number();
    const bool has_places = at < format.size() && format[at] == '.';
    if (has_places) ++at;
    const int places = has_places ? std::min(number(), 100) : -1;
    if (at >= format.size()) fail("a format ends within a '%'");
    const std::string kind = utf8::character(format, at);
    at += kind.size();
    if (next >= values.size()) fail("a format needs more than ", values.size(), " values");
    const std::string one = converted(kind, values[next++], places);
    all += zeros && !left && kind != "s" && kind != "r" ? zero_filled(one, width) : filled(one, width, !left);
  }
  if (next < values.size()) fail("a format does not use all of ", values.size(), " values");
  return all;
}

// ---- the tables ---------------------------------------------------------------------------------------------------

const Rows& string_filters() {
  using A = Arguments;
  static const Rows rows{
      {"trim", [](const Value& v, A& a) -> Value { return strip(text_of(v), a, true, true); }},
      {"upper", [](const Value& v, A&) -> Value { return upper(text_of(v)); }},
      {"lower", [](const Value& v, A&) -> Value { return lower(text_of(v)); }},
      {"title", [](const Value& v, A&) -> Value { return titled(text_of(v), separates_words); }},
      {"capitalize", [](const Value& v, A&) -> Value { return capitalized(text_of(v)); }},
      {"replace", [](const Value& v, A& a) -> Value { return replaced(text_of(v), a, text_of); }},
      {"indent", [](const Value& v, A& a) -> Value { return indented(string_in("indent", v), a); }},
      {"format", [](const Value& v, A& a) -> Value { return formatted(text_of(v), a.rest_of_places()); }},
      {"string", [](const Value& v, A&) -> Value { return text_of(v); }},
      {"safe", [](const Value& v, A&) -> Value { return text_of(v); }},
  };
  return rows;
}

const Rows& string_methods() {
  using A = Arguments;
  static const Rows rows{
      {"strip", [](const Value& v, A& a) -> Value { return strip(v.text(), a, true, true); }},
      {"lstrip", [](const Value& v, A& a) -> Value { return strip(v.text(), a, true, false); }},
      {"rstrip", [](const Value& v, A& a) -> Value { return strip(v.text(), a, false, true); }},
      {"startswith",
       [](const Value& v, A& a) -> Value { return begins_with_any(v.text(), a.needed(0, "prefix"), false); }},
      {"endswith",
       [](const Value& v, A& a) -> Value { return begins_with_any(v.text(), a.needed(0, "suffix"), true); }},
      {"split", [](const Value& v, A& a) -> Value { return split(v.text(), a, false); }},
      {"rsplit", [](const Value& v, A& a) -> Value { return split(v.text(), a, true); }},
      {"splitlines", [](const Value& v, A&) -> Value { return Value::list(lines_of(v.text())); }},
      {"partition", [](const Value& v, A& a) -> Value { return parted(v.text(), a, false); }},
      {"rpartition", [](const Value& v, A& a) -> Value { return parted(v.text(), a, true); }},
      {"join", [](const Value& v, A& a) -> Value { return joined(v.text(), a); }},
      {"replace",
       [](const Value& v, A& a) -> Value {
         return replaced(v.text(), a, [](const Value& one) { return string_in("replace", one); });
       }},
      {"upper", [](const Value& v, A&) -> Value { return upper(v.text()); }},
      {"lower", [](const Value& v, A&) -> Value { return lower(v.text()); }},
      {"title", [](const Value& v, A&) -> Value { return titled(v.text(), has_no_case); }},
      {"capitalize", [](const Value& v, A&) -> Value { return capitalized(v.text()); }},
      {"find", [](const Value& v, A& a) -> Value { return place_of(v.text(), a, false); }},
      {"rfind", [](const Value& v, A& a) -> Value { return place_of(v.text(), a, true); }},
      {"index", [](const Value& v, A& a) -> Value { return index_of(v.text(), a, false); }},
      {"rindex", [](const Value& v, A& a) -> Value { return index_of(v.text(), a, true); }},
      {"count", [](const Value& v, A& a) -> Value { return count_of(v.text(), a); }},
      {"removeprefix",
       [](const Value& v, A& a) -> Value {
         const std::string prefix = string_in("removeprefix", a.needed(0, "prefix"));
         return starts_with(v.text(), prefix) ? v.text().substr(prefix.size()) : v.text();
       }},
      {"removesuffix",
       [](const Value& v, A& a) -> Value {
         const std::string suffix = string_in("removesuffix", a.needed(0, "suffix"));
         return ends_with(v.text(), suffix) ? v.text().substr(0, v.text().size() - suffix.size()) : v.text();
       }},
      {"isdigit", [](const Value& v, A&) { return all_are("isdigit", v.text(), is_digit); }},
      {"isalpha", [](const Value& v, A&) { return all_are("isalpha", v.text(), is_letter); }},
      {"isalnum", [](const Value& v,
                     A&) { return all_are("isalnum", v.text(), [](char c) { return is_digit(c) || is_letter(c); }); }},
      {"ljust",
       [](const Value& v, A& a) -> Value {
         return filled(v.text(), integer_in("ljust", a.needed(0, "width")), false);
       }},
      {"rjust",
       [](const Value& v, A& a) -> Value { return filled(v.text(), integer_in("rjust", a.needed(0, "width")), true); }},
      {"zfill",
       [](const Value& v, A& a) -> Value { return zero_filled(v.text(), integer_in("zfill", a.needed(0, "width"))); }},
  };
  return rows;
}

}  // namespace fit::jinja
