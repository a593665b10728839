#include "chat/value.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/utf8.hpp"
#include "unicode/characters.hpp"

namespace fit::jinja {

using Kind = Value::Kind;

Value Value::of(const io::Json& json) {
  Value value;
  if (json.is_array()) {
    List all;
    for (const io::Json& one : json) all.push_back(of(one));
    return list(std::move(all));
  }
  if (json.is_object()) {  // its keys are different
    auto all = std::make_shared<Members>();
    for (const auto& [key, one] : json.items()) all->push_back({key, of(one)});
    value.kind_ = Kind::dictionary;
    value.of_ = std::move(all);
    return value;
  }
  value.of_ = json;
  return value;
}

Value Value::list(List all, Kind kind) {
  Value value;
  value.kind_ = kind;
  value.of_ = std::make_shared<List>(std::move(all));
  return value;
}

Value Value::dictionary(Members all) {
  auto kept = std::make_shared<Members>();
  for (Member& member : all) {
    if (!member.key.is_scalar() && member.key.kind() != Kind::tuple)
      fail("a ", member.key.type_name(), " is no key of a dictionary");
    const auto found =
        std::find_if(kept->begin(), kept->end(), [&](const Member& m) { return same(m.key, member.key); });
    if (found == kept->end())
      kept->push_back(std::move(member));
    else
      found->value = std::move(member.value);
  }
  Value value;
  value.kind_ = Kind::dictionary;
  value.of_ = std::move(kept);
  return value;
}

Value Value::function(const std::string& name) {
  Value value(name);
  value.kind_ = Kind::function;
  return value;
}

const char* Value::type_name() const {
  static const char* const names[] = {"",           "list",      "tuple", "range", "view",    "generator",
                                      "dictionary", "namespace", "loop",  "macro", "function"};
  return is_scalar() ? scalar().type_name() : names[static_cast<std::size_t>(kind_)];
}

const Value* Value::find(const Value& key) const {
  for (const Member& member : items())
    if (same(member.key, key)) return &member.value;
  return nullptr;
}

Value::List Value::taken(std::size_t n) const {
  List& all = *std::get<std::shared_ptr<List>>(of_);
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(n, all.size()));
  List first(all.begin(), end);
  if (kind_ == Kind::generator) all.erase(all.begin(), end);
  return first;
}

void Space::set(const std::string& name, const Value& value) {
  for (auto& [known, old] : members)
    if (known == name) {
      old = value;
      return;
    }
  members.emplace_back(name, value);
}

bool is_true(const Value& value) {
  if (value.has_elements()) return value.kind() == Kind::generator || !value.elements().empty();
  if (value.is_dictionary()) return !value.items().empty();
  if (!value.is_scalar()) return true;
  if (value.is_undefined() || value.is_null()) return false;
  if (value.is_boolean()) return value.boolean();
  if (value.is_number()) return value.number() != 0;
  return !value.text().empty();
}

Value::List letters_of(const std::string& text) {
  Value::List all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    utf8::next(text, at);
    all.push_back(text.substr(begin, at - begin));
  }
  return all;
}

Value::List elements_of(const char* what, const Value& value) {
  if (value.has_elements()) return value.taken();
  if (value.is_undefined()) return {};
  if (value.is_string()) return letters_of(value.text());
  if (!value.is_dictionary()) fail(what, " of a ", value.type_name(), ": expected a list");
  Value::List keys;
  for (const auto& [key, one] : value.items()) keys.push_back(key);
  return keys;
}

std::size_t length_of(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.has_elements() && value.kind() != Kind::generator) return value.elements().size();
  if (value.is_dictionary()) return value.items().size();
  if (!value.is_string()) fail("length of a ", value.type_name());
  const std::string& text = value.text();
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), utf8::starts_code_point));
}

// ---- texts --------------------------------------------------------------------------------------------------------

namespace {

// The fewest digits that are this number, with an exponent for sizes outside of 1e-4 … 1e16.
std::string digits_of(double x) {
  if (!std::isfinite(x)) fail("a number is not finite: it can't be printed here");
  const double size = std::abs(x);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  char digits[32];
  const auto form = fixed ? std::chars_format::fixed : std::chars_format::scientific;
  std::string text(digits, std::to_chars(digits, digits + sizeof digits, x, form).ptr);
  return fixed && text.find('.') == std::string::npos ? text + ".0" : text;
}

// Whether Python prints a character as it is.
bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= ' ';
  for (const char* const name : {"M", "P", "S"})
    if (unicode::category(name)(c)) return true;
  return unicode::is_letter(c) || unicode::is_number(c);
}

