#include <algorithm>
#include <cmath>
#include <ctime>
#include <deque>
#include <map>

#include "chat/jinja.hpp"

namespace fit::jinja {

// A macro, or what caller() is in a macro, with the block that it stands in.
struct Macro {
  const Statement& statement;
  std::size_t scope;
  std::int64_t scope_number;
};

// Jinja takes an element only when it is needed. So what the body sets may decide which elements there are.
struct Loop {
  const Statement& statement;
  std::size_t scope;     // that of the loop's condition
  Value::List all;       // before the condition
  std::size_t next = 0;  // the first of `all` that was not looked at
  Value::List kept;
  std::size_t index = 0;
  Value::List changed;  // the last arguments of changed()
  bool has_changed = false;
};

namespace {

using E = Expression::Kind;
using S = Statement::Kind;
using Kind = Value::Kind;

constexpr std::size_t longest_text = 16 << 20;
constexpr std::int64_t most_steps = 1'000'000, longest_range = 100'000;
constexpr int deepest_call = 50;

enum class Flow { on, breaks, continues };

const char* const functions[] = {"range",        "namespace", "dict",   "raise_exception",
                                 "strftime_now", "lipsum",    "cycler", "joiner"};

Value range(int line, Arguments& a) {
  std::int64_t numbers[3] = {0, integer_in("range", a.needed(0, "")), 1};
  if (a.has(1, "")) {
    numbers[0] = numbers[1];
    numbers[1] = integer_in("range", a.get(1, ""));
  }
  numbers[2] = integer_in("range", a.get(2, "", 1));
  if (numbers[2] == 0) fail("line ", line, ": range() by 0");
  for (const std::int64_t n : numbers)
    if (std::abs(static_cast<double>(n)) > 1e15) fail("line ", line, ": range() of ", n, ", which is too large");
  Value::List list;
  for (std::int64_t i = numbers[0]; numbers[2] > 0 ? i < numbers[1] : i > numbers[1]; i += numbers[2]) {
    if (static_cast<std::int64_t>(list.size()) >= longest_range) fail("line ", line, ": range() is too long");
    list.push_back(i);
  }
  return Value::list(std::move(list), Kind::range);
}

Value time_text(const std::string& format) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[256];
  return std::string(text, std::strftime(text, sizeof text, format.c_str(), &local));
}

// Of a dictionary or pairs, and of named arguments.
Value::Members members_of(Arguments& a) {
  const Value first = a.get(0, "", Value::list({}));
  Value::Members members;
  if (first.is_dictionary())
    members = first.items();
  else
    for (const Value& pair : elements_of("dict", first)) {
      const Value::List both = elements_of("dict", pair);
      if (both.size() != 2) fail("dict: expected pairs of a key and a value");
      members.push_back({both[0], both[1]});
    }
  for (Value::Member& member : a.rest_of_names()) members.push_back(std::move(member));
  return members;
}

// Any slice of a list or string, as Python's.
Value slice(int line, const Value& object, const Value (&bounds)[3]) {
  const bool is_list = object.kind() == Kind::list || object.kind() == Kind::tuple || object.kind() == Kind::range;
  if (!is_list && !object.is_string()) fail("line ", line, ": a slice of a ", object.type_name());
  const Value::List parts = elements_of("a slice", object);
  const auto size = static_cast<std::int64_t>(parts.size());
  const std::int64_t by = bounds[2].is_null() ? 1 : std::clamp(integer_in("a slice", bounds[2]), -size - 1, size + 1);
  if (by == 0) fail("line ", line, ": a slice by 0");
  const std::int64_t low = by > 0 ? 0 : -1, high = by > 0 ? size : size - 1;
  const auto bound = [&](const Value& given, std::int64_t absent) {
    if (given.is_null()) return absent;
    const std::int64_t i = integer_in("a slice", given);
    return std::clamp(i < 0 ? i + size : i, low, high);
  };
  const std::int64_t begin = bound(bounds[0], by > 0 ? low : high), end = bound(bounds[1], by > 0 ? high : low);
  Value::List list;
  for (std::int64_t i = begin; by > 0 ? i < end : i > end; i += by) list.push_back(parts[static_cast<std::size_t>(i)]);
  if (is_list) return Value::list(std::move(list), object.kind());
  std::string text;
  for (const Value& letter : list) text += letter.text();
  return text;
}

class Runner {
 public:
  explicit Runner(const io::Json& variables) {
    scopes_.emplace_back();
    for (const auto& [name, value] : variables.items()) set(name, Value::of(value));
  }

