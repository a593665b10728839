// The list of steps of a lambda: how it is made, and computed by operations.
#include "attention/score/expression.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>

#include "fit/ops/ops.hpp"
#include "kernels/functions.hpp"

namespace fit::detail {
namespace {

using Op = SymbolOp;
using Step = Expression::Step;

#define FUNCTION(op, name)                                                               \
  {                                                                                      \
    Op::op, #name, kernels::Function::name, [](const Tensor& x) { return fit::name(x); } \
  }
constexpr SymbolFunction symbol_functions[] = {
    FUNCTION(absolute, abs),    FUNCTION(floor, floor),       FUNCTION(exp, exp),  FUNCTION(log, log),
    FUNCTION(sqrt, sqrt),       FUNCTION(sin, sin),           FUNCTION(cos, cos),  FUNCTION(tanh, tanh),
    FUNCTION(sigmoid, sigmoid), FUNCTION(softplus, softplus), FUNCTION(relu, relu)};
#undef FUNCTION

// The form of an integer from those of its arguments.
std::optional<LinearForm> form_of(const Step& s, const std::vector<Step>& steps, std::int64_t first_key) {
  if (s.kind != SymbolKind::integer) return {};
  LinearForm f;
  const auto leaf = [&](double LinearForm::*coefficient, double constant = 0) {
    f.*coefficient = 1, f.constant = constant;
    return f;
  };
  const auto arg = [&](std::size_t i) { return steps[static_cast<std::size_t>(s.args[i])].form; };
  const auto sum = [](const LinearForm& a, double factor, const LinearForm& b) {
    return LinearForm{a.constant + factor * b.constant, a.batch + factor * b.batch, a.head + factor * b.head,
                      a.query + factor * b.query, a.key + factor * b.key};
  };
  switch (s.op) {
    case Op::number:
      f.constant = s.number;
      return f;
    case Op::batch:
      return leaf(&LinearForm::batch);
    case Op::head:
      return leaf(&LinearForm::head);
    case Op::query:
      return leaf(&LinearForm::query);
    case Op::row:
      return leaf(&LinearForm::query, -static_cast<double>(first_key));
    case Op::key:
      return leaf(&LinearForm::key);
    default:
      break;
  }
  if (s.op == Op::negative && arg(0)) return sum({}, -1, *arg(0));
  if (s.args.size() != 2 || !arg(0) || !arg(1)) return {};
  if (s.op == Op::add || s.op == Op::subtract) return sum(*arg(0), s.op == Op::add ? 1 : -1, *arg(1));
  if (s.op == Op::multiply && arg(0)->is_constant()) return sum({}, arg(0)->constant, *arg(1));
  if (s.op == Op::multiply && arg(1)->is_constant()) return sum({}, arg(1)->constant, *arg(0));
  return {};
}

// Makes the list from the nodes: equal calls are one step.
class Builder {
 public:
  explicit Builder(Expression& e) : e_(e) {}
  int step(const SymbolNode& n) {
    const auto known = of_node_.find(&n);
    if (known != of_node_.end()) return known->second;
    Step s{n.op, n.kind, n.number, -1, {}, {}};
    for (const SymbolNodes& a : n.args) s.args.push_back(step(*a));
    if (n.op == Op::lookup) s.table = table(n.table);
    const auto key = std::make_tuple(s.op, s.kind, s.number, s.table, s.args);
    const auto [at, added] = of_value_.emplace(key, static_cast<int>(e_.steps.size()));
    if (added) {
      s.form = form_of(s, e_.steps, e_.first_key);
      e_.steps.push_back(std::move(s));
    }
    of_node_.emplace(&n, at->second);
    return at->second;
  }

 private:
  int table(const Tensor& t) {
    for (std::size_t i = 0; i < e_.tables.size(); ++i)
      if (e_.tables[i].impl() == t.impl()) return static_cast<int>(i);
    e_.tables.push_back(t);
    return static_cast<int>(e_.tables.size()) - 1;
  }

