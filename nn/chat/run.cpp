#include <algorithm>
#include <cmath>
#include <ctime>

#include "chat/jinja.hpp"
#include "common/utf8.hpp"

namespace fit::jinja {
namespace {

using E = Expression::Kind;
using S = Statement::Kind;

constexpr std::size_t longest_text = 16 << 20;
constexpr std::int64_t most_steps = 1'000'000, longest_range = 100'000;
constexpr int deepest_call = 50;

enum class Flow { on, breaks, continues };

// The characters of a string.
Value letters(const Value& text) {
  const auto& all = text.text();
  Value list = Value::array();
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t begin = at;
    utf8::next(all, at);
    list.push_back(all.substr(begin, at - begin));
  }
  return list;
}

// How many values there are in this one.
std::size_t values_in(const Value& value) {
  std::size_t all = 1;
  if (value.is_array())
    for (const Value& one : value) all += values_in(one);
  if (value.is_object())
    for (const Value::Member& member : value.items()) all += values_in(member.value);
  return all;
}

class Runner {
 public:
  explicit Runner(const Value& variables) { scopes_.push_back({variables, {}}); }

  std::string run(const Block& program) {
    std::string text;
    block(program, text);
    return text;
  }

 private:
  struct Scope {
    Value variables = Value::object();
    std::vector<std::pair<std::string, const Statement*>> macros;
  };

  void step(int line, std::size_t steps = 1) {
    if ((steps_ += static_cast<std::int64_t>(steps)) > most_steps)
      fail("line ", line, ": the template runs for too long");
  }
  // A value that was made: a large one counts as many steps, so that memory and depth are bounded, too.
  Value made(int line, Value value) {
    if (value.is_string()) step(line, value.text().size() / 64);
    if (value.is_structured()) step(line, values_in(value));
    return value;
  }
  Value* find(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (Value* const found = scope->variables.find(name)) return found;
    return nullptr;
  }
  const Statement* macro(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      for (const auto& [known, statement] : scope->macros)
        if (known == name) return statement;
    return nullptr;
  }

  // ---- statements ---------------------------------------------------------------------------------------------------

  Flow block(const Block& all, std::string& text) {
    for (const Statement& s : all)
      if (const Flow flow = statement(s, text); flow != Flow::on) return flow;
    return Flow::on;
  }

  Flow statement(const Statement& s, std::string& text) {
    step(s.line);
    switch (s.kind) {
      case S::text:
        text += s.text;
        break;
      case S::print:
        text += text_of(value(*s.expression));
        break;
      case S::branch:
        return block(is_true(value(*s.condition)) ? s.body : s.otherwise, text);
      case S::loop:
        return loop(s, text);
      case S::set:
        set(s, value(*s.expression));
        break;
      case S::set_block: {
        std::string inner;
        block(s.body, inner);
        set(s, inner);
        break;
      }
      case S::macro:
        scopes_.back().macros.emplace_back(s.text, &s);
        break;
      case S::break_loop:
        return Flow::breaks;
      case S::continue_loop:
        return Flow::continues;
      case S::group:
        return block(s.body, text);
    }
    if (text.size() > longest_text) fail("line ", s.line, ": the text is longer than ", longest_text, " bytes");
    return Flow::on;
  }

  void assign(const Statement& s, const Value& given) {
    if (s.names.size() == 1) {
      scopes_.back().variables[s.names[0]] = given;
      return;
    }
    if (!given.is_array() || given.size() != s.names.size())
      fail("line ", s.line, ": expected ", s.names.size(), " values for as many names");
    for (std::size_t i = 0; i < s.names.size(); ++i) scopes_.back().variables[s.names[i]] = given[i];
  }

  void set(const Statement& s, const Value& given) {
    if (s.text.empty()) return assign(s, given);
    Value* const object = find(s.names[0]);
    if (!object || !object->is_object()) fail("line ", s.line, ": '", s.names[0], "' is no namespace()");
    (*object)[s.text] = given;
  }

