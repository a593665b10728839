// Python's operators.
#include <algorithm>
#include <cmath>

#include "chat/jinja.hpp"

namespace fit::jinja {
namespace {

using Kind = Value::Kind;

constexpr std::int64_t exact = std::int64_t{1} << 53;  // doubles have all integers up to this one
constexpr std::size_t longest = 16 << 20;

// Throws Error for a comparison of an integer and a float that doubles can't decide.
void check_comparable(const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number() || a.is_real() == b.is_real() || a.number() != b.number()) return;
  if (std::abs(a.number()) >= static_cast<double>(exact))
    fail("a comparison of an integer as large as ", repr_of(a.is_real() ? b : a), " with a float is not known here");
}

// true is 1, and false 0.
Value numeric(const Value& value) { return value.is_boolean() ? Value(int{value.boolean()}) : value; }

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
  } else if (sign == "**") {
    if (y < 0) fail("'**' of a negative power is not known here");
    z = 1;
    const bool is_small = x >= -1 && x <= 1;  // one or two factors say what all do
    for (std::int64_t i = is_small && y > 2 ? 2 - y % 2 : y; i > 0 && fits; --i)
      fits = !__builtin_mul_overflow(z, x, &z);
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
  if (sign == "**") fail("'**' of floats is not known here");
  if (y == 0) fail("a division by 0");
  if (sign == "/") return x / y;
  const double rest = std::fmod(x, y);
  const bool other_sign = rest != 0 && (rest < 0) != (y < 0);
  if (sign == "%") return std::copysign(other_sign ? rest + y : rest, y);
  const double whole = (x - rest) / y - other_sign;
  if (whole == 0) return std::copysign(0., x / y);
  return std::floor(whole) + (whole - std::floor(whole) > 0.5);  // whole is rounded
}

bool is_list(const Value& value) { return value.kind() == Kind::list || value.kind() == Kind::tuple; }

// A string or list, several times.
Value repeated(const Value& what, std::int64_t times) {
  const auto n = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  const std::size_t size = what.is_string() ? what.text().size() : what.elements().size();
  if (size > 0 && n > longest / (what.is_string() ? size : size * 64)) fail("'*': the result is too long");
  std::string text;
  Value::List all;
  for (std::size_t i = 0; i < n && size > 0; ++i) {
    if (what.is_string())
      text += what.text();
    else
      all.insert(all.end(), what.elements().begin(), what.elements().end());
  }
  return what.is_string() ? Value(text) : Value::list(std::move(all), what.kind());
}

// + * % of strings and lists; undefined for others.
Value of_sequences(const std::string& sign, const Value& a, const Value& b) {
  if (sign == "+" && a.is_string() && b.is_string()) return a.text() + b.text();
  if (sign == "+" && is_list(a) && a.kind() == b.kind()) {
    Value::List all = a.elements();
    all.insert(all.end(), b.elements().begin(), b.elements().end());
    return Value::list(std::move(all), a.kind());
  }
  const auto repeats = [](const Value& x) { return x.is_string() || is_list(x); };
  if (sign == "*" && repeats(a) && b.is_integer()) return repeated(a, b.integer());
  if (sign == "*" && repeats(b) && a.is_integer()) return repeated(b, a.integer());
  if (sign == "%" && a.is_string()) return formatted(a.text(), b.kind() == Kind::tuple ? b.elements() : Value::List{b});
  return undefined();
}

}  // namespace

bool same(const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) return a.text() == b.text();
  if (a.is_boolean() && b.is_number()) return numeric(a).scalar() == b.scalar();
  if (b.is_boolean() && a.is_number()) return same(b, a);
  check_comparable(a, b);
  if (a.is_scalar() && b.is_scalar()) return a.scalar() == b.scalar();
  if (is_list(a) && a.kind() == b.kind())
    return std::equal(a.elements().begin(), a.elements().end(), b.elements().begin(), b.elements().end(), same);
  if (a.is_dictionary() && b.is_dictionary())
    return a.items().size() == b.items().size() && std::all_of(a.items().begin(), a.items().end(), [&](const auto& m) {
             const Value* const found = b.find(m.key);
             return found && same(m.value, *found);
           });
  const bool is_view = a.kind() == Kind::view || a.kind() == Kind::range;
  if (is_view && a.kind() == b.kind())
    fail("a comparison of two values of the type ", a.type_name(), " is not known here");
  return a.is(b);
}

bool less(const Value& first, const Value& second) {
  const Value a = numeric(first), b = numeric(second);
  if (is_list(a) && a.kind() == b.kind()) {
    const auto [x, y] =
        std::mismatch(a.elements().begin(), a.elements().end(), b.elements().begin(), b.elements().end(), same);
    return y != b.elements().end() && (x == a.elements().end() || less(*x, *y));
  }
  check_comparable(a, b);
  if (!(a.is_number() && b.is_number()) && !(a.is_string() && b.is_string()))
    fail("'<' of a ", a.type_name(), " and a ", b.type_name());
  return a.scalar() < b.scalar();
}

bool contains(const Value& container, const Value& value) {
  if (container.is_string()) {
    if (!value.is_string()) fail("'in' of a ", value.type_name(), " and a string: expected two strings");
    return container.text().find(value.text()) != std::string::npos;
  }
  if (container.is_dictionary()) {
    if (!value.is_scalar() && value.kind() != Kind::tuple) fail("a ", value.type_name(), " is no key of a dictionary");
    return container.find(value) != nullptr;
  }
  const auto is_it = [&](const Value& one) { return same(one, value); };
  if (container.kind() == Kind::generator) {  // the search uses up what it goes through
    const Value::List& all = container.elements();
    const auto found = std::find_if(all.begin(), all.end(), is_it);
    const bool is_there = found != all.end();
    container.taken(static_cast<std::size_t>(found - all.begin()) + 1);
    return is_there;
  }
  const Value::List all = elements_of("'in'", container);
  return std::any_of(all.begin(), all.end(), is_it);
}

Value binary(const std::string& sign, const Value& first, const Value& second) {
  if (sign == "==" || sign == "!=") return same(first, second) == (sign == "==");
  if (sign == "in" || sign == "not in") return contains(second, first) == (sign == "in");
  if (sign == "~") return text_of(first) + text_of(second);
  if (sign == "<") return less(first, second);
  if (sign == ">") return less(second, first);
  if (sign == "<=") return less(first, second) || same(first, second);
  if (sign == ">=") return less(second, first) || same(first, second);
  const Value a = numeric(first), b = numeric(second);
  if (const Value all = of_sequences(sign, first, second); !all.is_undefined()) return all;
  if (!a.is_number() || !b.is_number()) fail("'", sign, "' of a ", first.type_name(), " and a ", second.type_name());
  if (a.is_integer() && b.is_integer()) return of_integers(sign, a.integer(), b.integer());
  return of_reals(sign, a.number(), b.number());
}

}  // namespace fit::jinja