  Expression& e_;
  std::unordered_map<const SymbolNode*, int> of_node_;
  std::map<std::tuple<Op, SymbolKind, double, int, std::vector<int>>, int> of_value_;
};

}  // namespace

const SymbolFunction* function_of(SymbolOp op) {
  for (const SymbolFunction& f : symbol_functions)
    if (f.op == op) return &f;
  return nullptr;
}

Expression::Expression(const SymbolNodes& root, std::int64_t first_key_or_0)
    : methods(root->methods), first_key(first_key_or_0) {
  methods->read(*this, *root);
}

void read_calls(Expression& e, const SymbolNode& root) {
  e.text = written(root);
  Builder(e).step(root);
}

Tensor Expression::code() const {
  std::vector<double> all;
  for (const Step& s : steps) {
    const auto n = [](auto x) { return static_cast<double>(x); };
    all.insert(all.end(), {n(s.op), n(s.kind), s.number, n(s.table), n(s.args.size())});
    for (const int a : s.args) all.push_back(a);
  }
  Tensor code = Tensor::empty({static_cast<std::int64_t>(all.size())}, float64);
  std::copy(all.begin(), all.end(), code.fresh<double>());
  return code;
}

Expression::Expression(const ExpressionMethods& its_methods, const Tensor& code, std::vector<Tensor> its_tables,
                       std::int64_t first_key_or_0)
    : methods(&its_methods), tables(std::move(its_tables)), first_key(first_key_or_0) {
  const auto data = code.data<double>();
  for (std::int64_t at = 0; at < data.size();) {
    const auto next = [&] { return static_cast<int>(data[at++]); };
    Step s{};
    s.op = static_cast<SymbolOp>(next()), s.kind = static_cast<SymbolKind>(next());
    s.number = data[at++], s.table = next();
    for (int n = next(); n > 0; --n) s.args.push_back(next());
    s.form = form_of(s, steps, first_key);
    steps.push_back(std::move(s));
  }
}

bool Expression::reads(SymbolOp leaf) const {
  return std::any_of(steps.begin(), steps.end(), [&](const Step& s) { return s.op == leaf; });
}

std::int64_t Expression::extent(SymbolOp leaf) const {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const Step& s : steps)
    for (std::size_t axis = 0; s.op == SymbolOp::lookup && axis < s.args.size(); ++axis)
      if (steps[static_cast<std::size_t>(s.args[axis])].op == leaf)
        least = std::min(least, tables[static_cast<std::size_t>(s.table)].size(static_cast<int>(axis)));
  return least == std::numeric_limits<std::int64_t>::max() ? 1 : least;
}

namespace {

// compute_by_operations(), step by step.
class Operations {
 public:
  Operations(const Expression& e, const Tensor& scores, const std::vector<Tensor>& tables, const Tensor& masked,
             const Shape& pairs, const PairOrigin& origin)
      : e_(e), scores_(scores), tables_(tables), masked_(masked), pairs_(pairs), origin_(origin) {}

  Tensor result() {
    for (const Step& s : e_.steps) {
      const Tensor x = s.args.empty() || s.op == Op::lookup ? leaf(s) : s.args.size() == 1 ? unary(s) : binary(s);
      // At masked pairs numbers are 1: no derivative there is infinite, so that 0 times it is 0.
      const bool clears = masked_.defined() && s.kind == SymbolKind::number && x.rank() > 0;
      all_.push_back(clears ? masked_fill(broadcast_to(x, pairs_), masked_, 1) : x);
    }
    return all_.back();
  }

 private:
  const Tensor& any(const Step& s, std::size_t i) const { return all_[static_cast<std::size_t>(s.args[i])]; }
  // An argument in the type of the result.
  Tensor arg(const Step& s, std::size_t i) const {
    return s.kind == SymbolKind::number ? any(s, i).to(dtype_) : any(s, i);
  }
  DType dtype_of(SymbolKind kind) const {
    return kind == SymbolKind::condition ? boolean : kind == SymbolKind::integer ? float64 : dtype_;
  }

