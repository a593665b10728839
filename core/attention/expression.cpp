// The list of steps of a lambda: how it is made, and computed by operations.
#include "attention/expression.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>

#include "fit/ops.hpp"
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
    case Op::add:
    case Op::subtract:
      if (arg(0) && arg(1)) return sum(*arg(0), s.op == Op::add ? 1 : -1, *arg(1));
      return {};
    case Op::negative:
      if (arg(0)) return sum({}, -1, *arg(0));
      return {};
    case Op::multiply:
      if (arg(0) && arg(1) && arg(0)->is_constant()) return sum({}, arg(0)->constant, *arg(1));
      if (arg(0) && arg(1) && arg(1)->is_constant()) return sum({}, arg(1)->constant, *arg(0));
      return {};
    default:
      return {};
  }
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

Tensor compute_by_operations(const Expression& e, const Tensor& scores, const std::vector<Tensor>& values,
                             const Tensor& masked, const Shape& pairs, const PairOrigin& origin) {
  const DType dtype = scores.defined() ? scores.dtype() : float64;
  std::vector<Tensor> all;
  const auto places = [](std::int64_t n, std::int64_t first, const Shape& shape) {
    return reshape(arange(n).to(float64) + static_cast<double>(first), shape);
  };
  // At masked pairs numbers are 1: no derivative there is infinite, so that 0 times it is 0.
  const auto cleared = [&](const Step& s, Tensor x) {
    if (!masked.defined() || s.kind != SymbolKind::number || x.rank() == 0) return x;
    return masked_fill(broadcast_to(x, pairs), masked, 1);
  };
  const auto value = [&](const Step& s) -> Tensor {
    const auto any = [&](std::size_t i) -> const Tensor& { return all[static_cast<std::size_t>(s.args[i])]; };
    const auto arg = [&](std::size_t i) { return s.kind == SymbolKind::number ? any(i).to(dtype) : any(i); };
    // Both sides of a comparison as numbers of one type.
    const auto side = [&](std::size_t i) { return any(0).dtype() == any(1).dtype() ? any(i) : any(i).to(dtype); };
    if (const SymbolFunction* const f = function_of(s.op))
      return f->operation(arg(0)).to(s.kind == SymbolKind::integer ? float64 : dtype);
    switch (s.op) {
      case Op::number:
        return s.kind == SymbolKind::condition ? full({}, s.number, boolean)
                                               : full({}, s.number, s.kind == SymbolKind::integer ? float64 : dtype);
      case Op::score:
        return scores;
      case Op::batch:
        return places(pairs[0], origin.batch, {pairs[0], 1, 1, 1});
      case Op::head:
        return places(pairs[1], origin.head, {1, pairs[1], 1, 1});
      case Op::query:
        return places(pairs[2], origin.query + e.first_key, {1, 1, pairs[2], 1});
      case Op::row:
        return places(pairs[2], origin.query, {1, 1, pairs[2], 1});
      case Op::key:
        return places(pairs[3], origin.key, {1, 1, 1, pairs[3]});
      case Op::lookup: {
        const Tensor& table = values[static_cast<std::size_t>(s.table)];
        Tensor flat = full({}, 0, float64);
        for (std::size_t axis = 0; axis < s.args.size(); ++axis) {
          const std::int64_t size = table.size(static_cast<int>(axis));
          // Masked pairs may have any index.
          flat = flat * size + clamp(any(axis), 0, size - 1);
        }
        const Tensor x = take(reshape(table, {table.numel()}), flat.to(int64));
        return s.kind == SymbolKind::number    ? x.to(dtype)
               : s.kind == SymbolKind::integer ? x.to(float64)
                                               : x.to(boolean);
      }
      case Op::negative:
        return -arg(0);
      case Op::logical_not:
        return logical_not(any(0));
      case Op::square:
        return arg(0) * arg(0);
      case Op::pow:
        return pow(arg(0), s.number);
      case Op::add:
        return arg(0) + arg(1);
      case Op::subtract:
        return arg(0) - arg(1);
      case Op::multiply:
        return arg(0) * arg(1);
      case Op::divide:
        return s.kind == SymbolKind::integer ? floor(arg(0) / arg(1)) : arg(0) / arg(1);
      case Op::remainder:
        return remainder(arg(0), arg(1));
      case Op::minimum:
        return minimum(arg(0), arg(1));
      case Op::maximum:
        return maximum(arg(0), arg(1));
      case Op::less:
        return side(0) < side(1);
      case Op::less_equal:
        return side(0) <= side(1);
      case Op::equal:
        return side(0) == side(1);
      case Op::not_equal:
        return side(0) != side(1);
      case Op::logical_and:
        return logical_and(any(0), any(1));
      case Op::logical_or:
        return logical_or(any(0), any(1));
      case Op::where:
        return where(any(0), arg(1), arg(2));
      default:
        return {};
    }
  };
  for (const Step& s : e.steps) all.push_back(cleared(s, value(s)));
  return all.back();
}

}  // namespace fit::detail
