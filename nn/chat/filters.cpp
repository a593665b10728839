// The filters, tests and methods of all values, and those of lists, dictionaries and numbers.
#include <algorithm>
#include <cmath>

#include "base/from_chars.hpp"
#include "chat/jinja.hpp"
#include "common/utf8.hpp"

namespace fit::jinja {

using Kind = Value::Kind;

// ---- arguments ----------------------------------------------------------------------------------------------------

std::size_t Arguments::found(std::size_t place, const char* name) const {
  if (place < all_.size() && all_[place].name.empty()) return place;
  return static_cast<std::size_t>(
      std::find_if(all_.begin(), all_.end(), [&](const Given& one) { return !one.name.empty() && one.name == name; }) -
      all_.begin());
}

Value Arguments::get(std::size_t place, const char* name, const Value& absent) {
  const std::size_t at = found(place, name);
  if (at >= all_.size()) return absent;
  all_[at].was_read = true;
  return all_[at].value;
}

Value Arguments::needed(std::size_t place, const char* name) {
  if (!has(place, name)) fail("the argument '", name, "' is missing");
  return get(place, name);
}

Arguments Arguments::rest() {
  Arguments others;
  for (Given& one : all_)
    if (!std::exchange(one.was_read, true)) others.add(one.name, one.value);
  return others;
}

Value::List Arguments::rest_of_places() {
  Value::List values;
  for (Given& one : all_)
    if (one.name.empty() && !std::exchange(one.was_read, true)) values.push_back(one.value);
  return values;
}

Value::Members Arguments::rest_of_names() {
  Value::Members members;
  for (Given& one : all_)
    if (!one.name.empty() && !std::exchange(one.was_read, true)) members.push_back({one.name, one.value});
  return members;
}

void Arguments::check_all_read(const std::string& what) const {
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (!all_[i].was_read)
      fail("the argument ", all_[i].name.empty() ? std::to_string(i + 1) : "'" + all_[i].name + "'", " of ", what,
           " is not known here");
}

namespace {

Value generated(Value::List all) { return Value::list(std::move(all), Kind::generator); }

// ---- attributes of elements ---------------------------------------------------------------------------------------

// The value behind a path such as "function.name"; `absent`, if it is not null, for what is not defined on the way.
Value at_path(Value value, const Value& path, const Value& absent = nullptr) {
  if (path.is_integer()) return member_of(value, path, false);
  const std::string& all = string_in("attribute", path);
  for (std::size_t begin = 0; begin <= all.size();) {
    const std::size_t end = std::min(all.find('.', begin), all.size());
    const std::string part = all.substr(begin, end - begin);
    const bool is_place =
        !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
    value = member_of(value, is_place ? Value(std::stoll(part)) : Value(part), false);
    if (value.is_undefined() && !absent.is_null()) value = absent;
    begin = end + 1;
  }
  return value;
}

Value::List attributes_of(const Value::List& all, const Value& path) {
  if (path.is_null()) return all;
  Value::List values;
  for (const Value& one : all) values.push_back(at_path(one, path));
  return values;
}

Value mapped(const Value& value, Arguments& a) {
  Value::List all = elements_of("map", value);
  if (!a.has(0, "") && a.has(SIZE_MAX, "attribute")) {
    const Value path = a.get(SIZE_MAX, "attribute"), absent = a.get(SIZE_MAX, "default", nullptr);
    for (Value& one : all) one = at_path(one, path, absent);
  } else {
    const std::string filter = string_in("map", a.needed(0, "filter"));
    const Arguments rest = a.rest();
    for (Value& one : all) one = filtered(filter, one, rest);
  }
  return generated(std::move(all));
}

// Those elements that pass a test, or fail it; with an attribute, those whose attribute does.
Value selected(const Value& value, Arguments& a, bool wanted, bool has_attribute) {
  const Value path = has_attribute ? a.needed(0, "attribute") : Value(nullptr);
  const std::size_t place = has_attribute;
  const bool has_test = a.has(place, "");
  const std::string test = has_test ? string_in("select", a.get(place, "")) : "";
  const Arguments rest = has_test ? a.rest() : Arguments();
  Value::List kept;
  for (const Value& one : elements_of("select", value)) {
    const Value checked = has_attribute ? at_path(one, path) : one;
    if ((has_test ? tested(test, checked, rest) : is_true(checked)) == wanted) kept.push_back(one);
  }
  return generated(std::move(kept));
}

// ---- order --------------------------------------------------------------------------------------------------------

// By what a value is compared: strings in lower case, unless the case counts.
Value key_of(const Value& value, bool case_counts) {
  return value.is_string() && !case_counts ? Value(lower(value.text())) : value;
}

// The elements in the order of their keys; equal ones stay in their order.
Value::List sorted(const Value::List& all, Value::List keys, bool case_counts, bool reverse) {
  for (Value& key : keys) key = key_of(key, case_counts);
  std::vector<std::size_t> places(all.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
  std::stable_sort(places.begin(), places.end(), [&](std::size_t i, std::size_t j) {
    return reverse ? less(keys[j], keys[i]) : less(keys[i], keys[j]);
  });
  Value::List in_order;
  for (const std::size_t i : places) in_order.push_back(all[i]);
  return in_order;
}

Value sort(const Value& value, Arguments& a) {
  const bool reverse = is_true(a.get(0, "reverse", false)), case_counts = is_true(a.get(1, "case_sensitive", false));
  const Value path = a.get(2, "attribute", nullptr);
  if (path.is_string() && path.text().find(',') != std::string::npos)
    fail("sort by several attributes is not known here");
  const Value::List all = elements_of("sort", value);
  return Value::list(sorted(all, attributes_of(all, path), case_counts, reverse));
}

Value sorted_items(const Value& value, Arguments& a) {
  const bool case_counts = is_true(a.get(0, "case_sensitive", false)), reverse = is_true(a.get(2, "reverse", false));
  const std::string by = text_of(a.get(1, "by", "key"));
  if (by != "key" && by != "value") fail("dictsort by '", by, "': expected key or value");
  if (!value.is_dictionary()) fail("dictsort of a ", value.type_name(), ": expected a dictionary");
  Value::List all, keys;
  for (const auto& [key, one] : value.items()) {
    all.push_back(Value::tuple({key, one}));
    keys.push_back(by == "key" ? key : one);
  }
  return Value::list(sorted(all, keys, case_counts, reverse));
}

Value unique(const Value& value, Arguments& a) {
  const bool case_counts = is_true(a.get(0, "case_sensitive", false));
  const Value path = a.get(1, "attribute", nullptr);
  Value::List kept, keys;
  for (const Value& one : elements_of("unique", value)) {
    const Value key = key_of(path.is_null() ? one : at_path(one, path), case_counts);
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& known) { return same(known, key); })) continue;
    kept.push_back(one);
    keys.push_back(key);
  }
  return generated(std::move(kept));
}

