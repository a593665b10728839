// Symbols record the calls that a lambda makes with them. This file checks kinds.
#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "attention/score/expression.hpp"
#include "attention/score/lowering.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

using detail::SymbolKind;
using detail::SymbolNode;
using Op = detail::SymbolOp;
using Node = detail::SymbolNodes;

constexpr const char* op_name = "score";

// How an operation is written. Precedence as in C++, from loose to tight; 0: a function, or a value.
struct Notation {
  const char* text;
  int precedence;
};
Notation notation(Op op) {
  const auto prefix = [](const char* text, int precedence) { return Notation{text, precedence}; };
  const auto infix = prefix;
  constexpr Notation call{nullptr, 0};
#define LEAF(name, text) {#name, {text, 0}},
#define OPERATION(name, arity, notation, ...) {#name, notation},
#define KERNEL(name, ...) {#name, call},
  const std::pair<const char*, Notation> all[] = {FIT_SCORE_OPERATIONS(LEAF, OPERATION, OPERATION, KERNEL)};
#undef LEAF
#undef OPERATION
#undef KERNEL
  const auto& [name, n] = all[static_cast<int>(op)];
  return {n.text ? n.text : name, n.precedence};
}

std::string table_name(const Tensor& t) { return "table" + t.shape().str(); }

constexpr std::streamoff max_text = 1000;  // of an expression. With shared parts it could be exponentially long.

// The rest of a text that has grown too long is left out.
void print(std::ostream& out, const SymbolNode& n, int outer) {
  if (out.tellp() > max_text) return;
  const auto [text, precedence] = notation(n.op);
  if (n.op == Op::number) {
    if (n.kind == SymbolKind::condition)
      out << (n.number != 0 ? "true" : "false");
    else
      out << n.number;
  } else if (n.op == Op::lookup) {
    out << table_name(n.table);
    for (const Node& index : n.args) print(out << '[', *index, 0), out << ']';
  } else if (precedence == 0) {
    out << text;
    for (std::size_t i = 0; i < n.args.size(); ++i) print(out << (i == 0 ? "(" : ", "), *n.args[i], 0);
    if (n.op == Op::pow) out << ", " << n.number;
    if (!n.args.empty()) out << ')';
  } else {
    if (precedence < outer) out << '(';
    if (n.args.size() == 1) print(out << text, *n.args[0], precedence);
    const bool associative = n.op == Op::logical_and || n.op == Op::logical_or;
    if (n.args.size() == 2)
      print(out, *n.args[0], precedence), print(out << text, *n.args[1], precedence + !associative);
    if (precedence < outer) out << ')';
  }
}

std::string shown(const SymbolNode& n) {
  std::ostringstream out;
  out.precision(12);
  print(out, n, 0);
  const std::string text = out.str();
  return out.tellp() > max_text ? text.substr(0, max_text) + " …" : text;
}

const char* name_of(SymbolKind kind) {
  return kind == SymbolKind::number ? "a number" : kind == SymbolKind::integer ? "an integer" : "a condition";
}

// A finished value: a lookup has all its indices.
const Node& complete(const Node& n) {
  if (n->op == Op::lookup && static_cast<int>(n->args.size()) != n->table.rank())
    check::fail(op_name, shown(*n), " has ", n->args.size(), " of ", n->table.rank(),
                " indices: a table needs one for each axis");
  return n;
}

[[noreturn]] void fail_kind(const SymbolNode& whole, const SymbolNode& part, const char* rule) {
  check::fail(op_name, "in ", shown(whole), ", ", shown(part), " is ", name_of(part.kind), ": ", rule);
}

// The arguments of a call from number `from` to `end` - 1 must be no conditions, or must be conditions.
void expect_numbers(const SymbolNode& n, std::size_t from = 0) {
  for (std::size_t i = from; i < n.args.size(); ++i)
    if (n.args[i]->kind == SymbolKind::condition)
      fail_kind(n, *n.args[i], "a number is needed; where(condition, a, b) makes one");
}
void expect_conditions(const SymbolNode& n, std::size_t end) {
  for (std::size_t i = 0; i < end; ++i)
    if (n.args[i]->kind != SymbolKind::condition) fail_kind(n, *n.args[i], "a condition is needed, such as a < b");
}

