// The list of steps that a lambda leaves: its making, its text, its bounds, and its value by operations.
#include "attention/expression.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <sstream>
#include <tuple>
#include <unordered_map>

#include "fit/ops.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit::detail {
namespace {

using Op = SymbolOp;
using Step = Expression::Step;
using kernels::Interval;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr Bounds anything{-infinity, infinity, true};

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

Bounds times(double factor, const Bounds& x) {
  if (factor == 0) return {0, 0, false};
  return factor > 0 ? Bounds{factor * x.low, factor * x.high, x.nan} : Bounds{factor * x.high, factor * x.low, x.nan};
}
Bounds plus(const Bounds& a, const Bounds& b) {
  if (std::isinf(a.low + b.low) || std::isinf(a.high + b.high)) return anything;
  return {a.low + b.low, a.high + b.high, a.nan || b.nan};
}
Bounds joined(const Bounds& a, const Bounds& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.nan || b.nan};
}
// The range of four results.
Bounds corners(double a, double b, double c, double d, bool nan) {
  const auto [low, high] = std::minmax({a, b, c, d});
  return std::isfinite(a + b + c + d) ? Bounds{low, high, nan} : anything;
}
Bounds condition(bool never, bool always) { return {always ? 1. : 0., never ? 0. : 1., false}; }

// A function that grows, rounded somehow.
template <class F>
Bounds growing(const F& f, const Bounds& x) {
  const double low = f(x.low), high = f(x.high);
  if (std::isnan(low) || std::isnan(high)) return anything;
  return {low - 1e-5 * std::abs(low), high + 1e-5 * std::abs(high), x.nan};
}

Bounds bounds_of(const LinearForm& f, const PairBounds& p) {
  // Of query and key, as much as possible is a multiple of key - query.
  double ahead = 0, query = f.query, key = f.key;
  if (query * key < 0) ahead = std::abs(query) < std::abs(key) ? -query : key, query += ahead, key -= ahead;
  Bounds sum{f.constant, f.constant, false};
  for (const auto& [factor, x] :
       {std::make_pair(f.batch, p.batch), std::make_pair(f.head, p.head), std::make_pair(query, p.query),
        std::make_pair(key, p.key), std::make_pair(ahead, p.ahead)})
    sum = plus(sum, times(factor, x));
  return sum;
}

// The elements of an int64 or boolean table in a box.
Bounds bounds_of_elements(const Tensor& table, const std::vector<Interval>& box) {
  if (table.dtype() == boolean && table.numel() == 0) return {0, 1, false};
  Bounds all{infinity, -infinity, false};
  const auto visit = [&](const auto* data) {
    const auto walk = [&](const auto& self, int axis, std::int64_t offset) -> void {
      if (axis == table.rank()) {
        const double x = static_cast<double>(data[offset]);
        all.low = std::min(all.low, x), all.high = std::max(all.high, x);
        return;
      }
      const Interval& along = box[static_cast<std::size_t>(axis)];
      for (std::int64_t i = along.first; i < along.end; ++i) self(self, axis + 1, offset * table.size(axis) + i);
    };
    walk(walk, 0, 0);
  };
  if (table.dtype() == boolean)
    visit(table.data<bool>().data());
  else
    visit(table.data<std::int64_t>().data());
  return all;
}

// Of a lookup with indices in these bounds.
Bounds bounds_of_lookup(const Tensor& table, const std::vector<Bounds>& indices) {
  if (is_floating(table.dtype())) return anything;
  std::vector<Interval> box;
  std::int64_t volume = 1;
  for (int axis = 0; axis < table.rank(); ++axis) {
    const Bounds& b = indices[static_cast<std::size_t>(axis)];
    const double end = static_cast<double>(table.size(axis));
    const Interval along{static_cast<std::int64_t>(std::clamp(b.low, 0., end)),
                         static_cast<std::int64_t>(std::clamp(b.high + 1, 0., end))};
    if (along.first >= along.end) return anything;
    box.push_back(along);
    volume *= along.end - along.first;
  }
  return volume == 0 ? anything : bounds_of_elements(table, box);
}