std::string escaped(char32_t c) {
  const bool one = c <= 0xFF, two = c <= 0xFFFF;
  std::string text = one ? "\\x" : two ? "\\u" : "\\U";
  for (int shift = one ? 4 : two ? 12 : 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[c >> shift & 15];
  return text;
}

std::string quoted(const std::string& text) {
  const bool twice = text.find('\'') != std::string::npos && text.find('"') == std::string::npos;
  const char quote = twice ? '"' : '\'';
  std::string all(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = utf8::next(text, at);
    if (c == '\\' || c == static_cast<unsigned char>(quote))
      (all += '\\') += static_cast<char>(c);
    else if (c == '\n' || c == '\r' || c == '\t')
      all += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    else if (is_printable(c))
      unicode::append(all, c);
    else
      all += escaped(c);
  }
  return all + quote;
}

// What stands between elements, which are written by `write`.
template <class All, class Write>
std::string listed(const All& all, const std::string& comma, Write write) {
  std::string text;
  for (const auto& one : all) text += (&one == &all[0] ? "" : comma) + write(one);
  return text;
}

std::string json_below(const Value& value, const JsonStyle& style, const std::string& line) {
  if (value.is_undefined()) fail("tojson of a value that is not defined");
  if (value.is_scalar()) {
    if (value.is_real()) return text_of(value);
    return style.ascii ? value.scalar().ascii() : value.scalar().dump();
  }
  const std::string inner = style.lines ? line + style.indent : "";
  const auto enclosed = [&](char open, const std::string& text, char close) {
    return text.empty() ? std::string{open, close} : open + inner + text + line + close;
  };
  const auto below = [&](const Value& one) { return json_below(one, style, inner); };
  if (value.kind() == Kind::list || value.kind() == Kind::tuple)
    return enclosed('[', listed(value.elements(), style.comma + inner, below), ']');
  if (!value.is_dictionary()) fail("tojson of a ", value.type_name(), ": expected a list or dictionary");
  Value::Members all = value.items();
  if (style.sorts)
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return less(a.key, b.key); });
  return enclosed('{',
                  listed(all, style.comma + inner,
                         [&](const Value::Member& member) {
                           const std::string key = below(member.key);
                           return (member.key.is_string() ? key : '"' + key + '"') + style.colon + below(member.value);
                         }),
                  '}');
}

}  // namespace

std::string text_of(const Value& value) {
  if (value.is_undefined()) return {};
  return value.is_string() ? value.text() : repr_of(value);
}

std::string repr_of(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.boolean() ? "True" : "False";
  if (value.is_string()) return quoted(value.text());
  if (value.is_real()) return digits_of(value.number());
  if (value.is_number()) return value.scalar().dump();
  if (value.kind() == Kind::list) return '[' + listed(value.elements(), ", ", repr_of) + ']';
  if (value.kind() == Kind::tuple)
    return '(' + listed(value.elements(), ", ", repr_of) + (value.elements().size() == 1 ? ",)" : ")");
  if (value.is_dictionary())
    return '{' +
           listed(value.items(), ", ",
                  [](const Value::Member& member) { return repr_of(member.key) + ": " + repr_of(member.value); }) +
           '}';
  fail("a ", value.type_name(), " can't be printed here: the template should use tojson, or the filter list");
}

std::string json_of(const Value& value, const JsonStyle& style) {
  return json_below(value, style, style.lines ? "\n" : "");
}

// ---- members ------------------------------------------------------------------------------------------------------

namespace {

// Whether Python's type of a value has a method of this name, which Jinja finds beside the keys.
bool has_method(const Value& value, const std::string& name) {
  const char* const names =
      value.is_dictionary()         ? " clear copy fromkeys get items keys pop popitem setdefault update values "
      : value.kind() == Kind::list  ? " append clear copy count extend index insert pop remove reverse sort "
      : value.kind() == Kind::tuple ? " count index "
      : value.kind() == Kind::range ? " count index start step stop "
      : value.kind() == Kind::view  ? " isdisjoint mapping "
      : value.is_real()             ? " as_integer_ratio conjugate fromhex hex imag is_integer real "
      : value.is_integer() || value.is_boolean()
          ? " as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes "
      : value.is_string() ? " capitalize casefold center count encode endswith expandtabs find format format_map index "
                            "isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable "
                            "isspace istitle isupper join ljust lower lstrip maketrans partition removeprefix "
                            "removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines "
                            "startswith strip swapcase title translate upper zfill "
                          : "";
  return std::string(names).find(' ' + name + ' ') != std::string::npos;
}

}  // namespace

Value member_of(const Value& object, const Value& key, bool attribute) {
  if (object.is_undefined()) fail(repr_of(key), " of a value that is not defined");
  const bool is_method = key.is_string() && has_method(object, key.text());
  if (is_method && attribute) return Value::function(key.text());
  if (object.is_dictionary())
    if (const Value* const found = object.find(key)) return *found;
  if (object.kind() == Kind::space && key.is_string())
    for (const auto& [name, value] : object.space().members)
      if (name == key.text()) return value;
  const bool has_places =
      object.is_string() || object.kind() == Kind::list || object.kind() == Kind::tuple || object.kind() == Kind::range;
  if (has_places && (key.is_integer() || key.is_boolean())) {
    const Value::List parts = elements_of("an index", object);
    const auto size = static_cast<std::int64_t>(parts.size());
    const std::int64_t place = key.is_boolean() ? key.boolean() : key.integer(), i = place < 0 ? place + size : place;
    return i < 0 || i >= size ? undefined() : parts[static_cast<std::size_t>(i)];
  }
  return is_method ? Value::function(key.text()) : undefined();
}

}  // namespace fit::jinja
