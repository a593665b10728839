#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "base/affixes.hpp"
#include "chat/jinja.hpp"
#include "common/utf8.hpp"
#include "unicode/characters.hpp"

namespace fit::jinja {
namespace {

// Upper case is known here for ASCII alone.
void check_cases(const char* what, const std::string& text) {
  for (std::size_t at = 0; at < text.size();)
    if (const char32_t c = utf8::next(text, at); c >= 0x80)
      for (const char* const category : {"Ll", "Lu", "Lt"})
        if (unicode::category(category)(c)) fail(what, " of letters beyond ASCII is not known here");
}

std::string upper(std::string text) {
  check_cases("upper", text);
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  return text;
}
std::string lower(const std::string& text) {
  std::string all;
  for (std::size_t at = 0; at < text.size();)
    for (const char32_t c : unicode::lower_case_of(utf8::next(text, at))) unicode::append(all, c);
  return all;
}
std::string capitalized(const std::string& text) {
  check_cases("capitalize", text);
  return text.empty() ? text : upper(text.substr(0, 1)) + lower(text.substr(1));
}
// `ends_word`: whether a character ends a word. Python's method ends it at all but letters, Jinja's filter at some.
std::string titled(std::string text, bool (*ends_word)(char)) {
  check_cases("title", text);
  bool begins = true;
  for (char& c : text) {
    c = (begins ? upper(std::string(1, c)) : lower(std::string(1, c)))[0];
    begins = ends_word(c);
  }
  return text;
}
bool is_no_letter(char c) { return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')); }
bool separates_words(char c) { return std::string_view("-({[< \t\n\r\f\v").find(c) != std::string_view::npos; }

const std::string& string_in(const char* what, const Value& value) {
  if (!value.is_string()) fail(what, " of a ", value.type_name(), ": expected a string");
  return value.text();
}

std::string replaced(const std::string& text, const std::string& from, const std::string& to) {
  if (from.empty()) fail("replace: the text to replace is empty");
  std::string all;
  std::size_t at = 0;
  for (std::size_t found = text.find(from); found != std::string::npos; found = text.find(from, at)) {
    all.append(text, at, found - at).append(to);
    if (all.size() > (std::size_t{16} << 20)) fail("replace: the text gets longer than 16 MiB");
    at = found + from.size();
  }
  return all.append(text, at);
}

// The number of characters.
std::size_t length_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// As Python's repr(): the fewest digits that are this number, with an exponent for sizes outside of 1e-4 … 1e16.
std::string digits_of(double x) {
  if (!std::isfinite(x)) fail("a number is not finite: it can't be printed here");
  const double size = std::abs(x);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  char digits[32];
  const auto form = fixed ? std::chars_format::fixed : std::chars_format::scientific;
  std::string text(digits, std::to_chars(digits, digits + sizeof digits, x, form).ptr);
  return fixed && text.find('.') == std::string::npos ? text + ".0" : text;
}

void append_json(std::string& text, const Value& value, int indent, int depth) {
  if (!value.is_structured() || value.empty()) {
    text += value.is_undefined() ? "null" : value.is_real() ? text_of(value) : value.dump();
    return;
  }
  const auto line = [&](int levels) {
    if (indent >= 0) text += '\n' + std::string(static_cast<std::size_t>(indent * levels), ' ');
  };
  text += value.is_array() ? '[' : '{';
  bool first = true;
  const auto append = [&](const std::string& key, const Value& one) {
    if (!first) text += indent >= 0 ? "," : ", ";
    first = false;
    line(depth + 1);
    append_json(text += key, one, indent, depth + 1);
  };
  if (value.is_array())
    for (const Value& one : value) append("", one);
  else
    for (const auto& [key, one] : value.items()) append(Value(key).dump() + ": ", one);
  line(depth);
  text += value.is_array() ? ']' : '}';
}

Value items_of(const Value& object) {
  if (!object.is_object()) fail("items of a ", object.type_name(), ": expected a dictionary");
  Value list = Value::array();
  for (const auto& [key, value] : object.items()) list.push_back(Value::array({key, value}));
  return list;
}

// The text before the first white space.
std::string first_word(const std::string& text) {
  std::size_t at = 0;
  for (std::size_t next = 0; at < text.size() && !is_blank(utf8::next(text, next)); at = next) {
  }
  return text.substr(0, at);
}

Value split(const std::string& text, const Arguments& a) {
  const Value separator = a.get(0, "sep");
  const Value most = a.get(1, "maxsplit", -1);
  if (!most.is_integer()) fail("split: the number of splits must be whole");
  std::int64_t left = most.integer();
  Value list = Value::array();
  std::size_t at = 0;
  if (separator.is_undefined() || separator.is_null()) {
    if (left >= 0) fail("split: a number of splits needs a separator here");
    for (std::string rest = stripped(text, true, true); !rest.empty(); rest = stripped(rest, true, false)) {
      const std::string word = first_word(rest);
      list.push_back(word);
      rest.erase(0, word.size());
    }
    return list;
  }
  const std::string& by = string_in("split", separator);
  if (by.empty()) fail("split: the separator is empty");
  for (std::size_t found = text.find(by); found != std::string::npos && left != 0; found = text.find(by, at)) {
    if (left > 0) --left;
    list.push_back(text.substr(at, found - at));
    at = found + by.size();
  }
  list.push_back(text.substr(at));
  return list;
}

bool begins_with_any(const std::string& text, const Value& what, bool at_end) {
  if (what.is_array())
    return std::any_of(what.begin(), what.end(), [&](const Value& one) { return begins_with_any(text, one, at_end); });
  const std::string& affix = string_in("startswith", what);
  return at_end ? ends_with(text, affix) : starts_with(text, affix);
}

Value selected(const Value& list, const Arguments& a, bool wanted) {
  const std::string attribute = text_of(a.get(0, "attribute"));
  const Value test = a.get(1, "test");
  Arguments rest;
  if (a.all.size() > 2) rest.all.assign(a.all.begin() + 2, a.all.end());
  Value kept = Value::array();
  for (const Value& one : list) {
    const Value value = one.is_object() ? one[attribute] : undefined();
    if ((test.is_undefined() ? is_true(value) : tested(text_of(test), value, rest)) == wanted) kept.push_back(one);
  }
  return kept;
}

Value mapped(const Value& list, const Arguments& a) {
  Value all = Value::array();
  const Value attribute = a.get(SIZE_MAX, "attribute");
  for (const Value& one : list) {
    if (attribute.is_undefined())
      all.push_back(filtered(text_of(a.get(0, "filter")), one, {}));
    else
      all.push_back(one.is_object() ? one[text_of(attribute)] : undefined());
  }
  return all;
}

std::string joined_by(const Value& list, const std::string& by) {
  std::string text;
  bool first = true;
  for (const Value& one : list) {
    text += (first ? "" : by) + text_of(one);
    first = false;
  }
  return text;
}

// A filter of lists and dictionaries; undefined if there is none of this name.
Value filtered_list(const std::string& name, const Value& value, const Arguments& a) {
  if (name == "items") return items_of(value);
  if (name == "selectattr" || name == "rejectattr") return selected(value, a, name == "selectattr");
  if (name == "map") return mapped(value, a);
  if (name == "join") return joined_by(value, text_of(a.get(0, "d", "")));
  if (name == "list") return value;
  if (name == "first" || name == "last") {
    if (value.empty()) return undefined();
    return name == "first" ? value[0] : value[value.size() - 1];
  }
  if (name == "reverse") {
    Value list = value;
    std::reverse(list.elements().begin(), list.elements().end());
    return list;
  }
  return undefined();
}

constexpr std::int64_t exact = std::int64_t{1} << 53;  // doubles have all integers up to this one

// Throws Error for a comparison of an integer and a float that doubles can't decide.
void check_comparable(const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number() || a.is_real() == b.is_real() || a.number() != b.number()) return;
  if (std::abs(a.number()) >= static_cast<double>(exact))
    fail("a comparison of an integer as large as ", (a.is_real() ? b : a).dump(), " with a float is not known here");
}

// As Python's ==: true is 1, and false 0.
bool same(const Value& a, const Value& b) {
  if (a.is_boolean() && b.is_number()) return Value(int{a.boolean()}) == b;
  if (b.is_boolean() && a.is_number()) return same(b, a);
  check_comparable(a, b);
  if (a.is_array() && b.is_array()) return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
  if (!a.is_object() || !b.is_object()) return a == b;
  return a.size() == b.size() && std::all_of(a.items().begin(), a.items().end(), [&](const Value::Member& member) {
           const Value* const found = b.find(member.key);
           return found && same(member.value, *found);
         });
}

// Python's int, within 64 bits. The remainder has the divisor's sign.
Value of_integers(const std::string& sign, std::int64_t x, std::int64_t y) {
  std::int64_t z = 0;
  bool fits = true;
  if (sign == "+") {
    fits = !__builtin_add_overflow(x, y, &z);
  } else if (sign == "-") {
    fits = !__builtin_sub_overflow(x, y, &z);
  } else if (sign == "*") {
    fits = !__builtin_mul_overflow(x, y, &z);
  } else if (y == 0) {
    fail("a division by 0");
  } else if (sign == "/") {
    if (std::max(x, y) <= exact && std::min(x, y) >= -exact) return static_cast<double>(x) / static_cast<double>(y);
    fits = false;
  } else if ((fits = x != INT64_MIN || y != -1)) {
    const std::int64_t rest = x % y;
    const bool other_sign = rest != 0 && (rest < 0) != (y < 0);
    z = sign == "%" ? rest + other_sign * y : x / y - other_sign;
  }
  if (!fits) fail("'", sign, "' of ", x, " and ", y, ": numbers as large as this are not known here");
  return z;
}

// Python's float.
double of_reals(const std::string& sign, double x, double y) {
  if (sign == "+") return x + y;
  if (sign == "-") return x - y;
  if (sign == "*") return x * y;
  if (y == 0) fail("a division by 0");
  if (sign == "/") return x / y;
  const double rest = std::fmod(x, y);
  const bool other_sign = rest != 0 && (rest < 0) != (y < 0);
  if (sign == "%") return std::copysign(other_sign ? rest + y : rest, y);
  const double whole = (x - rest) / y - other_sign;
  if (whole == 0) return std::copysign(0., x / y);
  return std::floor(whole) + (whole - std::floor(whole) > 0.5);  // whole is rounded
}

}  // namespace

Value keys_of(const Value& object) {
  Value keys = Value::array();
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is_null()) return false;
  if (value.is_boolean()) return value.boolean();
  if (value.is_number()) return value.number() != 0;
  if (value.is_string()) return !value.text().empty();
  return !value.empty();
}