Value extreme(const Value& value, Arguments& a, bool largest) {
  const bool case_counts = is_true(a.get(0, "case_sensitive", false));
  const Value path = a.get(1, "attribute", nullptr);
  const Value::List all = elements_of("min", value);
  if (all.empty()) return undefined();
  std::size_t best = 0;
  Value::List keys = attributes_of(all, path);
  for (Value& key : keys) key = key_of(key, case_counts);
  for (std::size_t i = 1; i < all.size(); ++i)
    if (largest ? less(keys[best], keys[i]) : less(keys[i], keys[best])) best = i;
  return all[best];
}

Value summed(const Value& value, Arguments& a) {
  const Value path = a.get(0, "attribute", nullptr);
  Value sum = a.get(1, "start", 0);
  for (const Value& one : attributes_of(elements_of("sum", value), path)) sum = binary("+", sum, one);
  return sum;
}

// ---- elements -----------------------------------------------------------------------------------------------------

Value joined(const Value& value, Arguments& a) {
  const std::string by = text_of(a.get(0, "d", ""));
  const Value path = a.get(1, "attribute", nullptr);
  const Value::List all = attributes_of(elements_of("join", value), path);
  std::string text;
  for (const Value& one : all) text += (&one == all.data() ? "" : by) + text_of(one);
  return text;
}

Value first(const Value& value, Arguments&) {
  const Value::List all = value.has_elements() ? value.taken(1) : elements_of("first", value);
  return all.empty() ? undefined() : all.front();
}