  std::string run(const Block& program) {
    std::string text;
    block(program, text);
    return text;
  }

 private:
  // Names are looked up in a scope, then in that around it, which is not the one before it on the stack in a macro.
  struct Scope {
    std::size_t around = 0;
    std::int64_t number = 0;
    std::map<std::string, Value> variables;
  };

  void step(int line, std::size_t steps = 1) {
    if ((steps_ += static_cast<std::int64_t>(steps)) > most_steps)
      fail("line ", line, ": the template runs for too long");
  }
  // A value that was made: a large one counts as many steps, so that memory and depth are bounded, too.
  Value made(int line, Value value) {
    count(line, value);
    return value;
  }
  void count(int line, const Value& value) {
    step(line, value.is_string() ? value.text().size() / 64 : 1);
    if (value.has_elements())
      for (const Value& one : value.elements()) count(line, one);
    if (value.is_dictionary())
      for (const Value::Member& member : value.items()) count(line, member.value);
  }
  // A value that is gone through.
  const Value& read(int line, const Value& value) {
    if (value.is_string()) step(line, value.text().size() / 64);
    if (value.has_elements()) step(line, value.elements().size());
    return value;
  }

  // Begins a scope within another one, and ends it.
  void enter(std::size_t around) { scopes_.push_back({around, ++scopes_made_, {}}); }
  void enter() { enter(scopes_.size() - 1); }
  void leave() { scopes_.pop_back(); }
  void set(const std::string& name, const Value& value) { scopes_.back().variables[name] = value; }
  Value find(const std::string& name) const {
    for (std::size_t i = scopes_.size() - 1;; i = scopes_[i].around) {
      if (const auto found = scopes_[i].variables.find(name); found != scopes_[i].variables.end()) return found->second;
      if (i == 0) break;
    }
    const bool is_function = std::find(std::begin(functions), std::end(functions), name) != std::end(functions);
    return is_function ? Value::function(name) : undefined();
  }

  // ---- statements ---------------------------------------------------------------------------------------------------

  Flow block(const Block& all, std::string& text) {
    for (const Statement& s : all)
      if (const Flow flow = statement(s, text); flow != Flow::on) return flow;
    return Flow::on;
  }
  // The same with variables of its own.
  Flow inner_block(const Block& all, std::string& text) {
    enter();
    const Flow flow = block(all, text);
    leave();
    return flow;
  }

  Flow statement(const Statement& s, std::string& text) {
    step(s.line);
    if (text.size() > longest_text) fail("line ", s.line, ": the text is longer than ", longest_text, " bytes");
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
        assign(*s.target, value(*s.expression));
        break;
      case S::set_block:
      case S::filter:
        return filter(s, text);
      case S::macro:
        set(s.text, macro(s));
        break;
      case S::call:
        text += text_of(call(*s.expression, macro(s)));
        break;
      case S::with:
        return with(s, text);
      case S::group:
        return inner_block(s.body, text);
      case S::break_loop:
        return Flow::breaks;
      case S::continue_loop:
        return Flow::continues;
    }
    return Flow::on;
  }

  void assign(const Expression& target, const Value& given) {
    if (target.kind == E::name) return set(target.text, given);
    if (target.kind == E::attribute) {
      const Value object = value(*target.children[0]);
      if (object.kind() != Kind::space)
        fail("line ", target.line, ": '", target.children[0]->text, "' is no namespace()");
      return object.space().set(target.text, given);
    }
    const Value::List all = elements_of("several names", given);
    if (all.size() != target.children.size())
      fail("line ", target.line, ": expected ", target.children.size(), " values for as many names");
    for (std::size_t i = 0; i < all.size(); ++i) assign(*target.children[i], all[i]);
  }

  // The text of a block through filters, which is printed or set.
  Flow filter(const Statement& s, std::string& text) {
    enter();
    std::string inner;
    const Flow flow = block(s.body, inner);
    leave();
    if (flow != Flow::on) return flow;
    enter();
    set(block_text, inner);
    const Value all = value(*s.expression);
    leave();
    if (s.kind == S::filter)
      text += text_of(all);
    else
      assign(*s.target, all);
    return Flow::on;
  }

  Flow with(const Statement& s, std::string& text) {
    Value::List values;
    for (const ExpressionPtr& one : s.values) values.push_back(value(*one));
    enter();
    for (std::size_t i = 0; i < values.size(); ++i) set(s.names[i], values[i]);
    const Flow flow = block(s.body, text);
    leave();
    return flow;
  }