std::string text_of(const Value& value) {
  if (value.is_undefined()) return {};
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.boolean() ? "True" : "False";
  if (value.is_string()) return value.text();
  if (value.is_real()) return digits_of(value.number());
  if (value.is_number()) return value.dump();
  fail("a ", value.type_name(), " can't be printed here: the template should use tojson");
}

std::string json_of(const Value& value, int indent) {
  std::string text;
  append_json(text, value, indent, 0);
  return text;
}

Value filtered(const std::string& name, const Value& value, const Arguments& a) {
  if (name == "default" || name == "d") {
    const bool empty = is_true(a.get(1, "boolean", false)) ? !is_true(value) : value.is_undefined();
    return empty ? a.get(0, "default_value", "") : value;
  }
  if (name == "tojson") {
    const Value indent = a.get(0, "indent", nullptr);
    return json_of(value, indent.is_integer() ? static_cast<int>(std::min<std::int64_t>(indent.integer(), 16)) : -1);
  }
  if (name == "length" || name == "count") {
    if (value.is_string()) return length_of(value.text());
    if (!value.is_structured()) fail("length of a ", value.type_name());
    return value.size();
  }
  if (name == "string") return text_of(value);
  if (name == "safe") return value;
  if (name == "int" && value.is_integer()) return value;
  if (name == "int" && value.is_real() && std::abs(value.number()) < 9e15)
    return static_cast<std::int64_t>(value.number());
  if (value.is_string()) {
    const auto& text = value.text();
    if (name == "trim") return stripped(text, true, true, text_of(a.get(0, "chars", "")));
    if (name == "upper") return upper(text);
    if (name == "lower") return lower(text);
    if (name == "title") return titled(text, separates_words);
    if (name == "capitalize") return capitalized(text);
    if (name == "replace") return replaced(text, text_of(a.get(0, "old")), text_of(a.get(1, "new")));
  } else if (value.is_structured()) {
    for (const char* known : {"items", "selectattr", "rejectattr", "map", "join", "list", "first", "last", "reverse"})
      if (name == known) return filtered_list(name, value.is_array() || name == "items" ? value : keys_of(value), a);
  }
  fail("the filter '", name, "' of a ", value.type_name(), " is not known here");
}