Value last(const Value& value, Arguments&) {
  if (value.kind() == Kind::generator) fail("last of a generator");
  const Value::List all = elements_of("last", value);
  return all.empty() ? undefined() : all.back();
}

Value reversed(const Value& value, Arguments&) {
  Value::List all = elements_of("reverse", value);
  std::reverse(all.begin(), all.end());
  if (!value.is_string())
    return value.kind() == Kind::generator ? Value::list(std::move(all)) : generated(std::move(all));
  std::string text;
  for (const Value& letter : all) text += letter.text();
  return text;
}

Value::List pairs_of(const Value& value) {
  if (!value.is_dictionary()) fail("items of a ", value.type_name(), ": expected a dictionary");
  Value::List pairs;
  for (const auto& [key, one] : value.items()) pairs.push_back(Value::tuple({key, one}));
  return pairs;
}

// ---- numbers ------------------------------------------------------------------------------------------------------

// The number that a text is for Python's float(); undefined if it is none.
Value real_in(const std::string& text) {
  const std::string digits = stripped(text, true, true);
  const bool has_plus = digits.size() > 1 && digits[0] == '+' && digits[1] != '-';
  double x = 0;
  const char* const begin = digits.data() + has_plus;
  const char* const end = digits.data() + digits.size();
  for (std::size_t at = 0; at < digits.size(); ++at)
    if (static_cast<unsigned char>(digits[at]) >= 0x80 || digits[at] == '_')
      fail("a number with the character '", utf8::character(digits, at), "' is not known here");
  if (digits.find_first_of("nN") != std::string::npos) {
    std::string name = lower(digits);
    name.erase(0, name[0] == '-' || name[0] == '+');
    if (name == "nan" || name == "inf" || name == "infinity") fail("the number '", digits, "' is not known here");
    return undefined();
  }
  const auto read = from_chars(begin, end, x);
  if (read.ec == std::errc::result_out_of_range) fail("the number '", digits, "' is out of the range of float64");
  return read.ec == std::errc() && read.ptr == end ? Value(x) : undefined();
}

Value whole_of(const Value& value, Arguments& a) {
  const Value absent = a.get(0, "default", 0);
  if (integer_in("int", a.get(1, "base", 10)) != 10) fail("int of another base than 10 is not known here");
  if (value.is_undefined()) fail("int of a value that is not defined");
  if (value.is_integer()) return value;
  if (value.is_boolean()) return integer_in("int", value);
  Value real = value;
  if (value.is_string()) {
    std::string digits = stripped(value.text(), true, true);
    if (digits.size() > 1 && digits[0] == '+' && digits[1] != '-') digits.erase(0, 1);
    std::int64_t whole = 0;
    const auto read = from_chars(digits.data(), digits.data() + digits.size(), whole);
    if (read.ec == std::errc() && read.ptr == digits.data() + digits.size()) return whole;
    real = real_in(value.text());
  }
  if (!real.is_real()) return absent;
  if (std::abs(real.number()) >= 9e15) fail("int of ", text_of(real), ": numbers as large as this are not known here");
  return static_cast<std::int64_t>(real.number());
}

Value real_of(const Value& value, Arguments& a) {
  const Value absent = a.get(0, "default", 0.0);
  if (value.is_undefined()) fail("float of a value that is not defined");
  if (value.is_number()) return value.number();
  if (value.is_boolean()) return static_cast<double>(value.boolean());
  const Value real = value.is_string() ? real_in(value.text()) : undefined();
  return real.is_undefined() ? absent : real;
}

Value absolute(const Value& value, Arguments&) {
  if (value.is_real()) return std::abs(value.number());
  const std::int64_t n = integer_in("abs", value);
  return n < 0 ? binary("-", 0, n) : Value(n);
}

Value rounded(const Value& value, Arguments& a) {
  const std::int64_t places = integer_in("round", a.get(0, "precision", 0));
  if (text_of(a.get(1, "method", "common")) != "common" || places < 0 || places > 15)
    fail("round: only the method 'common' and 0 to 15 places are known here");
  if (!value.is_real()) return integer_in("round", value);
  double x = 0;
  const std::string digits = formatted("%." + std::to_string(places) + "f", {value});
  from_chars(digits.data(), digits.data() + digits.size(), x);
  return x;
}

// ---- all values ---------------------------------------------------------------------------------------------------

