// The list of steps of a lambda: how it is made, and computed by operations.
#include "attention/score/expression.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>

#include "fit/ops/ops.hpp"

namespace fit::detail {
namespace {

using Op = SymbolOp;
using Step = Expression::Step;

// A place of a pair. Places of queries count from first_key or, for rows, from 0.
struct Place {
  Op op;
  int axis;  // of the pairs
  double LinearForm::*coefficient;
  std::int64_t PairOrigin::*first;
};
constexpr Place places[] = {{Op::batch, 0, &LinearForm::batch, &PairOrigin::batch},
                            {Op::head, 1, &LinearForm::head, &PairOrigin::head},
                            {Op::query, 2, &LinearForm::query, &PairOrigin::query},
                            {Op::row, 2, &LinearForm::query, &PairOrigin::query},
                            {Op::key, 3, &LinearForm::key, &PairOrigin::key}};
const Place* place_of(Op op) {
  const auto* const found =
      std::find_if(std::begin(places), std::end(places), [&](const Place& p) { return p.op == op; });
  return found == std::end(places) ? nullptr : found;
}

// The form of an integer from those of its arguments.
std::optional<LinearForm> form_of(const Step& s, const std::vector<Step>& steps, std::int64_t first_key) {
  if (s.kind != SymbolKind::integer) return {};
  LinearForm f;
  const auto arg = [&](std::size_t i) { return steps[static_cast<std::size_t>(s.args[i])].form; };
  const auto sum = [](const LinearForm& a, double factor, const LinearForm& b) {
    return LinearForm{a.constant + factor * b.constant, a.batch + factor * b.batch, a.head + factor * b.head,
                      a.query + factor * b.query, a.key + factor * b.key};
  };
  if (s.op == Op::number) f.constant = s.number;
  if (s.op == Op::row) f.constant = -static_cast<double>(first_key);
  if (const Place* const place = place_of(s.op)) f.*place->coefficient = 1;
  if (s.op != Op::lookup && s.args.empty()) return f;
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
  // Adds the steps of a node, arguments first. Without recursion: it may be deep.
  void steps_of(const SymbolNode& root) {
    std::vector<const SymbolNode*> open{&root};
    while (!open.empty()) {
      const SymbolNode& n = *open.back();
      const std::size_t before = open.size();
      for (auto a = n.args.rbegin(); a != n.args.rend(); ++a)
        if (of_node_.count(a->get()) == 0) open.push_back(a->get());
      if (open.size() != before) continue;
      open.pop_back();
      if (of_node_.count(&n) == 0) of_node_.emplace(&n, step(n));
    }
  }

 private:
  // The step of a node whose arguments have theirs.
  int step(const SymbolNode& n) {
    Step s{n.op, n.kind, n.number, -1, {}, {}};
    for (const SymbolNodes& a : n.args) s.args.push_back(of_node_.at(a.get()));
    if (n.op == Op::lookup) s.table = table(n.table);
    const auto key = std::make_tuple(s.op, s.kind, s.number, s.table, s.args);
    const auto [at, added] = of_value_.emplace(key, static_cast<int>(e_.steps.size()));
    if (added) {
      s.form = form_of(s, e_.steps, e_.first_key);
      e_.steps.push_back(std::move(s));
    }
    return at->second;
  }

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

Expression::Expression(const SymbolNodes& its_root, std::int64_t first_key_or_0)
    : methods(its_root->methods), first_key(first_key_or_0), root(its_root) {
  methods->read(*this, *root);
}

std::string Expression::text() const { return root ? methods->write(*root) : std::string(); }

void read_calls(Expression& e, const SymbolNode& root) { Builder(e).steps_of(root); }

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
      const Tensor x = s.op == Op::lookup ? looked_up(s) : s.args.empty() ? leaf(s) : operation(s);
      // At masked pairs numbers are 1: no derivative there is infinite, so that 0 times it is 0.
      const bool clears = masked_.defined() && s.kind == SymbolKind::number && x.rank() > 0;
      all_.push_back(clears ? masked_fill(broadcast_to(x, pairs_), masked_, 1) : x);
    }
    return all_.back();
  }

 private:
  const Tensor& any(const Step& s, std::size_t i) const { return all_[static_cast<std::size_t>(s.args[i])]; }
  DType dtype_of(SymbolKind kind) const {
    return kind == SymbolKind::condition ? boolean : kind == SymbolKind::integer ? float64 : dtype_;
  }

  // A number, the score or a place.
  Tensor leaf(const Step& s) const {
    if (s.op == Op::number) return full({}, s.number, dtype_of(s.kind));
    const Place* const place = place_of(s.op);
    if (!place) return scores_;
    const int axis = place->axis;
    const Shape shape = Shape{1, 1, 1, 1}.with(axis, pairs_[axis]);
    const std::int64_t first = origin_.*place->first + (s.op == Op::query ? e_.first_key : 0);
    return reshape(arange(pairs_[axis]).to(float64) + static_cast<double>(first), shape);
  }
  Tensor looked_up(const Step& s) const {
    const Tensor& table = tables_[static_cast<std::size_t>(s.table)];
    if (table.numel() == 0)  // there are no pairs
      return take(reshape(table, {0}), zeros(pairs_, int64)).to(dtype_of(s.kind));
    Tensor flat = full({}, 0, float64);
    for (std::size_t axis = 0; axis < s.args.size(); ++axis) {
      const std::int64_t size = table.size(static_cast<int>(axis));
      flat = flat * size + clamp(any(s, axis), 0, size - 1);  // masked pairs may have any index
    }
    return take(reshape(table, {table.numel()}), flat.to(int64)).to(dtype_of(s.kind));
  }
  // Numbers are computed, and compared with each other and with integers, in one type.
  Tensor operation(const Step& s) const {
    const auto number = [&](int a) { return e_.steps[static_cast<std::size_t>(a)].kind == SymbolKind::number; };
    const bool in_dtype = s.kind == SymbolKind::number || std::any_of(s.args.begin(), s.args.end(), number);
    Tensor args[3];
    for (std::size_t i = 0; i < s.args.size(); ++i) {
      const Tensor& x = any(s, i);
      args[i] = in_dtype && x.dtype() != boolean ? x.to(dtype_) : x;
    }
    using Operation = Tensor (*)(const Tensor& a, const Tensor& b, const Tensor& c, double e);
#define ARGUMENTS                                                                                       \
  [[maybe_unused]] const Tensor &a, [[maybe_unused]] const Tensor &b, [[maybe_unused]] const Tensor &c, \
      [[maybe_unused]] double e
#define LEAF(...) nullptr,
#define OPERATION(name, arity, notation, kind, bounds, value, gradients, operation) \
  [](ARGUMENTS) -> Tensor { return operation; },
#define KERNEL(name, ...) [](ARGUMENTS) -> Tensor { return fit::name(a); },
    constexpr Operation operations[] = {FIT_SCORE_OPERATIONS(LEAF, OPERATION, OPERATION, KERNEL)};
#undef ARGUMENTS
#undef LEAF
#undef OPERATION
#undef KERNEL
    return operations[static_cast<int>(s.op)](args[0], args[1], args[2], s.number).to(dtype_of(s.kind));
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
