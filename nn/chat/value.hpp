#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "io/json.hpp"
#include "tensor/check.hpp"

namespace fit::jinja {

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  check::fail("ChatTemplate", parts...);
}

struct Space;  // what namespace() makes
struct Loop;   // the variable `loop`
struct Macro;

/// A value of a template, which is undefined at first. Lists and dictionaries are shared, and never change.
class Value {
 public:
  /// Those from list to generator hold elements. Python prints and compares each in another way; a generator is used up
  /// by the first that goes through it. A view is what a dictionary's items(), keys() and values() give.
  enum class Kind { scalar, list, tuple, range, view, generator, dictionary, space, loop, macro, function };
  struct Member;
  using List = std::vector<Value>;
  using Members = std::vector<Member>;

  Value() : of_(io::Json::undefined()) {}
  template <class T, class D = std::decay_t<T>,
            std::enable_if_t<std::is_arithmetic_v<D> || std::is_same_v<D, std::nullptr_t> ||
                                 std::is_same_v<D, std::string> || std::is_same_v<D, const char*>,
                             int> = 0>
  Value(T&& scalar) : of_(std::in_place_type<io::Json>, std::forward<T>(scalar)) {}
  explicit Value(Space* space) : kind_(Kind::space), of_(space) {}
  explicit Value(Loop* loop) : kind_(Kind::loop), of_(loop) {}
  explicit Value(const Macro* macro) : kind_(Kind::macro), of_(macro) {}
  static Value of(const io::Json& json);
  static Value list(List all, Kind kind = Kind::list);
  static Value tuple(List all) { return list(std::move(all), Kind::tuple); }
  /// Of keys and values; of several equal keys, the first stays, with the last value.
  static Value dictionary(Members all);
  /// A function or method of this name, which is not called yet.
  static Value function(const std::string& name);

  Kind kind() const { return kind_; }
  bool is_undefined() const { return is_scalar() && scalar().is_undefined(); }
  bool is_null() const { return is_scalar() && scalar().is_null(); }
  bool is_boolean() const { return is_scalar() && scalar().is_boolean(); }
  bool is_integer() const { return is_scalar() && scalar().is_integer(); }
  bool is_real() const { return is_scalar() && scalar().is_real(); }
  bool is_number() const { return is_integer() || is_real(); }
  bool is_string() const { return is_scalar() && scalar().is_string(); }
  bool is_scalar() const { return kind_ == Kind::scalar; }
  /// Whether elements() are there.
  bool has_elements() const { return kind_ >= Kind::list && kind_ <= Kind::generator; }
  bool is_dictionary() const { return kind_ == Kind::dictionary; }
  /// As messages name it: "string", "list" …
  const char* type_name() const;

  const io::Json& scalar() const { return std::get<io::Json>(of_); }
  bool boolean() const { return scalar().boolean(); }
  std::int64_t integer() const { return scalar().integer(); }
  double number() const { return scalar().number(); }
  const std::string& text() const { return scalar().text(); }
  const List& elements() const { return *std::get<std::shared_ptr<List>>(of_); }
  const Members& items() const { return *std::get<std::shared_ptr<Members>>(of_); }
  /// The value of a key of a dictionary; null if there is none.
  const Value* find(const Value& key) const;
  Space& space() const { return *std::get<Space*>(of_); }
  Loop& loop() const { return *std::get<Loop*>(of_); }
  const Macro& macro() const { return *std::get<const Macro*>(of_); }
  /// Whether both are one object, as Python's `is` says.
  bool is(const Value& other) const { return kind_ == other.kind_ && of_ == other.of_ && is_real() == other.is_real(); }
  /// The first n elements, which a generator does not have afterwards.
  List taken(std::size_t n = SIZE_MAX) const;

 private:
  Kind kind_ = Kind::scalar;
  std::variant<io::Json, std::shared_ptr<List>, std::shared_ptr<Members>, Space*, Loop*, const Macro*> of_;
};

struct Value::Member {
  Value key, value;
};

struct Space {
  std::vector<std::pair<std::string, Value>> members;
  void set(const std::string& name, const Value& value);
};

inline Value undefined() { return {}; }
bool is_true(const Value& value);
/// What a loop goes through: elements, the keys of a dictionary, the characters of a string. Uses a generator up.
/// Throws Error in the name of `what` for others.
Value::List elements_of(const char* what, const Value& value);
/// len() of Python.
std::size_t length_of(const Value& value);
Value::List letters_of(const std::string& text);
/// As Python's str() and repr() print it. Throws Error for what has no text of its own, such as a generator.
std::string text_of(const Value& value);
std::string repr_of(const Value& value);
/// object[key], or object.key if `attribute`: Jinja looks for methods after the keys, or before them.
Value member_of(const Value& object, const Value& key, bool attribute);
/// As Python's == and <.
bool same(const Value& a, const Value& b);
bool less(const Value& a, const Value& b);
bool contains(const Value& container, const Value& value);
Value binary(const std::string& sign, const Value& a, const Value& b);

/// The options of tojson; `indent` is what stands before a value on each level.
struct JsonStyle {
  bool ascii = false, lines = false, sorts = false;
  std::string indent, comma = ", ", colon = ": ";
};
/// As json.dumps() of Python prints it.
std::string json_of(const Value& value, const JsonStyle& style = {});

}  // namespace fit::jinja
