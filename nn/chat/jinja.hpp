#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/json.hpp"
#include "tensor/check.hpp"

// The part of Jinja that chat templates use.
namespace fit::jinja {

/// A value of a template.
using Value = io::Json;
inline Value undefined() { return Value::undefined(); }

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  check::fail("ChatTemplate", parts...);
}

// ---- tokens -------------------------------------------------------------------------------------------------------

struct Token {
  enum class Kind {
    text,
    begin_expression,
    end_expression,
    begin_statement,
    end_statement,
    name,
    string,
    number,
    sign,
    end
  };
  Kind kind;
  std::string text;  // of a name, a string without its quotes, a sign
  int line;
};
/// Removes comments and white space as the template says, and as trim_blocks and lstrip_blocks do.
std::vector<Token> tokens_of(const std::string& source);

// ---- the tree -----------------------------------------------------------------------------------------------------

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind {
    literal,     // value
    name,        // text
    list,        // children
    dictionary,  // children: key, value, …
    attribute,   // children[0].text
    item,        // children[0][children[1]]
    slice,       // children[0][1:2:3]; a child may be null
    call,        // children[0](children[1 …], named)
    filter,      // children[0] | text(children[1 …], named)
    test,        // children[0] is text(children[1 …])
    unary,       // text: not, -
    binary,      // text: the operator
    comparison,  // children[0], then named: each sign with the operand behind it
    conditional  // children[1] ? children[0] : children[2], which may be null
  };
  Kind kind;
  int line, depth = 1;  // depth: of the tree below, with this node
  std::string text;
  Value value;
  std::vector<ExpressionPtr> children;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Statement;
using Block = std::vector<Statement>;

struct Statement {
  enum class Kind { text, print, branch, loop, set, set_block, macro, break_loop, continue_loop, group };
  Kind kind;
  int line;
  std::string text;                // of a text; a macro's name; the attribute that is set
  std::vector<std::string> names;  // of a loop, set or macro
  ExpressionPtr expression, condition;
  Block body, otherwise;                // branch: if and else; elif is a branch in else
  std::vector<ExpressionPtr> defaults;  // of a macro, null without one
};

/// Throws Error, with the line, for what is not known.
Block parsed(const std::string& source);

// ---- running ------------------------------------------------------------------------------------------------------

/// The arguments of a filter, test, method or function.
struct Arguments {
  std::vector<Value> all;
  std::vector<std::pair<std::string, Value>> named;
  /// The argument with this place or name; `absent` if there is none.
  Value get(std::size_t place, const char* name, const Value& absent = undefined()) const;
};

std::string run(const Block& program, const Value& variables);

bool is_true(const Value& value);
/// The keys of a dictionary, as a list.
Value keys_of(const Value& object);
/// As Python's str() prints it. Throws Error for lists and dictionaries.
std::string text_of(const Value& value);
/// As json.dumps() of Python prints it, without escapes of characters beyond ASCII. indent -1: in one line.
std::string json_of(const Value& value, int indent);
Value filtered(const std::string& name, const Value& value, const Arguments& arguments);
bool tested(const std::string& name, const Value& value, const Arguments& arguments);
Value method(const Value& object, const std::string& name, const Arguments& arguments);
Value binary(const std::string& sign, const Value& a, const Value& b);
bool contains(const Value& container, const Value& value);
/// White space, as Python's str.strip() removes it.
bool is_blank(char32_t c);
/// A string without the characters of `which` (white space if empty) at its ends.
std::string stripped(const std::string& text, bool left, bool right, const std::string& which = {});

}  // namespace fit::jinja