  // A number, the score, a place or an element of a table.
  Tensor leaf(const Step& s) const {
    const auto places = [](std::int64_t n, std::int64_t first, const Shape& shape) {
      return reshape(arange(n).to(float64) + static_cast<double>(first), shape);
    };
    switch (s.op) {
      case Op::number:
        return full({}, s.number, dtype_of(s.kind));
      case Op::score:
        return scores_;
      case Op::batch:
        return places(pairs_[0], origin_.batch, {pairs_[0], 1, 1, 1});
      case Op::head:
        return places(pairs_[1], origin_.head, {1, pairs_[1], 1, 1});
      case Op::query:
        return places(pairs_[2], origin_.query + e_.first_key, {1, 1, pairs_[2], 1});
      case Op::row:
        return places(pairs_[2], origin_.query, {1, 1, pairs_[2], 1});
      case Op::key:
        return places(pairs_[3], origin_.key, {1, 1, 1, pairs_[3]});
      default:
        return looked_up(s);
    }
  }
  Tensor looked_up(const Step& s) const {
    const Tensor& table = tables_[static_cast<std::size_t>(s.table)];
    Tensor flat = full({}, 0, float64);
    for (std::size_t axis = 0; axis < s.args.size(); ++axis) {
      const std::int64_t size = table.size(static_cast<int>(axis));
      flat = flat * size + clamp(any(s, axis), 0, size - 1);  // masked pairs may have any index
    }
    return take(reshape(table, {table.numel()}), flat.to(int64)).to(dtype_of(s.kind));
  }
  Tensor unary(const Step& s) const {
    if (const SymbolFunction* const f = function_of(s.op)) return f->operation(arg(s, 0)).to(dtype_of(s.kind));
    switch (s.op) {
      case Op::negative:
        return -arg(s, 0);
      case Op::logical_not:
        return logical_not(any(s, 0));
      case Op::square:
        return arg(s, 0) * arg(s, 0);
      default:
        return pow(arg(s, 0), s.number);
    }
  }
  Tensor binary(const Step& s) const {
    switch (s.op) {
      case Op::add:
        return arg(s, 0) + arg(s, 1);
      case Op::subtract:
        return arg(s, 0) - arg(s, 1);
      case Op::multiply:
        return arg(s, 0) * arg(s, 1);
      case Op::divide:
        return s.kind == SymbolKind::integer ? floor(arg(s, 0) / arg(s, 1)) : arg(s, 0) / arg(s, 1);
      case Op::remainder:
        return remainder(arg(s, 0), arg(s, 1));
      case Op::minimum:
        return minimum(arg(s, 0), arg(s, 1));
      case Op::maximum:
        return maximum(arg(s, 0), arg(s, 1));
      case Op::where:
        return where(any(s, 0), arg(s, 1), arg(s, 2));
      default:
        return condition(s);
    }
  }
  Tensor condition(const Step& s) const {
    const Tensor &x = any(s, 0), &y = any(s, 1);
    if (s.op == Op::logical_and) return logical_and(x, y);
    if (s.op == Op::logical_or) return logical_or(x, y);
    const bool same = x.dtype() == y.dtype();  // numbers are compared in one type
    const Tensor a = same ? x : x.to(dtype_), b = same ? y : y.to(dtype_);
    switch (s.op) {
      case Op::less:
        return a < b;
      case Op::less_equal:
        return a <= b;
      case Op::equal:
        return a == b;
      default:
        return a != b;
    }
  }

  const Expression& e_;
  const Tensor& scores_;
  const std::vector<Tensor>& tables_;
  const Tensor& masked_;
  const Shape& pairs_;
  const PairOrigin& origin_;
  const DType dtype_ = scores_.defined() ? scores_.dtype() : float64;
  std::vector<Tensor> all_;  // the results of the steps so far
};

}  // namespace

Tensor compute_by_operations(const Expression& e, const Tensor& scores, const std::vector<Tensor>& values,
                             const Tensor& masked, const Shape& pairs, const PairOrigin& origin) {
  return Operations(e, scores, values, masked, pairs, origin).result();
}

}  // namespace fit::detail