  // ---- loops --------------------------------------------------------------------------------------------------------

  Flow loop(const Statement& s, std::string& text) {
    loops_.push_back({s, scopes_.size() - 1, elements_of("a loop", value(*s.expression)), 0, {}, 0, {}, false});
    Loop& loop = loops_.back();
    Flow flow = Flow::on;
    for (; flow != Flow::breaks && reaches(loop, loop.index); ++loop.index) {
      enter();  // what an iteration sets is gone in the next
      assign(*s.target, loop.kept[loop.index]);
      set("loop", Value(&loop));
      flow = block(s.body, text);
      leave();
    }
    return loop.kept.empty() ? inner_block(s.otherwise, text) : Flow::on;
  }

  // Whether the loop has an element with this index.
  bool reaches(Loop& loop, std::size_t index) {
    while (loop.kept.size() <= index && loop.next < loop.all.size()) {
      const Value& one = loop.all[loop.next++];
      if (passes(loop, one)) loop.kept.push_back(one);
    }
    return index < loop.kept.size();
  }

  bool passes(const Loop& loop, const Value& one) {
    step(loop.statement.line);
    if (!loop.statement.condition) return true;
    enter(loop.scope);
    assign(*loop.statement.target, one);
    const bool is_kept = is_true(value(*loop.statement.condition));
    leave();
    return is_kept;
  }

  Value loop_member(Loop& loop, const std::string& name) {
    const std::size_t i = loop.index;
    if (name == "index") return i + 1;
    if (name == "index0") return i;
    if (name == "first") return i == 0;
    if (name == "last") return !reaches(loop, i + 1);
    if (name == "previtem") return i > 0 ? loop.kept[i - 1] : undefined();
    if (name == "nextitem") return reaches(loop, i + 1) ? loop.kept[i + 1] : undefined();
    if (name == "depth") return 1;  // no loop is recursive here
    if (name == "depth0") return 0;
    if (name == "cycle" || name == "changed") return Value::function(name);
    if (name != "length" && name != "revindex" && name != "revindex0") return undefined();
    reaches(loop, SIZE_MAX);
    return name == "length" ? loop.kept.size() : loop.kept.size() - i - (name == "revindex0");
  }

  Value loop_method(Loop& loop, const std::string& name, Arguments& a) {
    const Value::List all = a.rest_of_places();
    if (name == "cycle" && !all.empty()) return all[loop.index % all.size()];
    if (name != "changed") fail("the method '", name, "' of a loop is not known here");
    const bool has_changed =
        !std::exchange(loop.has_changed, true) || !same(Value::tuple(loop.changed), Value::tuple(all));
    loop.changed = all;
    return has_changed;
  }

  // ---- expressions --------------------------------------------------------------------------------------------------