Bounds bounds_of_step(const Step& s, const std::vector<Bounds>& known, const std::vector<Tensor>& tables,
                      const PairBounds& p) {
  const auto arg = [&](std::size_t i) -> const Bounds& { return known[static_cast<std::size_t>(s.args[i])]; };
  if (s.form) return bounds_of(*s.form, p);
  if (s.op == Op::lookup) {
    std::vector<Bounds> indices;
    for (std::size_t i = 0; i < s.args.size(); ++i) indices.push_back(arg(i));
    return bounds_of_lookup(tables[static_cast<std::size_t>(s.table)], indices);
  }
  bool nan = false;
  for (std::size_t i = 0; i < s.args.size(); ++i) nan = nan || arg(i).nan;
  switch (s.op) {
    case Op::number:
      return {s.number, s.number, std::isnan(s.number)};
    case Op::add:
      return plus(arg(0), arg(1));
    case Op::subtract:
      return plus(arg(0), times(-1, arg(1)));
    case Op::negative:
      return times(-1, arg(0));
    case Op::multiply: {
      const Bounds &a = arg(0), &b = arg(1);
      return corners(a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high, nan);
    }
    case Op::divide: {
      const Bounds &a = arg(0), &b = arg(1);
      if (b.low <= 0 && b.high >= 0) return anything;
      const Bounds q = corners(a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high, nan);
      return s.kind == SymbolKind::integer ? Bounds{std::floor(q.low), std::floor(q.high), q.nan} : q;
    }
    case Op::remainder: {
      const Bounds &a = arg(0), &b = arg(1);
      if (b.low <= 0 && b.high >= 0) return anything;
      if (b.single() && std::floor(a.low / b.low) == std::floor(a.high / b.low)) {
        const double base = std::floor(a.low / b.low) * b.low;
        return {a.low - base, a.high - base, nan};
      }
      return b.low > 0 ? Bounds{0, b.high - 1, nan} : Bounds{b.low + 1, 0, nan};
    }
    case Op::minimum:
      return {std::min(arg(0).low, arg(1).low), std::min(arg(0).high, arg(1).high), nan};
    case Op::maximum:
      return {std::max(arg(0).low, arg(1).low), std::max(arg(0).high, arg(1).high), nan};
    case Op::absolute:
    case Op::square: {
      const Bounds& x = arg(0);
      const double most = std::max(std::abs(x.low), std::abs(x.high));
      const double least = x.low <= 0 && x.high >= 0 ? 0 : std::min(std::abs(x.low), std::abs(x.high));
      return s.op == Op::absolute ? Bounds{least, most, nan} : Bounds{least * least, most * most, nan};
    }
    case Op::floor:
      return {std::floor(arg(0).low), std::floor(arg(0).high), nan};
    case Op::relu:
      return {std::max(arg(0).low, 0.), std::max(arg(0).high, 0.), nan};
    case Op::exp:
      return growing([](double x) { return std::exp(x); }, arg(0));
    case Op::log:
      return arg(0).low < 0 ? anything : growing([](double x) { return std::log(x); }, arg(0));
    case Op::sqrt:
      return growing([](double x) { return std::sqrt(x); }, arg(0));
    case Op::tanh:
      return growing([](double x) { return std::tanh(x); }, arg(0));
    case Op::sigmoid:
      return growing([](double x) { return 1 / (1 + std::exp(-x)); }, arg(0));
    case Op::less:
      return condition(nan ? false : arg(0).low >= arg(1).high, !nan && arg(0).high < arg(1).low);
    case Op::less_equal:
      return condition(nan ? false : arg(0).low > arg(1).high, !nan && arg(0).high <= arg(1).low);
    case Op::equal:
    case Op::not_equal: {
      const Bounds &a = arg(0), &b = arg(1);
      const bool same = !nan && a.single() && b.single() && a.low == b.low;
      const bool apart = !nan && (a.high < b.low || b.high < a.low);
      return s.op == Op::equal ? condition(apart, same) : condition(same, apart);
    }
    case Op::logical_and:
      return {std::min(arg(0).low, arg(1).low), std::min(arg(0).high, arg(1).high), false};
    case Op::logical_or:
      return {std::max(arg(0).low, arg(1).low), std::max(arg(0).high, arg(1).high), false};
    case Op::logical_not:
      return {1 - arg(0).high, 1 - arg(0).low, false};
    case Op::where:
      return arg(0).single() ? arg(arg(0).low != 0 ? 1 : 2) : joined(arg(1), arg(2));
    default:
      return anything;
  }
}

std::string digits(double x) {
  std::ostringstream out;
  out.precision(15);
  out << x;
  return out.str();
}

}  // namespace

PairBounds::PairBounds(const kernels::Visibility& v, Bounds b, Bounds h, Interval queries, Interval keys)
    : batch(b), head(h) {
  const auto bounds = [](std::int64_t low, std::int64_t high) {
    return Bounds{static_cast<double>(low), static_cast<double>(high), false};
  };
  query = bounds(v.place(queries.first), v.place(queries.end - 1));
  key = bounds(keys.first, keys.end - 1);
  ahead = plus(key, times(-1, query));
  const double back = v.window > 0 ? static_cast<double>(v.window) - 1 : infinity, forth = v.causal ? 0 : back;
  query.low = std::max(query.low, key.low - forth), key.high = std::min(key.high, query.high + forth);
  query.high = std::min(query.high, key.high + back), key.low = std::max(key.low, query.low - back);
  ahead.high = std::min(ahead.high, forth);
  ahead.low = std::max(ahead.low, -back);
}

