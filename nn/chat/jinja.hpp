#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/value.hpp"

// The part of Jinja that chat templates use.
namespace fit::jinja {

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
/// Removes comments and white space as the template says, and as trim_blocks and lstrip_blocks do. A line ends with \n.
std::vector<Token> tokens_of(const std::string& source);

// ---- the tree -----------------------------------------------------------------------------------------------------

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind {
    literal,     // value
    name,        // text
    list,        // children
    tuple,       // children
    dictionary,  // children: key, value, …
    attribute,   // children[0].text
    item,        // children[0][children[1]]
    slice,       // children[0][1:2:3]; a child may be null
    call,        // children[0](children[1 …], named)
    filter,      // children[0] | text(children[1 …], named)
    test,        // children[0] is text(children[1 …], named)
    unary,       // text: not, -, +
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

// What stands in a block is the variable of this name for the filters of the block.
constexpr const char* block_text = "";

struct Statement {
  enum class Kind {
    text,       // text
    print,      // expression
    branch,     // condition, body, otherwise; elif is a branch in `otherwise`
    loop,       // target, expression, condition, body, otherwise
    set,        // target, expression
    set_block,  // target, body; expression: the value, with filters
    filter,     // body; expression
    macro,      // text: its name; names, values: the defaults, null without one; body
    call,       // expression: the call; names, values and body, as of a macro: what caller() gives
    with,       // names, values, body
    group,      // body, with variables of its own
    break_loop,
    continue_loop
  };
  Kind kind;
  int line;
  std::string text;
  std::vector<std::string> names;
  ExpressionPtr target;  // a name, an attribute of a namespace, or a tuple of targets
  ExpressionPtr expression, condition;
  Block body, otherwise;
  std::vector<ExpressionPtr> values;
  // Of a macro: whether it has the variables varargs, kwargs and caller.
  bool takes_more = false, takes_named = false, takes_caller = false;
};

/// Throws Error, with the line, for what is not known.
Block parsed(const std::string& source);

// ---- running ------------------------------------------------------------------------------------------------------

/// The arguments of a filter, test, method, function or macro. They know which of them were read.
class Arguments {
 public:
  /// An argument without a name has a place.
  void add(const std::string& name, const Value& value) { all_.push_back({name, value, false}); }
  /// The argument with this place or name; `absent` if there is none.
  Value get(std::size_t place, const char* name, const Value& absent = undefined());
  /// The same for an argument that must be there.
  Value needed(std::size_t place, const char* name);
  bool has(std::size_t place, const char* name) const { return found(place, name) < all_.size(); }
  /// All that were not read.
  Arguments rest();
  /// Those of `rest()` without a name, and those with one.
  Value::List rest_of_places();
  Value::Members rest_of_names();
  /// Throws Error, in the name of `what`, for an argument that was not read: it would do nothing.
  void check_all_read(const std::string& what) const;

 private:
  struct Given {
    std::string name;
    Value value;
    bool was_read;
  };
  std::size_t found(std::size_t place, const char* name) const;
  std::vector<Given> all_;  // those without a name first
};

std::string run(const Block& program, const io::Json& variables);

Value filtered(const std::string& name, const Value& value, Arguments arguments);
bool tested(const std::string& name, const Value& value, Arguments arguments);
Value method(const Value& object, const std::string& name, Arguments arguments);

/// A filter, test or method, by its name.
struct Row {
  const char* name;
  Value (*of)(const Value& value, Arguments& arguments);
};
using Rows = std::vector<Row>;
inline const Row* row_of(const Rows& rows, const std::string& name) {
  for (const Row& row : rows)
    if (name == row.name) return &row;
  return nullptr;
}
const Rows& string_filters();
const Rows& string_methods();
const Rows& list_filters();

// ---- strings ------------------------------------------------------------------------------------------------------

/// The string; throws Error in the name of `what` for another value.
const std::string& string_in(const char* what, const Value& value);
std::int64_t integer_in(const char* what, const Value& value);
/// Python's str.lower().
std::string lower(const std::string& text);
/// format % values.
std::string formatted(const std::string& format, const Value::List& values);
/// White space, as Python's str.strip() removes it.
bool is_blank(char32_t c);
/// A string without the characters of `which` (white space if empty) at its ends.
std::string stripped(const std::string& text, bool left, bool right, const std::string& which = {});

}  // namespace fit::jinja