bool tested(const std::string& name, const Value& value, const Arguments& a) {
  if (name == "defined") return !value.is_undefined();
  if (name == "undefined") return value.is_undefined();
  if (name == "none") return value.is_null();
  if (name == "string") return value.is_string();
  if (name == "mapping") return value.is_object();
  if (name == "iterable" || name == "sequence") return value.is_structured() || value.is_string();
  if (name == "number") return value.is_number() || value.is_boolean();
  if (name == "integer") return value.is_integer();
  if (name == "boolean") return value.is_boolean();
  if (name == "true") return value == true;
  if (name == "false") return value == false;
  if (name == "equalto" || name == "eq") return same(value, a.get(0, "other"));
  if (name == "sameas") return value == a.get(0, "other");
  if (name == "in") return contains(a.get(0, "seq"), value);
  if ((name == "odd" || name == "even") && value.is_integer()) return (value.integer() % 2 != 0) == (name == "odd");
  fail("the test '", name, "' is not known here");
}

Value method(const Value& object, const std::string& name, const Arguments& a) {
  if (object.is_object()) {
    if (name == "items") return items_of(object);
    if (name == "get") {
      const std::string key = text_of(a.get(0, "key"));
      return object.contains(key) ? object[key] : a.get(1, "default", nullptr);
    }
    if (name == "keys") return keys_of(object);
    if (name == "values") {
      Value list = Value::array();
      for (const auto& [key, value] : object.items()) list.push_back(value);
      return list;
    }
  }
  if (object.is_string()) {
    const auto& text = object.text();
    const std::string which = name.find("strip") != std::string::npos ? text_of(a.get(0, "chars", "")) : "";
    if (name == "strip") return stripped(text, true, true, which);
    if (name == "lstrip") return stripped(text, true, false, which);
    if (name == "rstrip") return stripped(text, false, true, which);
    if (name == "startswith" || name == "endswith")
      return begins_with_any(text, a.get(0, "prefix"), name == "endswith");
    if (name == "split") return split(text, a);
    if (name == "replace") return replaced(text, text_of(a.get(0, "old")), text_of(a.get(1, "new")));
    if (name == "title") return titled(text, is_no_letter);
    if (name == "upper" || name == "lower" || name == "capitalize") return filtered(name, object, a);
    if (name == "find") {
      const std::size_t at = text.find(text_of(a.get(0, "sub")));
      return at == std::string::npos ? std::int64_t{-1} : static_cast<std::int64_t>(length_of(text.substr(0, at)));
    }
  }
  fail("the method '", name, "' of a ", object.type_name(), " is not known here");
}

