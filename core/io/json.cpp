#include "io/json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "tensor/check.hpp"

namespace fit::io {

// ---- values -------------------------------------------------------------------------------------------------------

Json Json::of_kind(Kind kind) {
  Json made;
  switch (kind) {
    case Kind::text:
      made.value_.text = new std::string;
      break;
    case Kind::list:
      made.value_.list = new std::vector<Json>;
      break;
    case Kind::object:
      made.value_.object = new std::vector<Member>;
      break;
    default:
      break;
  }
  made.kind_ = kind;
  return made;
}

void Json::free() noexcept {
  if (kind_ == Kind::text) delete value_.text;
  if (kind_ == Kind::list) delete value_.list;
  if (kind_ == Kind::object) delete value_.object;
}

Json::Json(const std::string& text) : Json(of_kind(Kind::text)) { *value_.text = text; }
Json::Json(const char* text) : Json(of_kind(Kind::text)) { *value_.text = text; }

Json Json::array(std::initializer_list<Json> all) {
  Json list = of_kind(Kind::list);
  *list.value_.list = all;
  return list;
}

Json::Json(std::initializer_list<Json> all) : Json() {
  const bool pairs = std::all_of(all.begin(), all.end(), [](const Json& one) {
    return one.is_array() && one.size() == 2 && one.elements()[0].is_string();
  });
  *this = pairs ? object() : array(all);
  if (pairs)
    for (const Json& one : all) items().push_back({one.elements()[0].text(), one.elements()[1]});
}

Json::Json(const Json& other) : Json(of_kind(other.kind_)) {
  if (kind_ == Kind::text)
    *value_.text = *other.value_.text;
  else if (kind_ == Kind::list)
    *value_.list = *other.value_.list;
  else if (kind_ == Kind::object)
    *value_.object = *other.value_.object;
  else
    value_ = other.value_;
}

namespace {

const char* name_of(Json::Kind kind) {
  static const char* const names[] = {"undefined", "null",   "boolean", "number", "number",
                                      "number",    "string", "array",   "object"};
  return names[static_cast<int>(kind)];
}

}  // namespace

const char* Json::type_name() const noexcept { return name_of(kind_); }

void Json::fail(Kind expected) const {
  check::fail("Json", "a value is of the type ", type_name(), ", not ", name_of(expected));
}

std::int64_t Json::integer() const {
  if (kind_ != Kind::negative && of(Kind::natural).value_.natural > INT64_MAX)
    check::fail("Json", value_.natural, " is too large");
  return static_cast<std::int64_t>(value_.natural);
}

double Json::number() const {
  if (kind_ == Kind::natural) return static_cast<double>(value_.natural);
  if (kind_ == Kind::negative) return static_cast<double>(integer());
  return of(Kind::real).value_.real;
}

std::size_t Json::size() const noexcept {
  if (is_array()) return value_.list->size();
  if (is_object()) return value_.object->size();
  return kind_ > Kind::null ? 1 : 0;
}

void Json::push_back(Json one) {
  if (is_null()) *this = array();
  elements().push_back(std::move(one));
}

const Json* Json::find(const std::string& key) const {
  for (const Member& member : items())
    if (member.key == key) return &member.value;
  return nullptr;
}
Json* Json::find(const std::string& key) { return const_cast<Json*>(std::as_const(*this).find(key)); }

const Json& Json::operator[](const std::string& key) const {
  static const Json absent = undefined();
  const Json* const found = find(key);
  return found ? *found : absent;
}

Json& Json::operator[](const std::string& key) {
  if (is_null()) *this = object();
  if (Json* const found = find(key)) return *found;
  items().push_back({key, Json()});
  return items().back().value;
}

bool Json::equals(const Json& other) const {
  if (is_number() && other.is_number())
    return kind_ == other.kind_ && kind_ != Kind::real ? value_.natural == other.value_.natural
                                                       : number() == other.number();
  if (kind_ != other.kind_) return false;
  if (kind_ == Kind::boolean) return boolean() == other.boolean();
  if (kind_ == Kind::text) return text() == other.text();
  if (kind_ == Kind::list) return elements() == other.elements();
  if (kind_ != Kind::object) return true;
  const auto has = [&](const Member& member) {
    const Json* const found = other.find(member.key);
    return found && *found == member.value;
  };
  return size() == other.size() && std::all_of(items().begin(), items().end(), has);
}

bool Json::is_less(const Json& other) const {
  if (is_integer() && kind_ == other.kind_)
    return kind_ == Kind::natural ? natural() < other.natural() : integer() < other.integer();
  if (is_number() && other.is_number()) return number() < other.number();
  return is_string() && other.is_string() && text() < other.text();
}

// ---- texts --------------------------------------------------------------------------------------------------------

namespace {

/// Prints a value.
class Printer {
 public:
  Printer(int indent, bool ascii) : indent_(indent), ascii_(ascii) {}