  Value value(const Expression& e) {
    step(e.line);
    switch (e.kind) {
      case E::literal:
        return e.value;
      case E::name:
        return find(e.text);
      case E::list:
      case E::tuple: {
        Value::List list;
        for (const ExpressionPtr& child : e.children) list.push_back(value(*child));
        return made(e.line, Value::list(std::move(list), e.kind == E::list ? Kind::list : Kind::tuple));
      }
      case E::dictionary: {
        Value::Members members;
        for (std::size_t i = 0; i + 1 < e.children.size(); i += 2) {
          const Value key = value(*e.children[i]);
          members.push_back({key, value(*e.children[i + 1])});
        }
        return made(e.line, Value::dictionary(std::move(members)));
      }
      case E::attribute:
        return member(e.line, value(*e.children[0]), e.text, true);
      case E::item: {
        const Value object = value(*e.children[0]);
        return member(e.line, object, value(*e.children[1]), false);
      }
      case E::slice: {
        const Value object = value(*e.children[0]);
        const auto bound = [&](std::size_t i) { return e.children[i] ? value(*e.children[i]) : Value(nullptr); };
        return slice(e.line, object, {bound(1), bound(2), bound(3)});
      }
      case E::call:
        return made(e.line, call(e));
      case E::filter: {
        const Value object = read(e.line, value(*e.children[0]));
        return made(e.line, filtered(e.text, object, arguments(e)));
      }
      case E::test: {
        const Value object = value(*e.children[0]);
        return tested(e.text, object, arguments(e));
      }
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

  static Value unary(const Expression& e, const Value& a) {
    if (e.text == "not") return !is_true(a);
    if (a.is_real()) return e.text == "-" ? -a.number() : a.number();
    if (a.is_integer() || a.is_boolean()) return binary_at(e.line, e.text, 0, a);
    fail("line ", e.line, ": ", e.text, " of a ", a.type_name());
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
      Value b = read(e.line, value(*operand));
      if (!is_true(binary_at(e.line, sign, a, b))) return false;
      a = std::move(b);
    }
    return true;
  }

  Value member(int line, const Value& object, const Value& key, bool attribute) {
    if (object.is_undefined()) fail("line ", line, ": ", repr_of(key), " of a value that is not defined");
    if (object.kind() == Kind::loop && key.is_string()) return loop_member(object.loop(), key.text());
    return member_of(object, key, attribute);
  }

  Arguments arguments(const Expression& e) {
    Arguments a;
    for (std::size_t i = 1; i < e.children.size(); ++i) a.add("", value(*e.children[i]));
    for (const auto& [name, one] : e.named) a.add(name, value(*one));
    return a;
  }

  // ---- calls --------------------------------------------------------------------------------------------------------

  // `caller`: what a {% call %} gives to the macro.
  Value call(const Expression& e, const Value& caller = undefined()) {
    const Expression& called = *e.children[0];
    const Value object = called.kind == E::attribute ? value(*called.children[0]) : undefined();
    const bool is_method = called.kind == E::attribute && object.kind() != Kind::space;
    if (is_method && object.is_undefined())
      fail("line ", e.line, ": '", called.text, "' of a value that is not defined");
    const Value function = is_method ? undefined() : value(called);
    Arguments a = arguments(e);
    if (function.kind() == Kind::macro) return macro_text(function.macro(), std::move(a), caller);
    if (!caller.is_undefined()) fail("line ", e.line, ": expected the call of a macro");
    if (is_method && object.kind() != Kind::loop) return method(object, called.text, std::move(a));
    if (!is_method && called.kind != E::name) fail("line ", e.line, ": this value can't be called");
    const std::string name = function.kind() == Kind::function ? function.scalar().text() : called.text;
    const Value result = is_method ? loop_method(object.loop(), name, a) : called_function(e.line, name, a);
    a.check_all_read(name + "()");
    return result;
  }

  Value called_function(int line, const std::string& name, Arguments& a) {
    if (name == "dict") return Value::dictionary(members_of(a));
    if (name == "namespace") {
      spaces_.emplace_back();
      for (const auto& [key, one] : members_of(a)) spaces_.back().set(string_in("namespace", key), one);
      return Value(&spaces_.back());
    }
    if (name == "range") return range(line, a);
    if (name == "raise_exception") fail("the template refuses the messages: ", text_of(a.get(0, "message", "")));
    if (name == "strftime_now") return time_text(string_in("strftime_now", a.needed(0, "format")));
    fail("line ", line, ": the function '", name, "' is not known here");
  }

  Value macro(const Statement& s) {
    macros_.push_back({s, scopes_.size() - 1, scopes_.back().number});
    return Value(&macros_.back());
  }

  Value macro_text(const Macro& macro, Arguments a, const Value& caller) {
    const Statement& s = macro.statement;
    if (++depth_ > deepest_call) fail("line ", s.line, ": too many macros in macros");
    if (macro.scope >= scopes_.size() || scopes_[macro.scope].number != macro.scope_number)
      fail("line ", s.line, ": the macro '", s.text, "' is called outside of its block");
    enter(macro.scope);
    for (std::size_t i = 0; i < s.names.size(); ++i) {
      const char* const name = s.names[i].c_str();
      const bool is_given = a.has(i, name);
      set(name, is_given ? a.get(i, name) : s.values[i] ? value(*s.values[i]) : undefined());
    }
    if (s.takes_more) set("varargs", Value::tuple(a.rest_of_places()));
    if (s.takes_named) set("kwargs", Value::dictionary(a.rest_of_names()));
    if (s.takes_caller) set("caller", caller);
    if (!s.takes_caller && !caller.is_undefined()) fail("line ", s.line, ": the macro '", s.text, "' has no caller()");
    a.check_all_read(s.text + "()");
    std::string text;
    block(s.body, text);
    leave();
    --depth_;
    return text;
  }

  std::deque<Scope> scopes_;
  // Values refer to these, and may hold each other.
  std::deque<Space> spaces_;
  std::deque<Loop> loops_;
  std::deque<Macro> macros_;
  std::int64_t steps_ = 0, scopes_made_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string run(const Block& program, const io::Json& variables) { return Runner(variables).run(program); }

}  // namespace fit::jinja