// The kind of a result from those of the arguments. Throws Error if they do not fit.
using KindRule = SymbolKind (*)(const SymbolNode&);

bool all_are(SymbolKind kind, const SymbolNode& n, std::size_t from = 0) {
  return std::all_of(n.args.begin() + static_cast<std::ptrdiff_t>(from), n.args.end(),
                     [&](const Node& a) { return a->kind == kind; });
}
SymbolKind number(const SymbolNode& n) {
  expect_numbers(n);
  return SymbolKind::number;
}
SymbolKind exact(const SymbolNode& n) {  // integers give an integer
  expect_numbers(n);
  return all_are(SymbolKind::integer, n) ? SymbolKind::integer : SymbolKind::number;
}
SymbolKind integers(const SymbolNode& n) {
  expect_numbers(n);
  for (const Node& a : n.args)
    if (a->kind != SymbolKind::integer) fail_kind(n, *a, "% is for integers");
  return SymbolKind::integer;
}
SymbolKind floors(const SymbolNode& n) {
  expect_numbers(n);
  return SymbolKind::integer;
}
SymbolKind comparison(const SymbolNode& n) {
  expect_numbers(n);
  return SymbolKind::condition;
}
SymbolKind equality(const SymbolNode& n) {  // of numbers, or of conditions
  if (!all_are(SymbolKind::condition, n)) expect_numbers(n);
  return SymbolKind::condition;
}
SymbolKind logic(const SymbolNode& n) {
  expect_conditions(n, n.args.size());
  return SymbolKind::condition;
}
SymbolKind choice(const SymbolNode& n) {
  expect_conditions(n, 1);
  if (all_are(SymbolKind::condition, n, 1)) return SymbolKind::condition;
  expect_numbers(n, 1);
  return all_are(SymbolKind::integer, n, 1) ? SymbolKind::integer : SymbolKind::number;
}

SymbolKind kind_of(const SymbolNode& n) {
#define LEAF(...) nullptr,
#define OPERATION(name, arity, notation, kind, ...) kind,
#define KERNEL(name, kind, ...) kind,
  constexpr KindRule rules[] = {FIT_SCORE_OPERATIONS(LEAF, OPERATION, OPERATION, KERNEL)};
#undef LEAF
#undef OPERATION
#undef KERNEL
  return rules[static_cast<int>(n.op)](n);
}

// Throws Error for a depth at which the destructor, which is recursive, could use up the stack.
Node node(SymbolNode n) {
  constexpr int max_depth = 5000;
  for (const Node& a : n.args) n.depth = std::max(n.depth, a->depth + 1);
  if (n.depth > max_depth)
    check::fail(op_name, "operations are nested more than ", max_depth,
                " deep: look numbers up in a table, or make a long sum of two sums");
  return std::make_shared<const SymbolNode>(std::move(n));
}

Node made(Op op, std::vector<Node> args, double number = 0) {
  for (const Node& a : args) complete(a);
  SymbolNode n{op, SymbolKind::number, number, {}, std::move(args)};
  n.kind = kind_of(n);
  if (op == Op::divide && n.kind == SymbolKind::integer) n.op = Op::floor_divide;
  return node(std::move(n));
}

SymbolKind kind_of_elements(const Tensor& t) {
  return t.dtype() == boolean ? SymbolKind::condition : t.dtype() == int64 ? SymbolKind::integer : SymbolKind::number;
}

Node looked_up(const Tensor& table, std::vector<Node> indices) {
  return node({Op::lookup, kind_of_elements(table), 0, table, std::move(indices)});
}

constexpr detail::ExpressionMethods mask_methods{detail::written,
                                                 detail::read_calls,
                                                 detail::bounds_of_steps,
                                                 detail::check_steps,
                                                 detail::compute_by_operations,
                                                 {}};
constexpr detail::ExpressionMethods score_methods{detail::written,
                                                  detail::read_calls,
                                                  detail::bounds_of_steps,
                                                  detail::check_steps,
                                                  detail::compute_by_operations,
                                                  {detail::lowered_score<float>, detail::lowered_score<double>}};