bool PairBounds::empty() const { return query.low > query.high || key.low > key.high || ahead.low > ahead.high; }

Expression::Expression(const SymbolNodes& root, std::int64_t first_key_or_0)
    : first_key(first_key_or_0), text_(written(*root)) {
  Builder(*this).step(*root);
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

std::vector<Bounds> Expression::bounds(const PairBounds& pairs) const {
  std::vector<Bounds> all;
  all.reserve(steps.size());
  for (const Step& s : steps) all.push_back(bounds_of_step(s, all, tables, pairs));
  return all;
}

void Expression::check_ranges(const char* op, const PairBounds& pairs, DType dtype) const {
  if (pairs.empty()) return;
  const std::vector<Bounds> all = bounds(pairs);
  const double limit = dtype == float64 ? 0x1p52 : 0x1p24;
  for (std::size_t n = 0; n < steps.size(); ++n) {
    const Step& s = steps[n];
    if (s.kind == SymbolKind::integer && all[n].low < all[n].high + 1) {
      const double worst = std::max(std::abs(all[n].low), std::abs(all[n].high));
      if (worst > limit && std::isfinite(worst))
        check::fail(op, "in ", text(), ", an integer reaches ", digits(worst), ": integers must be within ",
                    dtype == float64 ? "2^52" : "2^24 for float32", " to be exact");
    }
    if (s.op != SymbolOp::lookup) continue;
    const Tensor& table = tables[static_cast<std::size_t>(s.table)];
    for (std::size_t axis = 0; axis < s.args.size(); ++axis) {
      const Bounds& index = all[static_cast<std::size_t>(s.args[axis])];
      const std::int64_t size = table.size(static_cast<int>(axis));
      if (index.low >= 0 && index.high < static_cast<double>(size) && !index.nan) continue;
      check::fail(op, "in ", text(), ", index ", axis, " of the table ", table.shape(),
                  index.nan ? " may be NaN" : " reaches " + digits(index.low < 0 ? index.low : index.high),
                  ": it must be in 0 … ", size - 1, " for all pairs that causality and the window leave");
    }
  }
}

void Expression::row(double batch, double head, double query, double key, std::int64_t n, double* out) const {
  constexpr std::int64_t N = kernels::tile_size;
  thread_local std::vector<double> values;
  values.resize(steps.size() * N);
  const auto at = [&](int step) { return values.data() + static_cast<std::int64_t>(step) * N; };
  for (std::size_t k = 0; k < steps.size(); ++k) {
    const Step& s = steps[k];
    double* const y = at(static_cast<int>(k));
    const auto arg = [&](std::size_t i) { return at(s.args[i]); };
    const auto unary = [&](const auto& f) {
      const double* const a = arg(0);
      for (std::int64_t j = 0; j < n; ++j) y[j] = f(a[j]);
    };
    const auto binary = [&](const auto& f) {
      const double *const a = arg(0), *const b = arg(1);
      for (std::int64_t j = 0; j < n; ++j) y[j] = f(a[j], b[j]);
    };
    if (s.form) {
      const LinearForm& f = *s.form;
      const double start = f.constant + f.batch * batch + f.head * head + f.query * query + f.key * key;
      for (std::int64_t j = 0; j < n; ++j) y[j] = start + f.key * static_cast<double>(j);
      continue;
    }
    switch (s.op) {
      case Op::number:
        std::fill_n(y, n, s.number);
        break;
      case Op::lookup: {
        const Tensor& table = tables[static_cast<std::size_t>(s.table)];
        dispatch(table.dtype(), [&](auto zero) {
          const auto* const data = table.data<decltype(zero)>().data();
          for (std::int64_t j = 0; j < n; ++j) {
            std::int64_t flat = 0;
            bool inside = true;
            for (std::size_t axis = 0; axis < s.args.size(); ++axis) {
              const double index = arg(axis)[j], size = static_cast<double>(table.size(static_cast<int>(axis)));
              inside = inside && index >= 0 && index < size;
              flat = flat * table.size(static_cast<int>(axis)) + (inside ? static_cast<std::int64_t>(index) : 0);
            }
            y[j] = inside ? static_cast<double>(data[flat]) : 0;
          }
        });
        break;
      }
      case Op::negative:
        unary([](double a) { return -a; });
        break;
      case Op::absolute:
        unary([](double a) { return std::abs(a); });
        break;
      case Op::floor:
        unary([](double a) { return std::floor(a); });
        break;
      case Op::logical_not:
        unary([](double a) { return 1 - a; });
        break;
      case Op::exp:
        unary([](double a) { return std::exp(a); });
        break;
      case Op::log:
        unary([](double a) { return std::log(a); });
        break;
      case Op::sqrt:
        unary([](double a) { return std::sqrt(a); });
        break;
      case Op::sin:
        unary([](double a) { return std::sin(a); });
        break;
      case Op::cos:
        unary([](double a) { return std::cos(a); });
        break;
      case Op::tanh:
        unary([](double a) { return std::tanh(a); });
        break;
      case Op::sigmoid:
        unary([](double a) { return 1 / (1 + std::exp(-a)); });
        break;
      case Op::softplus:
        unary([](double a) { return std::max(a, 0.) + std::log1p(std::exp(-std::abs(a))); });
        break;
      case Op::relu:
        unary([](double a) { return a <= 0 ? 0 : a; });
        break;
      case Op::square:
        unary([](double a) { return a * a; });
        break;
      case Op::pow:
        unary([&](double a) { return std::pow(a, s.number); });
        break;
      case Op::add:
        binary([](double a, double b) { return a + b; });
        break;
      case Op::subtract:
        binary([](double a, double b) { return a - b; });
        break;
      case Op::multiply:
        binary([](double a, double b) { return a * b; });
        break;
      case Op::divide:
        binary([&](double a, double b) { return s.kind == SymbolKind::integer ? std::floor(a / b) : a / b; });
        break;
      case Op::remainder:
        binary([](double a, double b) { return a - b * std::floor(a / b); });
        break;
      case Op::minimum:
        binary([](double a, double b) { return a < b || std::isnan(a) ? a : b; });
        break;
      case Op::maximum:
        binary([](double a, double b) { return a > b || std::isnan(a) ? a : b; });
        break;
      case Op::less:
        binary([](double a, double b) -> double { return a < b; });
        break;
      case Op::less_equal:
        binary([](double a, double b) -> double { return a <= b; });
        break;
      case Op::equal:
        binary([](double a, double b) -> double { return a == b; });
        break;
      case Op::not_equal:
        binary([](double a, double b) -> double { return a != b; });
        break;
      case Op::logical_and:
        binary([](double a, double b) { return a * b; });
        break;
      case Op::logical_or:
        binary([](double a, double b) { return std::max(a, b); });
        break;
      case Op::where: {
        const double *const c = arg(0), *const a = arg(1), *const b = arg(2);
        for (std::int64_t j = 0; j < n; ++j) y[j] = c[j] != 0 ? a[j] : b[j];
        break;
      }
      default:
        break;  // places are forms; there is no score
    }
  }
  std::copy_n(at(static_cast<int>(steps.size()) - 1), n, out);
}

Tensor Expression::evaluate(const Tensor& scores, const std::vector<Tensor>& values, const Tensor& masked,
                            const Shape& pairs) const {
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
    switch (s.op) {
      case Op::number:
        return s.kind == SymbolKind::condition ? full({}, s.number, boolean)
                                               : full({}, s.number, s.kind == SymbolKind::integer ? float64 : dtype);
      case Op::score:
        return scores;
      case Op::batch:
        return places(pairs[0], 0, {pairs[0], 1, 1, 1});
      case Op::head:
        return places(pairs[1], 0, {1, pairs[1], 1, 1});
      case Op::query:
        return places(pairs[2], first_key, {1, 1, pairs[2], 1});
      case Op::row:
        return places(pairs[2], 0, {1, 1, pairs[2], 1});
      case Op::key:
        return places(pairs[3], 0, {1, 1, 1, pairs[3]});
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
      case Op::absolute:
        return abs(arg(0));
      case Op::floor:
        return floor(any(0)).to(float64);
      case Op::logical_not:
        return logical_not(any(0));
      case Op::exp:
        return exp(arg(0));
      case Op::log:
        return log(arg(0));
      case Op::sqrt:
        return sqrt(arg(0));
      case Op::sin:
        return sin(arg(0));
      case Op::cos:
        return cos(arg(0));
      case Op::tanh:
        return tanh(arg(0));
      case Op::sigmoid:
        return sigmoid(arg(0));
      case Op::softplus:
        return softplus(arg(0));
      case Op::relu:
        return relu(arg(0));
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
      case Op::where: {
        const auto choice = [&](std::size_t i) { return s.kind == SymbolKind::number ? any(i).to(dtype) : any(i); };
        return where(any(0), choice(1), choice(2));
      }
    }
    return {};
  };
  for (const Step& s : steps) all.push_back(cleared(s, value(s)));
  return all.back();
}

}  // namespace fit::detail