  Flow loop(const Statement& s, std::string& text) {
    Value all = value(*s.expression);
    if (all.is_object()) all = keys_of(all);
    if (all.is_undefined()) all = Value::array();
    if (!all.is_array()) fail("line ", s.line, ": a ", all.type_name(), " can't be looped over");
    scopes_.emplace_back();
    Value kept = Value::array();
    for (const Value& one : all) {
      step(s.line);
      assign(s, one);
      if (!s.condition || is_true(value(*s.condition))) kept.push_back(one);
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
      scopes_.back() = Scope();  // what an iteration sets is gone in the next
      assign(s, kept[i]);
      scopes_.back().variables["loop"] = made(s.line, {{"index", i + 1},
                                                       {"index0", i},
                                                       {"revindex", kept.size() - i},
                                                       {"revindex0", kept.size() - i - 1},
                                                       {"first", i == 0},
                                                       {"last", i + 1 == kept.size()},
                                                       {"length", kept.size()},
                                                       {"depth", 1},  // no loop is recursive here
                                                       {"depth0", 0},
                                                       {"previtem", i > 0 ? kept[i - 1] : undefined()},
                                                       {"nextitem", i + 1 < kept.size() ? kept[i + 1] : undefined()}});
      if (block(s.body, text) == Flow::breaks) break;
    }
    scopes_.pop_back();
    return kept.empty() ? block(s.otherwise, text) : Flow::on;
  }

  // ---- expressions --------------------------------------------------------------------------------------------------

  Value value(const Expression& e) {
    step(e.line);
    switch (e.kind) {
      case E::literal:
        return e.value;
      case E::name: {
        const Value* const found = find(e.text);
        return found ? *found : undefined();
      }
      case E::list: {
        Value list = Value::array();
        for (const ExpressionPtr& child : e.children) list.push_back(value(*child));
        return made(e.line, std::move(list));
      }
      case E::dictionary: {
        Value dictionary = Value::object();
        for (std::size_t i = 0; i + 1 < e.children.size(); i += 2)
          dictionary[text_of(value(*e.children[i]))] = value(*e.children[i + 1]);
        return made(e.line, std::move(dictionary));
      }
      case E::attribute:
        return member(e.line, value(*e.children[0]), e.text);
      case E::item:
        return member(e.line, value(*e.children[0]), value(*e.children[1]));
      case E::slice:
        return slice(e);
      case E::call:
        return made(e.line, call(e));
      case E::filter:
        return made(e.line, filtered(e.text, value(*e.children[0]), arguments(e)));
      case E::test:
        return tested(e.text, value(*e.children[0]), arguments(e));
      case E::unary:
        return unary(e, value(*e.children[0]));
      case E::binary:
        return made(e.line, binary_of(e));
      case E::comparison:
        return compared(e);
      case E::conditional:
        if (is_true(value(*e.children[1]))) return value(*e.children[0]);
        return e.children[2] ? value(*e.children[2]) : undefined();
    }
    return undefined();
  }

  Value unary(const Expression& e, const Value& a) {
    if (e.text == "not") return !is_true(a);
    if (a.is_integer()) return binary_at(e.line, "-", 0, a);
    if (a.is_number()) return -a.number();
    fail("line ", e.line, ": - of a ", a.type_name());
  }

  Value binary_of(const Expression& e) {
    const Value a = value(*e.children[0]);
    if (e.text == "and") return is_true(a) ? value(*e.children[1]) : a;
    if (e.text == "or") return is_true(a) ? a : value(*e.children[1]);
    return binary_at(e.line, e.text, a, value(*e.children[1]));
  }

  static Value binary_at(int line, const std::string& sign, const Value& a, const Value& b) {
    try {
      return binary(sign, a, b);
    } catch (const Error& error) {
      fail("line ", line, ": ", error.what());
    }
  }

  bool compared(const Expression& e) {
    Value a = value(*e.children[0]);
    for (const auto& [sign, operand] : e.named) {
      Value b = value(*operand);
      if (!is_true(binary_at(e.line, sign, a, b))) return false;
      a = std::move(b);
    }
    return true;
  }

  Value member(int line, const Value& object, const Value& key) {
    if (object.is_undefined()) fail("line ", line, ": ", key.dump(), " of a value that is not defined");
    if (object.is_object() && key.is_string()) return object[key.text()];
    if (key.is_integer() && (object.is_array() || object.is_string())) {
      const Value parts = object.is_array() ? object : letters(object);
      const auto size = static_cast<std::int64_t>(parts.size());
      std::int64_t i = key.integer();
      if (i < 0) i += size;
      return i < 0 || i >= size ? undefined() : parts[static_cast<std::size_t>(i)];
    }
    return undefined();
  }