bool contains(const Value& container, const Value& value) {
  if (container.is_undefined() || container.is_null()) return false;
  if (container.is_string()) return container.text().find(string_in("in", value)) != std::string::npos;
  if (container.is_object()) return value.is_string() && container.contains(value.text());
  return std::any_of(container.begin(), container.end(), [&](const Value& one) { return same(one, value); });
}

Value binary(const std::string& sign, const Value& a, const Value& b) {
  if (sign == "==" || sign == "!=") return same(a, b) == (sign == "==");
  if (sign == "in" || sign == "not in") return contains(b, a) == (sign == "in");
  if (sign == "~") return text_of(a) + text_of(b);
  if (sign == "+" && a.is_string() && b.is_string()) return a.text() + b.text();
  if (sign == "+" && a.is_array() && b.is_array()) {
    Value list = a;
    list.elements().insert(list.elements().end(), b.begin(), b.end());
    return list;
  }
  const bool order = sign == "<" || sign == ">" || sign == "<=" || sign == ">=";
  if (!(a.is_number() && b.is_number()) && !(order && a.is_string() && b.is_string()))
    fail("'", sign, "' of a ", a.type_name(), " and a ", b.type_name());
  if (order) {
    check_comparable(a, b);
    return sign == "<" ? a < b : sign == ">" ? b < a : sign == "<=" ? !(b < a) : !(a < b);
  }
  if (a.is_integer() && b.is_integer()) return of_integers(sign, a.integer(), b.integer());
  return of_reals(sign, a.number(), b.number());
}

}  // namespace fit::jinja
