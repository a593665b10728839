#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "fit/graph/graph.hpp"
#include "support/catch.hpp"
#include "support/tables/function_rows.hpp"
#include "support/tables/op_table.hpp"
#include "support/variants.hpp"

// Relations that rows of the op table state, and that all types and instruction sets agree where a function is 0,
// infinite or NaN: at every special number, and at numbers of every size.
namespace fit::test::op_relations_test {
namespace {

// [n, 4]: numbers of one size and both signs beside each other, and special numbers among them.
Tensor of_every_size(DType t) {
  const int least = t == float64 ? -1070 : -146, most = t == float64 ? 1023 : 127;
  std::vector<double> all = {0., -0., inf, -inf, nan, 1., -1., 0.5};
  for (int k = least; k <= most; k += std::abs(k) < 16 ? 1 : 9) {
    const double size = std::ldexp(1, k);
    all.insert(all.end(), {size, -size, size * 1.625, size * -0.75});
  }
  return tensor(all, {static_cast<std::int64_t>(all.size() / 4), 4}).to(t);
}

// Equal to `units` in the last place of t; infinities of one sign.
bool equal(double a, double b, double units, DType t) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return true;
  if (std::isinf(a) || std::isinf(b)) return false;
  const double unit = t == float64 ? 0x1p-52 : t == float32 ? 0x1p-23 : 0x1p-7;
  const double least = t == float64 ? 0x1p-1022 : 0x1p-126;
  return units > 0 && std::abs(a - b) <= units * unit * std::max(std::abs(b), least);
}

enum class Class { zero, small, finite, infinite, missing };
Class class_of(double v, double least) {
  return std::isnan(v)              ? Class::missing
         : std::isinf(v)            ? Class::infinite
         : v == 0                   ? Class::zero
         : std::abs(v) < 16 * least ? Class::small  // rounding decides whether it is 0
                                    : Class::finite;
}
bool same_class(double a, double b, double least) {
  const Class x = class_of(a, least), y = class_of(b, least);
  const bool tiny = x == Class::small || y == Class::small;
  return tiny ? std::abs(a) < 64 * least && std::abs(b) < 64 * least
              : x == y && (x == Class::missing || x == Class::zero || std::signbit(a) == std::signbit(b));
}

struct Both {
  std::vector<double> value, slope;
};
Both of(const FunctionRow& row, const Tensor& x) {
  const Tensor leaf = x.clone().requires_grad_(), y = row.f(leaf);
  y.backward(ones_like(y));
  return {values(y.detach()), values(leaf.grad())};
}

}  // namespace

TEST_CASE("the relations of the op table hold for numbers of every size", "[op_relations]") {
  int checked = 0;
  each_isa([&] {
    for (const OpRow& row : op_rows())
      for (const OpRow::Relation& r : row.relations)
        for (const DType t : {float32, float64, bfloat16}) {
          const auto [left, right] = r.sides(of_every_size(t));
          INFO(row.name() << ", " << r.name << ", in " << t);
          REQUIRE(left.shape() == right.shape());
          const std::vector<double> a = values(left), b = values(right);
          for (std::size_t i = 0; i < a.size(); ++i)
            if (!equal(a[i], b[i], r.units, t)) FAIL_CHECK("element " << i << ": " << a[i] << " and " << b[i]);
          ++checked;
        }
  });
  CHECK(checked >= 3 * 15);
}

TEST_CASE("functions and slopes are 0, infinite or NaN at the same numbers everywhere", "[op_relations]") {
  const Tensor narrow = of_every_size(float32), wide = of_every_size(float64);
  for (const FunctionRow& row : function_rows()) {
    std::vector<Both> narrow_results, wide_results;
    each_isa([&] {
      narrow_results.push_back(of(row, narrow));
      wide_results.push_back(of(row, wide));
      narrow_results.push_back(of(row, narrow.to(float64)));  // rounded to float32 below
    });
    const auto compare = [&](const std::vector<Both>& all, const Tensor& x, double least, bool rounds) {
      const std::vector<double> at = values(x);
      for (const Both& one : all)
        for (std::size_t i = 0; i < at.size(); ++i)
          for (const auto& [got, want] :
               {std::pair(one.value[i], all[0].value[i]), std::pair(one.slope[i], all[0].slope[i])}) {
            const double rounded = rounds ? static_cast<double>(static_cast<float>(got)) : got;
            if (!same_class(rounded, want, least))
              FAIL_CHECK(row.name << " at " << at[i] << " in " << x.dtype() << ": " << rounded << " and " << want);
          }
    };
    compare(narrow_results, narrow, std::numeric_limits<float>::min(), true);
    compare(wide_results, wide, std::numeric_limits<double>::min(), false);
  }
}

}  // namespace fit::test::op_relations_test