  void print(const Json& value, int depth = 0) {
    if (value.is_string())
      out_ += quoted(value.text());
    else if (!value.is_structured())
      out_ += scalar(value);
    else if (value.empty())
      out_ += value.is_array() ? "[]" : "{}";
    else if (value.is_array()) {
      out_ += '[';
      for (const Json& one : value) begin(&one == value.begin(), depth), print(one, depth + 1);
      close(']', depth);
    } else {
      out_ += '{';
      for (const Json::Member& member : value.items()) {
        begin(&member == value.items().data(), depth);
        out_ += quoted(member.key) + (indent_ < 0 ? ":" : ": ");
        print(member.value, depth + 1);
      }
      close('}', depth);
    }
  }
  std::string take() { return std::move(out_); }

 private:
  std::string quoted(const std::string& text) const {
    const auto wrong = ascii_ ? nlohmann::json::error_handler_t::replace : nlohmann::json::error_handler_t::strict;
    try {
      return nlohmann::json(text).dump(-1, ' ', ascii_, wrong);
    } catch (const nlohmann::json::type_error&) {
      check::fail("Json", "the text '", shown(text), "' is not valid UTF-8");
    }
  }
  static std::string scalar(const Json& value) {
    if (value.is_boolean()) return value.boolean() ? "true" : "false";
    if (value.is_natural()) return std::to_string(value.natural());
    if (value.is_integer()) return std::to_string(value.integer());
    return value.is_number() ? nlohmann::json(value.number()).dump() : "null";
  }
  void line(int depth) {
    if (indent_ >= 0) out_ += '\n' + std::string(static_cast<std::size_t>(indent_ * depth), ' ');
  }
  void begin(bool first, int depth) {
    if (!first) out_ += ',';
    line(depth + 1);
  }
  void close(char bracket, int depth) {
    line(depth);
    out_ += bracket;
  }

  int indent_;
  bool ascii_;
  std::string out_;
};

std::string printed(const Json& value, int indent, bool ascii) {
  Printer printer(indent, ascii);
  printer.print(value);
  return printer.take();
}

/// What nlohmann's parser calls. Its own tree would have a destructor that allocates.
class Reader {
 public:
  Reader(const InputFile* file, const JsonLimits& limits)
      : file_(file), limits_(limits), keys_(static_cast<std::size_t>(limits.depth) + 1) {}

  bool null() { return add({}); }
  bool boolean(bool b) { return add(b); }
  bool number_integer(std::int64_t n) { return add(n); }
  bool number_unsigned(std::uint64_t n) { return add(n); }
  bool number_float(double x, const std::string& digits) {
    if (!limits_.rounds && digits.find_first_of(".eE") == std::string::npos)
      fail("the integer ", shown(digits), " in the JSON is beyond 64 bits");
    return add(x);
  }
  bool string(const std::string& text) { return add(text); }
  bool binary(const std::vector<std::uint8_t>&) { return false; }  // not in JSON
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(const std::string& key) {
    if (key.size() > limits_.name)
      fail("the key '", shown(key), "' has ", key.size(), " bytes: ", limits_.name, " are the most");
    if (!keys_[open_.size()].insert(key).second) fail("the key '", shown(key), "' stands twice in the JSON");
    open_.back()->items().push_back({key, Json()});
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::json::exception& e) {
    if (dynamic_cast<const nlohmann::json::parse_error*>(&e))
      fail("expected valid JSON, found something else at byte ", byte, " of it");
    fail("the JSON can't be read: ", e.what());
  }

  Json root;

 private:
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    if (file_) file_->fail(parts...);
    throw Error(joined(parts...));
  }
  Json& place(Json&& value) {
    if (open_.empty()) return root = std::move(value);
    Json& outer = *open_.back();
    if (outer.is_object()) return outer.items().back().value = std::move(value);
    outer.push_back(std::move(value));
    return outer.elements().back();
  }
  bool add(Json&& value) {
    if (open_.size() == static_cast<std::size_t>(limits_.depth) && ++innermost_ > limits_.innermost)
      fail("a list in the JSON has more than ", limits_.innermost, " values");
    place(std::move(value));
    return true;
  }
  bool open(Json&& value) {
    if (open_.size() >= static_cast<std::size_t>(limits_.depth))
      fail("the JSON nests deeper than ", limits_.depth, " levels");
    open_.push_back(&place(std::move(value)));  // the outer ones don't grow while it is open
    keys_[open_.size()].clear();
    innermost_ = 0;
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const InputFile* file_;
  JsonLimits limits_;
  std::vector<Json*> open_;
  std::vector<std::unordered_set<std::string>> keys_;  // at each depth
  std::size_t innermost_ = 0;
};

Json read_json(const InputFile* file, const std::string& text, const JsonLimits& limits) {
  Reader reader(file, limits);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  return std::move(reader.root);
}

}  // namespace

std::string Json::dump(int indent) const { return printed(*this, indent, false); }
std::string Json::ascii() const { return printed(*this, -1, true); }

Json parse_json(const InputFile& file, const std::string& text, const JsonLimits& limits) {
  return read_json(&file, text, limits);
}

std::optional<Json> json_in(const std::string& text, const JsonLimits& limits) {
  try {
    return read_json(nullptr, text, limits);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace fit::io
