// Bounds of an expression's steps over some pairs. They say whether all pairs of a tile have one answer, and whether an
// index leaves its table.
#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "attention/score/expression.hpp"
#include "kernels/function_list.hpp"
#include "tensor/check.hpp"

namespace fit::detail {
namespace {

using Op = SymbolOp;
using Step = Expression::Step;
using kernels::Interval;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr Bounds anything{-infinity, infinity, true};

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
Bounds bounds_of(const LinearForm& f, const PairBounds& p) {
  // Writes q query + k key with key - query where q and k have opposite signs: its bounds are tighter.
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

// The bounds of a lookup, from the bounds of its indices.
Bounds bounds_of_lookup(const Tensor& table, const std::vector<Bounds>& indices) {
  if (is_floating(table.dtype())) return anything;
  std::vector<Interval> box;
  for (int axis = 0; axis < table.rank(); ++axis) {
    const Bounds& b = indices[static_cast<std::size_t>(axis)];
    const double end = static_cast<double>(table.size(axis));
    const Interval along{static_cast<std::int64_t>(std::clamp(b.low, 0., end)),
                         static_cast<std::int64_t>(std::clamp(b.high + 1, 0., end))};
    if (along.first >= along.end) return anything;
    box.push_back(along);
  }
  return bounds_of_elements(table, box);
}

// The bounds of operations, from those of their arguments.
Bounds absolute(const Bounds& x) {
  const double low = std::abs(x.low), high = std::abs(x.high);
  return {x.low <= 0 && x.high >= 0 ? 0 : std::min(low, high), std::max(low, high), x.nan};
}
Bounds squared(const Bounds& x) {
  const Bounds a = absolute(x);
  return {a.low * a.low, a.high * a.high, x.nan};
}
Bounds floored(const Bounds& x) { return {std::floor(x.low), std::floor(x.high), x.nan}; }
Bounds positive(const Bounds& x) { return {std::max(x.low, 0.), std::max(x.high, 0.), x.nan}; }
// A function that grows, with a margin for rounding.
template <class F>
Bounds growing(const F& f, const Bounds& x) {
  const double low = f(x.low), high = f(x.high);
  if (std::isnan(low)) return anything;  // below the first number that has a value
  return {low - 1e-5 * std::abs(low), high + 1e-5 * std::abs(high), x.nan};
}

Bounds product(const Bounds& a, const Bounds& b) {
  return corners(a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high, a.nan || b.nan);
}
Bounds quotient(const Bounds& a, const Bounds& b) {
  if (b.low <= 0 && b.high >= 0) return anything;
  return corners(a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high, a.nan || b.nan);
}
Bounds modulo(const Bounds& a, const Bounds& b) {
  if (b.low <= 0 && b.high >= 0) return anything;
  const bool nan = a.nan || b.nan;
  if (b.single() && std::floor(a.low / b.low) == std::floor(a.high / b.low)) {
    const double base = std::floor(a.low / b.low) * b.low;
    return {a.low - base, a.high - base, nan};
  }
  return b.low > 0 ? Bounds{0, b.high - 1, nan} : Bounds{b.low + 1, 0, nan};
}
Bounds lowest(const Bounds& a, const Bounds& b) {
  return {std::min(a.low, b.low), std::min(a.high, b.high), a.nan || b.nan};
}
Bounds highest(const Bounds& a, const Bounds& b) {
  return {std::max(a.low, b.low), std::max(a.high, b.high), a.nan || b.nan};
}

// The same for conditions.
Bounds condition(bool never, bool always) { return {always ? 1. : 0., never ? 0. : 1., false}; }
Bounds negation(const Bounds& x) { return {1 - x.high, 1 - x.low, false}; }
Bounds all_of(const Bounds& a, const Bounds& b) { return {std::min(a.low, b.low), std::min(a.high, b.high), false}; }
Bounds any_of(const Bounds& a, const Bounds& b) { return {std::max(a.low, b.low), std::max(a.high, b.high), false}; }
Bounds is_less(const Bounds& a, const Bounds& b) {
  const bool nan = a.nan || b.nan;
  return condition(!nan && a.low >= b.high, !nan && a.high < b.low);
}
Bounds is_less_equal(const Bounds& a, const Bounds& b) {
  const bool nan = a.nan || b.nan;
  return condition(!nan && a.low > b.high, !nan && a.high <= b.low);
}
Bounds is_equal(const Bounds& a, const Bounds& b) {
  const bool nan = a.nan || b.nan, same = a.single() && b.single() && a.low == b.low;
  return condition(!nan && (a.high < b.low || b.high < a.low), !nan && same);
}

Bounds bounds_of_operation(Op op, const Bounds& x, const Bounds& y, const Bounds& z) {
  using Rule = Bounds (*)(const Bounds& a, const Bounds& b, const Bounds& c);
#define ARGUMENTS [[maybe_unused]] const Bounds &a, [[maybe_unused]] const Bounds &b, [[maybe_unused]] const Bounds &c
#define LEAF(...) nullptr,
#define OPERATION(name, arity, notation, kind, bounds, ...) [](ARGUMENTS) -> Bounds { return bounds; },
#define KERNEL(name, kind, bounds)                                                  \
  [](ARGUMENTS) -> Bounds {                                                         \
    [[maybe_unused]] const auto f = [](double from) {                               \
      double to;                                                                    \
      kernels::function<double>(kernels::Function::name).forward(&to, &from, 1, 0); \
      return to;                                                                    \
    };                                                                              \
    return bounds;                                                                  \
  },
  constexpr Rule rules[] = {FIT_SCORE_OPERATIONS(LEAF, OPERATION, OPERATION, KERNEL)};
#undef ARGUMENTS
#undef LEAF
#undef OPERATION
#undef KERNEL
  return rules[static_cast<int>(op)](x, y, z);
}

Bounds bounds_of_step(const Step& s, const std::vector<Bounds>& known, const std::vector<Tensor>& tables,
                      const PairBounds& p) {
  if (s.form) return bounds_of(*s.form, p);
  std::vector<Bounds> args;
  for (const int a : s.args) args.push_back(known[static_cast<std::size_t>(a)]);
  if (s.op == Op::lookup) return bounds_of_lookup(tables[static_cast<std::size_t>(s.table)], args);
  if (s.op == Op::number) return {s.number, s.number, std::isnan(s.number)};
  if (s.op == Op::score) return anything;
  args.resize(3);
  return bounds_of_operation(s.op, args[0], args[1], args[2]);
}

std::string digits(double x) {
  std::ostringstream out;
  out.precision(15);
  out << x;
  return out.str();
}

}  // namespace

PairBounds::PairBounds(const kernels::Visibility& v, Interval elements, Interval heads, Interval queries,
                       Interval keys) {
  const auto bounds = [](Interval x) {
    return Bounds{static_cast<double>(x.first), static_cast<double>(x.end - 1), false};
  };
  batch = bounds(elements), head = bounds(heads), key = bounds(keys);
  query = bounds({v.place(queries.first), v.place(queries.end)});
  ahead = plus(key, times(-1, query));
  const Bounds allowed = bounds(v.distances());
  query.low = std::max(query.low, key.low - allowed.high), key.high = std::min(key.high, query.high + allowed.high);
  query.high = std::min(query.high, key.high - allowed.low), key.low = std::max(key.low, query.low + allowed.low);
  ahead.high = std::min(ahead.high, allowed.high);
  ahead.low = std::max(ahead.low, allowed.low);
}

bool PairBounds::empty() const { return query.low > query.high || key.low > key.high || ahead.low > ahead.high; }

std::vector<Bounds> bounds_of_steps(const Expression& e, const PairBounds& pairs) {
  std::vector<Bounds> all;
  all.reserve(e.steps.size());
  for (const Step& s : e.steps) all.push_back(bounds_of_step(s, all, e.tables, pairs));
  return all;
}

void check_steps(const Expression& e, const char* op, const PairBounds& pairs, DType dtype) {
  if (pairs.empty()) return;
  const std::vector<Bounds> all = bounds_of_steps(e, pairs);
  const double limit = dtype == float64 ? 0x1p52 : 0x1p24;
  for (std::size_t n = 0; n < e.steps.size(); ++n) {
    const Step& s = e.steps[n];
    if (s.kind == SymbolKind::integer) {
      const double worst = std::max(std::abs(all[n].low), std::abs(all[n].high));
      if (worst > limit && std::isfinite(worst))
        check::fail(op, "in ", e.text(), ", an integer reaches ", digits(worst), ": integers must be within ",
                    dtype == float64 ? "2^52" : "2^24 for float32", " to be exact");
    }
    if (s.op != SymbolOp::lookup) continue;
    const Tensor& table = e.tables[static_cast<std::size_t>(s.table)];
    for (std::size_t axis = 0; axis < s.args.size(); ++axis) {
      const Bounds& index = all[static_cast<std::size_t>(s.args[axis])];
      const std::int64_t size = table.size(static_cast<int>(axis));
      if (e.steps[static_cast<std::size_t>(s.args[axis])].op == SymbolOp::batch &&
          index.high + 1 < static_cast<double>(size))
        check::fail(op, "in ", e.text(), ", axis ", axis, " of the table ", table.shape(),
                    " is that of the batch, which has ", digits(index.high + 1), " here: give the table of this batch");
      if (index.low >= 0 && index.high < static_cast<double>(size) && !index.nan) continue;
      check::fail(
          op, "in ", e.text(), ", index ", axis, " of the table ", table.shape(),
          index.nan ? " may be NaN" : " may reach " + digits(index.low < 0 ? index.low : index.high) + " by its bounds",
          ": it must be in 0 … ", size - 1, " for all pairs that causality and the window allow; limit it with ",
          "max(index, 0) or min(index, ", size - 1, ")");
    }
  }
}

}  // namespace fit::detail