  Value slice(const Expression& e) {
    const Value object = value(*e.children[0]);
    if (!object.is_array() && !object.is_string()) fail("line ", e.line, ": a slice of a ", object.type_name());
    const Value parts = object.is_array() ? object : letters(object);
    const auto size = static_cast<std::int64_t>(parts.size());
    const auto number = [&](std::size_t i, std::int64_t absent) {
      if (!e.children[i]) return absent;
      const Value v = value(*e.children[i]);
      if (!v.is_integer()) fail("line ", e.line, ": a slice needs whole numbers");
      return v.integer();
    };
    const std::int64_t by = std::min(std::max(number(3, 1), -size - 1), size + 1);
    if (by == 0) fail("line ", e.line, ": a slice by 0");
    const auto bounded = [&](std::int64_t i, std::int64_t low, std::int64_t high) {
      if (i < 0) i += size;
      return std::min(std::max(i, low), high);
    };
    const std::int64_t begin = e.children[1] ? bounded(number(1, 0), by > 0 ? 0 : -1, by > 0 ? size : size - 1)
                               : by > 0      ? 0
                                             : size - 1;
    const std::int64_t end = e.children[2] ? bounded(number(2, 0), by > 0 ? 0 : -1, by > 0 ? size : size - 1)
                             : by > 0      ? size
                                           : -1;
    Value list = Value::array();
    for (std::int64_t i = begin; by > 0 ? i < end : i > end; i += by)
      list.push_back(parts[static_cast<std::size_t>(i)]);
    if (object.is_array()) return list;
    std::string text;
    for (const Value& letter : list) text += letter.text();
    return text;
  }

  Arguments arguments(const Expression& e) {
    Arguments a;
    for (std::size_t i = 1; i < e.children.size(); ++i) a.all.push_back(value(*e.children[i]));
    for (const auto& [name, one] : e.named) a.named.emplace_back(name, value(*one));
    return a;
  }

  Value call(const Expression& e) {
    const Expression& called = *e.children[0];
    const Arguments a = arguments(e);
    if (called.kind == E::attribute) {
      const Value object = value(*called.children[0]);
      if (object.is_undefined()) fail("line ", e.line, ": '", called.text, "' of a value that is not defined");
      return method(object, called.text, a);
    }
    if (called.kind != E::name) fail("line ", e.line, ": this value can't be called");
    if (const Statement* const found = macro(called.text)) return macro_text(*found, a);
    if (called.text == "namespace" || called.text == "dict") {
      Value object = Value::object();
      for (const auto& [name, one] : a.named) object[name] = one;
      return object;
    }
    if (called.text == "range") return range(e.line, a);
    if (called.text == "raise_exception") fail("the template refuses the messages: ", text_of(a.get(0, "message", "")));
    if (called.text == "strftime_now") return time_text(text_of(a.get(0, "format")));
    fail("line ", e.line, ": the function '", called.text, "' is not known here");
  }

  static Value range(int line, const Arguments& a) {
    std::int64_t numbers[3] = {0, 0, 1};
    for (std::size_t i = 0; i < a.all.size() && i < 3; ++i) {
      if (!a.all[i].is_integer()) fail("line ", line, ": range() needs whole numbers");
      numbers[i] = a.all[i].integer();
    }
    if (a.all.size() == 1) std::swap(numbers[0], numbers[1]);
    if (numbers[2] == 0) fail("line ", line, ": range() by 0");
    for (const std::int64_t n : numbers)
      if (std::abs(static_cast<double>(n)) > 1e15) fail("line ", line, ": range() of ", n, ", which is too large");
    Value list = Value::array();
    for (std::int64_t i = numbers[0]; numbers[2] > 0 ? i < numbers[1] : i > numbers[1]; i += numbers[2]) {
      if (static_cast<std::int64_t>(list.size()) >= longest_range) fail("line ", line, ": range() is too long");
      list.push_back(i);
    }
    return list;
  }

  static Value time_text(const std::string& format) {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    char text[256];
    return std::string(text, std::strftime(text, sizeof text, format.c_str(), &local));
  }

  Value macro_text(const Statement& s, const Arguments& a) {
    if (++depth_ > deepest_call) fail("line ", s.line, ": too many macros in macros");
    Scope scope;
    for (std::size_t i = 0; i < s.names.size(); ++i) {
      Value given = a.get(i, s.names[i].c_str());
      if (given.is_undefined() && s.defaults[i]) given = value(*s.defaults[i]);
      scope.variables[s.names[i]] = given;
    }
    scopes_.push_back(std::move(scope));
    std::string text;
    block(s.body, text);
    scopes_.pop_back();
    --depth_;
    return text;
  }

  std::vector<Scope> scopes_;
  std::int64_t steps_ = 0;
  int depth_ = 0;
};

}  // namespace

Value Arguments::get(std::size_t place, const char* name, const Value& absent) const {
  if (place < all.size()) return all[place];
  for (const auto& [known, value] : named)
    if (known == name) return value;
  return absent;
}

std::string run(const Block& program, const Value& variables) { return Runner(variables).run(program); }

}  // namespace fit::jinja
