#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "io/input_file.hpp"

namespace fit::io {

/// Limits for the JSON text of a file.
struct JsonLimits {
  int depth;                         ///< nesting of brackets
  std::size_t innermost = SIZE_MAX;  ///< values in a list at that depth
  std::size_t name = 4096;           ///< bytes of a key
  bool rounds = true;                ///< whether integers beyond 64 bits become real
};

/// A JSON value. Objects keep the order of their keys, and look a key up one by one: go through items() where there are
/// many. The header is small, because many sources include it; one source knows the library that parses and prints. No
/// destructor allocates.
class Json {
 public:
  /// `undefined` is no JSON: what an object without a key holds there. Whole numbers from 0 on are `natural`.
  enum class Kind : unsigned char { undefined, null, boolean, negative, natural, real, text, list, object };
  struct Member;

  Json() noexcept : kind_(Kind::null) {}
  Json(std::nullptr_t) noexcept : kind_(Kind::null) {}
  Json(bool b) noexcept : kind_(Kind::boolean) { value_.boolean = b; }
  Json(double x) noexcept : kind_(Kind::real) { value_.real = x; }
  template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Json(T n) noexcept : kind_(std::is_signed_v<T> && static_cast<std::int64_t>(n) < 0 ? Kind::negative : Kind::natural) {
    value_.natural = static_cast<std::uint64_t>(n);
  }
  Json(const std::string& text);
  Json(const char* text);
  /// A list; or an object, if each element is a list of a text and another value.
  Json(std::initializer_list<Json> all);
  template <class T>
  Json(const std::vector<T>& all) : Json(of_kind(Kind::list)) {
    for (const T& one : all) push_back(one);
  }
  template <class A, class B>
  Json(const std::pair<A, B>& both) : Json(array({both.first, both.second})) {}
  Json(const Json& other);
  Json(Json&& other) noexcept : kind_(other.kind_), value_(other.value_) { other.kind_ = Kind::null; }
  Json& operator=(Json other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(value_, other.value_);
    return *this;
  }
  ~Json() {
    if (kind_ >= Kind::text) free();
  }
  static Json undefined() { return of_kind(Kind::undefined); }
  static Json object() { return of_kind(Kind::object); }
  static Json array(std::initializer_list<Json> all = {});

  Kind kind() const noexcept { return kind_; }
  bool is_undefined() const noexcept { return kind_ == Kind::undefined; }
  bool is_null() const noexcept { return kind_ == Kind::null; }
  bool is_boolean() const noexcept { return kind_ == Kind::boolean; }
  bool is_natural() const noexcept { return kind_ == Kind::natural; }
  bool is_integer() const noexcept { return kind_ == Kind::natural || kind_ == Kind::negative; }
  bool is_real() const noexcept { return kind_ == Kind::real; }
  bool is_number() const noexcept { return is_integer() || is_real(); }
  bool is_string() const noexcept { return kind_ == Kind::text; }
  bool is_array() const noexcept { return kind_ == Kind::list; }
  bool is_object() const noexcept { return kind_ == Kind::object; }
  bool is_structured() const noexcept { return is_array() || is_object(); }
  /// "null", "boolean", "number", "string", "array", "object" or "undefined".
  const char* type_name() const noexcept;

  // Each throws Error for a value of another kind.
  bool boolean() const { return of(Kind::boolean).value_.boolean; }
  std::uint64_t natural() const { return of(Kind::natural).value_.natural; }
  /// Throws for numbers above 2^63 - 1, too.
  std::int64_t integer() const;
  double number() const;
  const std::string& text() const { return *of(Kind::text).value_.text; }
  /// The elements of a list.
  std::vector<Json>& elements() { return *of(Kind::list).value_.list; }
  const std::vector<Json>& elements() const { return *of(Kind::list).value_.list; }
  /// The keys and values of an object.
  std::vector<Member>& items() { return *of(Kind::object).value_.object; }
  const std::vector<Member>& items() const { return *of(Kind::object).value_.object; }

  /// Of a list or object; 0 of null, 1 of others.
  std::size_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }

  const Json* begin() const { return elements().data(); }
  const Json* end() const { return elements().data() + size(); }
  const Json& operator[](std::size_t i) const { return elements()[i]; }
  /// Makes a list of null.
  void push_back(Json one);

  /// The value of a key; null if there is none.
  const Json* find(const std::string& key) const;
  Json* find(const std::string& key);
  bool contains(const std::string& key) const { return find(key) != nullptr; }
  /// The value of a key; undefined if there is none.
  const Json& operator[](const std::string& key) const;
  /// Adds a key that is not there. Makes an object of null.
  Json& operator[](const std::string& key);

  /// As JSON text: in one line, or with this indent. Throws Error for texts that are not UTF-8.
  std::string dump(int indent = -1) const;
  /// In one line of ASCII characters; what is not UTF-8 is replaced by U+FFFD.
  std::string ascii() const;

  /// Numbers compare by their values. An order is between numbers and between texts alone; others are not less.
  friend bool operator==(const Json& a, const Json& b) { return a.equals(b); }
  friend bool operator!=(const Json& a, const Json& b) { return !a.equals(b); }
  friend bool operator<(const Json& a, const Json& b) { return a.is_less(b); }

 private:
  static Json of_kind(Kind kind);
  const Json& of(Kind kind) const {
    if (kind_ != kind) fail(kind);
    return *this;
  }
  Json& of(Kind kind) {
    if (kind_ != kind) fail(kind);
    return *this;
  }
  [[noreturn]] void fail(Kind expected) const;
  void free() noexcept;
  bool equals(const Json& other) const;
  bool is_less(const Json& other) const;

  Kind kind_;
  union {
    bool boolean;
    std::uint64_t natural;  // the bits of a negative number, too
    double real;
    std::string* text;
    std::vector<Json>* list;
    std::vector<Member>* object;
  } value_;
};

struct Json::Member {
  std::string key;
  Json value;
};

/// Parses strictly: one value, valid UTF-8, no duplicate keys, within the limits, which are checked during parsing.
/// Throws FileError with the file's name.
Json parse_json(const InputFile& file, const std::string& text, const JsonLimits& limits);
/// The same of a text in memory; nothing if it is no such JSON.
std::optional<Json> json_in(const std::string& text, const JsonLimits& limits = {100});

}  // namespace fit::io