Value or_default(const Value& value, Arguments& a) {
  const Value absent = a.get(0, "default_value", "");
  const bool is_absent = is_true(a.get(1, "boolean", false)) ? !is_true(value) : value.is_undefined();
  return is_absent ? absent : value;
}

Value to_json(const Value& value, Arguments& a) {
  JsonStyle style;
  style.ascii = is_true(a.get(0, "ensure_ascii", false));
  const Value indent = a.get(1, "indent", nullptr), separators = a.get(2, "separators", nullptr);
  style.sorts = is_true(a.get(3, "sort_keys", false));
  style.lines = !indent.is_null();
  if (indent.is_string())
    style.indent = indent.text();
  else if (style.lines)
    style.indent.assign(
        static_cast<std::size_t>(std::min<std::int64_t>(std::max<std::int64_t>(integer_in("indent", indent), 0), 100)),
        ' ');
  if (style.lines) style.comma = ",";
  if (separators.is_null()) return json_of(value, style);
  const Value::List both = elements_of("separators", separators);
  if (both.size() != 2) fail("tojson: expected two separators, and not ", both.size());
  style.comma = string_in("separators", both[0]);
  style.colon = string_in("separators", both[1]);
  return json_of(value, style);
}

}  // namespace

const Rows& list_filters() {
  using A = Arguments;
  static const Rows rows{
      {"default", or_default},
      {"d", or_default},
      {"tojson", to_json},
      {"length", [](const Value& v, A&) -> Value { return length_of(v); }},
      {"count", [](const Value& v, A&) -> Value { return length_of(v); }},
      {"list", [](const Value& v, A&) { return Value::list(elements_of("list", v)); }},
      {"items", [](const Value& v, A&) { return generated(v.is_undefined() ? Value::List{} : pairs_of(v)); }},
      {"join", joined},
      {"map", mapped},
      {"select", [](const Value& v, A& a) { return selected(v, a, true, false); }},
      {"reject", [](const Value& v, A& a) { return selected(v, a, false, false); }},
      {"selectattr", [](const Value& v, A& a) { return selected(v, a, true, true); }},
      {"rejectattr", [](const Value& v, A& a) { return selected(v, a, false, true); }},
      {"first", first},
      {"last", last},
      {"reverse", reversed},
      {"sort", sort},
      {"dictsort", sorted_items},
      {"unique", unique},
      {"min", [](const Value& v, A& a) { return extreme(v, a, false); }},
      {"max", [](const Value& v, A& a) { return extreme(v, a, true); }},
      {"sum", summed},
      {"int", whole_of},
      {"float", real_of},
      {"abs", absolute},
      {"round", rounded},
  };
  return rows;
}