// A whole mask or score function.
Node whole(const Node& result, const detail::ExpressionMethods& methods) {
  SymbolNode n = *complete(result);
  n.methods = &methods;
  return std::make_shared<const SymbolNode>(std::move(n));
}

}  // namespace

Symbol::Symbol(SymbolKind kind, double value, std::int64_t integer_value)
    : node_(std::make_shared<const SymbolNode>(SymbolNode{Op::number, kind, value, {}})) {
  constexpr std::int64_t limit = std::int64_t{1} << 53;
  if (kind == SymbolKind::integer && (integer_value > limit || integer_value < -limit))
    check::fail(op_name, "the integer ", integer_value, " is too large: it must be within 2^53");
}

Symbol::Symbol(const Tensor& number) {
  check::defined(op_name, "a captured tensor", number);
  if (number.rank() != 0)
    check::fail(op_name, "a captured tensor of shape ", number.shape(),
                " stands for a number: it must have no axes, or an index for each: table[at.head][at.key]");
  node_ = looked_up(number, {});
}

Symbol::Symbol(Op leaf)
    : node_(std::make_shared<const SymbolNode>(
          SymbolNode{leaf, leaf == Op::score ? SymbolKind::number : SymbolKind::integer, 0, {}})) {}

Symbol Symbol::operator[](const Symbol& index) const {
  const SymbolNode& t = *node_;
  if (t.op != Op::lookup) check::fail(op_name, shown(t), " is no table: it has no index ", index.str());
  if (static_cast<int>(t.args.size()) == t.table.rank())
    check::fail(op_name, shown(t), " has an index for each axis: ", index.str(), " is one too many");
  complete(index.node_);
  if (index.node_->kind != SymbolKind::integer)
    check::fail(op_name, "the index ", index.str(), " of ", shown(t), " is ", name_of(index.node_->kind),
                ": it must be an integer; floor() makes one");
  std::vector<Node> indices = t.args;
  indices.push_back(index.node_);
  return Symbol(looked_up(t.table, std::move(indices)));
}

Symbol Symbol::lookup(const Tensor& table, const Symbol& index) {
  check::defined(op_name, "a captured table", table);
  return Symbol(looked_up(table, {}))[index];
}

std::string Symbol::str() const { return node_ ? shown(*node_) : "nothing"; }

Symbol Symbol::of(Op op, const Symbol& a) { return Symbol(made(op, {a.node_})); }
Symbol Symbol::of(Op op, const Symbol& a, const Symbol& b) { return Symbol(made(op, {a.node_, b.node_})); }
Symbol Symbol::of(Op op, const Symbol& a, const Symbol& b, const Symbol& c) {
  return Symbol(made(op, {a.node_, b.node_, c.node_}));
}
Symbol Symbol::power(const Symbol& x, double e) { return Symbol(made(Op::pow, {x.node_}, e)); }

At::At() : batch(Op::batch), head(Op::head), query(Op::query), key(Op::key), row(Op::row) {}

ScoreFunction::ScoreFunction(const Symbol& s) : node_(whole(s.node_, score_methods)) {
  if (node_->kind == SymbolKind::condition)
    check::fail(op_name, s.str(), " is a condition: a score is a number; where(condition, a, b) makes one");
}

AttentionMask::AttentionMask(const Symbol& s) : node_(whole(s.node_, mask_methods)) {
  if (node_->kind != SymbolKind::condition)
    check::fail("attends", s.str(), " is ", name_of(node_->kind),
                ": a mask is a condition, such as at.query >= at.key");
}

AttentionMask AttentionMask::combined(Op op, const AttentionMask& a, const AttentionMask& b) {
  if (!a.defined() || !b.defined()) {
    const AttentionMask& other = a.defined() ? a : b;
    return op == Op::logical_and ? other : AttentionMask();
  }
  // By the methods of a: programs without masks of their own do not contain them, although layers combine masks.
  AttentionMask both;
  both.node_ = whole(made(op, {a.node_, b.node_}), *a.node_->methods);
  return both;
}

AttentionMask AttentionMask::negated(const AttentionMask& a) {
  return AttentionMask(a.defined() ? !Symbol(a.node_) : Symbol(false));
}

namespace detail {
std::string written(const SymbolNode& n) { return shown(n); }
}  // namespace detail

}  // namespace fit