namespace {

bool has_rest(const Value& value, const Value& by, int rest) { return same(binary("%", value, by), rest); }

const Rows& tests() {
  using A = Arguments;
  static const Rows rows{
      {"defined", [](const Value& v, A&) -> Value { return !v.is_undefined(); }},
      {"undefined", [](const Value& v, A&) -> Value { return v.is_undefined(); }},
      {"none", [](const Value& v, A&) -> Value { return v.is_null(); }},
      {"string", [](const Value& v, A&) -> Value { return v.is_string(); }},
      {"mapping", [](const Value& v, A&) -> Value { return v.is_dictionary(); }},
      {"iterable",
       [](const Value& v, A&) -> Value {
         return v.has_elements() || v.is_dictionary() || v.is_string() || v.is_undefined() || v.kind() == Kind::loop;
       }},
      {"sequence",
       [](const Value& v, A&) -> Value {
         return v.kind() == Kind::list || v.kind() == Kind::tuple || v.kind() == Kind::range || v.is_dictionary() ||
                v.is_string() || v.is_undefined();
       }},
      {"callable",
       [](const Value& v, A&) -> Value {
         return v.kind() == Kind::macro || v.kind() == Kind::function || v.is_undefined();
       }},
      {"number", [](const Value& v, A&) -> Value { return v.is_number() || v.is_boolean(); }},
      {"integer", [](const Value& v, A&) -> Value { return v.is_integer(); }},
      {"float", [](const Value& v, A&) -> Value { return v.is_real(); }},
      {"boolean", [](const Value& v, A&) -> Value { return v.is_boolean(); }},
      {"true", [](const Value& v, A&) -> Value { return v.is_boolean() && v.boolean(); }},
      {"false", [](const Value& v, A&) -> Value { return v.is_boolean() && !v.boolean(); }},
      {"sameas", [](const Value& v, A& a) -> Value { return v.is(a.needed(0, "other")); }},
      {"in", [](const Value& v, A& a) -> Value { return contains(a.needed(0, "seq"), v); }},
      {"odd", [](const Value& v, A&) -> Value { return has_rest(v, 2, 1); }},
      {"even", [](const Value& v, A&) -> Value { return has_rest(v, 2, 0); }},
      {"divisibleby", [](const Value& v, A& a) -> Value { return has_rest(v, a.needed(0, "num"), 0); }},
  };
  return rows;
}

// The operator that a test has as its name.
std::string sign_of(const std::string& test) {
  static const std::pair<const char*, const char*> names[] = {
      {"eq", "=="}, {"equalto", "=="}, {"ne", "!="},      {"gt", ">"},  {"greaterthan", ">"},
      {"ge", ">="}, {"lt", "<"},       {"lessthan", "<"}, {"le", "<="}, {"==", "=="},
      {"!=", "!="}, {">", ">"},        {">=", ">="},      {"<", "<"},   {"<=", "<="}};
  for (const auto& [name, sign] : names)
    if (test == name) return sign;
  return {};
}

const Rows& dictionary_methods() {
  using A = Arguments;
  static const Rows rows{
      {"items", [](const Value& v, A&) { return Value::list(pairs_of(v), Kind::view); }},
      {"keys", [](const Value& v, A&) { return Value::list(elements_of("keys", v), Kind::view); }},
      {"values",
       [](const Value& v, A&) {
         Value::List values;
         for (const auto& [key, value] : v.items()) values.push_back(value);
         return Value::list(std::move(values), Kind::view);
       }},
      {"get",
       [](const Value& v, A& a) {
         const Value absent = a.get(1, "default", nullptr);
         const Value* const found = v.find(a.needed(0, "key"));
         return found ? *found : absent;
       }},
  };
  return rows;
}

const Rows& list_methods() {
  static const Rows rows{
      {"count",
       [](const Value& v, Arguments& a) -> Value {
         const Value what = a.needed(0, "value");
         return std::count_if(v.elements().begin(), v.elements().end(),
                              [&](const Value& one) { return same(one, what); });
       }},
      {"index",
       [](const Value& v, Arguments& a) -> Value {
         const Value what = a.needed(0, "value");
         for (std::size_t i = 0; i < v.elements().size(); ++i)
           if (same(v.elements()[i], what)) return i;
         fail("index: the value is not in the list");
       }},
  };
  return rows;
}

Value of_row(const Row& row, const Value& value, Arguments& arguments, const std::string& what) {
  const Value result = row.of(value, arguments);
  arguments.check_all_read(what);
  return result;
}

}  // namespace

Value filtered(const std::string& name, const Value& value, Arguments arguments) {
  for (const Rows* const rows : {&list_filters(), &string_filters()})
    if (const Row* const row = row_of(*rows, name)) return of_row(*row, value, arguments, "the filter '" + name + "'");
  fail("the filter '", name, "' of a ", value.type_name(), " is not known here");
}

bool tested(const std::string& name, const Value& value, Arguments arguments) {
  const std::string what = "the test '" + name + "'";
  if (const std::string sign = sign_of(name); !sign.empty()) {
    const bool result = is_true(binary(sign, value, arguments.needed(0, "other")));
    arguments.check_all_read(what);
    return result;
  }
  if (const Row* const row = row_of(tests(), name)) return is_true(of_row(*row, value, arguments, what));
  fail(what, " is not known here");
}

Value method(const Value& object, const std::string& name, Arguments arguments) {
  static const Rows none;
  const Rows& rows = object.is_string()                                            ? string_methods()
                     : object.is_dictionary()                                      ? dictionary_methods()
                     : object.kind() == Kind::list || object.kind() == Kind::tuple ? list_methods()
                                                                                   : none;
  if (const Row* const row = row_of(rows, name)) return of_row(*row, object, arguments, "the method '" + name + "'");
  fail("the method '", name, "' of a ", object.type_name(), " is not known here");
}

}  // namespace fit::jinja
