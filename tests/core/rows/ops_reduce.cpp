#include <cmath>
#include <map>

#include "support/tables/op_table.hpp"

namespace fit::test {
namespace {

using Reducer = Tensor (*)(const Tensor&, const Axes&, KeepDims);

// Over all axes, an inner, an outer and the last one, and several; sizes 0 and 1, and a scalar.
OpRow reduction(const std::string& op, const std::string& form, Reducer f, const Axes& axes) {
  return OpRow(op, form, [f, axes](const auto& in) { return f(in[0], axes, KeepDims::no); });
}
std::vector<OpRow> forms(const std::string& op, Reducer f, const Domain& domain = domain::real,
                         double tolerance = 1e-5) {
  return {
      reduction(op, "of all", f, {}).from(domain).within(tolerance).on({{2, 3}}).on({{1}}).on({{}}),
      reduction(op, "of the last axis", f, -1).from(domain).within(tolerance).on({{2, 3}}).on({{2, 1}}).on({{0, 3}}),
      reduction(op, "of the first axis", f, 0)
          .from(domain)
          .within(tolerance)
          .on({{3, 2}})
          .on({{2, 3, 2}})
          .on({{1, 4}})
          .large({{9, 40, 101}})
          .bad("axis 2 is out of range for shape [2, 3]",
               [f] {
                 f(zeros({2, 3}), 2, KeepDims::no);
               })
          .bad("axis -2 of shape [2, 3] is given twice",
               [f] {
                 f(zeros({2, 3}), {0, -2}, KeepDims::no);
               }),
      reduction(op, "of the outermost and the innermost", f, {0, -1})
          .from(domain)
          .within(tolerance)
          .on({{2, 3, 2}})
          .on({{2, 1, 3}}),
      OpRow(op, "with its axes kept",
            [f](const auto& in) {
              return f(in[0], {1, 2}, keepdims);
            })
          .from(domain)
          .within(tolerance)
          .on({{2, 2, 3}}),
  };
}

void floating_only(std::vector<OpRow>& rows, Reducer f) {
  rows.front() = std::move(rows.front())
                     .bad("x is int64: it must be bfloat16, float32 or float64; convert it with .to(float32)",
                          [f] { f(zeros({2}, int64), {}, KeepDims::no); });
}

void append(std::vector<OpRow>& to, std::vector<OpRow> rows) {
  for (OpRow& r : rows) to.push_back(std::move(r));
}

std::vector<OpRow> reduce_rows() {
  std::vector<OpRow> all = forms("sum", sum);
  const auto floating = [&](std::vector<OpRow> rows, Reducer f) {
    floating_only(rows, f);
    append(all, std::move(rows));
  };
  floating(forms("mean", mean), mean);
  const Reducer variance = [](const Tensor& x, const Axes& a, KeepDims k) { return var(x, a, Correction{0}, k); };
  floating(forms("var", variance), variance);
  all.push_back(
      OpRow("var", "with keepdims first", [](const auto& in) { return var(in[0], 1, keepdims); }).on({{2, 3}}));
  all.push_back(OpRow("var", "with one degree of freedom less", [](const auto& in) { return var(in[0], 1); })
                    .on({{2, 5}})
                    .on({{3, 2}}));
  // One element has the kink of std at 0: rows with more.
  all.push_back(OpRow("std",
                      [](const auto& in) {
                        return fit::std(in[0], {0, 2});
                      })
                    .on({{2, 3, 2}})
                    .on({{5, 2, 1}})
                    .bad("x is int64", [] { fit::std(zeros({2}, int64)); }));
  all.push_back(OpRow("std", "without a degree of freedom less", [](const auto& in) {
                  return in[0].std(1, Correction{0}, keepdims);
                }).on({{2, 3, 2}}));
  append(all, forms("prod", prod, domain::nonzero, 1e-4));
  all.push_back(OpRow("prod", "with one zero and with several in a row", [](const auto& in) {
                  const Tensor mask = tensor({{1, 0, 1, 1}, {0, 1, 0, 1}, {1, 1, 1, 1}});
                  return prod(in[0] * mask, 1);
                }).on({{3, 4}}));
  append(all, forms("max", max, domain::distinct));
  append(all, forms("min", min, domain::distinct));
  for (OpRow& r : all)
    if ((r.op == "max" || r.op == "min") && r.form == "of all")
      r = std::move(r).bad("nothing to choose from along the axes given of shape [0]",
                           [least = r.op == "min"] { least ? min(zeros({0})) : max(zeros({0})); });
  const Reducer euclid = [](const Tensor& x, const Axes& a, KeepDims k) { return norm(x, 2, a, k); };
  const Reducer city = [](const Tensor& x, const Axes& a, KeepDims k) { return norm(x, 1, a, k); };
  const Reducer cubic = [](const Tensor& x, const Axes& a, KeepDims k) { return norm(x, 3, a, k); };
  const Reducer half = [](const Tensor& x, const Axes& a, KeepDims k) { return norm(x, 0.5, a, k); };
  const Reducer harmonic = [](const Tensor& x, const Axes& a, KeepDims k) { return norm(x, -1, a, k); };
  const Reducer count = [](const Tensor& x, const Axes& a, KeepDims k) { return norm(x, 0, a, k); };
  const Reducer least = [](const Tensor& x, const Axes& a, KeepDims k) { return norm(x, -INFINITY, a, k); };
  const Reducer largest = [](const Tensor& x, const Axes& a, KeepDims k) { return norm(x, INFINITY, a, k); };
  floating(forms("norm", euclid, domain::nonzero), euclid);
  for (const auto& [form, f] :
       {std::pair<const char*, Reducer>{"p = 1", city}, {"p = 3", cubic}, {"p = 1/2", half}, {"p = -1", harmonic}})
    all.push_back(reduction("norm", form, f, 1).from(domain::nonzero).on({{2, 3}}).on({{2, 3, 2}}).within(1e-4));
  all.push_back(reduction("norm", "p = infinity", largest, 0)
                    .from(Domain{0.3, 2, {}, true})
                    .on({{3, 2}})
                    .bad("p is NaN: it must be a number or infinite", [] { norm(zeros({2}), NAN); }));
  all.push_back(
      reduction("norm", "p = -infinity", least, 0)
          .from(Domain{0.3, 2, {}, true})
          .on({{3, 2}})
          .bad("nothing to choose from along the axes given of shape [0]", [] { norm(zeros({0}), -INFINITY); })
          .bad("where p is -1, the least elements count", [] { norm(zeros({0}), -1); }));
  all.push_back(reduction("norm", "p = 0", count, 0).from(domain::nonzero).on({{3, 2}}));
  floating(forms("logsumexp", logsumexp), logsumexp);
  all.push_back(OpRow("cumsum", [](const auto& in) { return cumsum(in[0], -1); })
                    .on({{2, 5}})
                    .on({{}})
                    .on({{2, 0}})
                    .large({{40, 1030}})
                    .bad("axis 1 is out of range for shape [2]", [] { cumsum(zeros({2}), 1); }));
  all.push_back(OpRow("cumsum", "of an inner axis", [](const auto& in) { return cumsum(in[0], 0); })
                    .on({{3, 2}})
                    .on({{3, 0}})
                    .on({{2, 3, 2}}));
  all.push_back(OpRow("sum_to",
                      [](const auto& in) {
                        return sum_to(in[0], {3, 1});
                      })
                    .on({{2, 3, 4}})
                    .on({{3, 2}})
                    .on({{3, 1}})
                    .on({{0, 3, 1}})
                    .bad("x has shape [2, 3]: [2] does not broadcast to it",
                         [] {
                           sum_to(zeros({2, 3}), {2});
                         })
                    .bad("x has shape [3]: [1, 3] does not broadcast to it", [] {
                      sum_to(zeros({3}), {1, 3});
                    }));
  const std::map<std::string, int> degrees{{"sum", 1}, {"mean", 1}, {"var", 2},    {"std", 1},
                                           {"max", 1}, {"min", 1},  {"cumsum", 1}, {"sum_to", 1}};
  for (OpRow& r : all) {
    if (const auto d = degrees.find(r.op); d != degrees.end()) r = std::move(r).homogeneous(d->second);
    if (r.op == "norm") r = std::move(r).homogeneous(r.form == "p = 0" ? 0 : 1);
  }
  for (OpRow& r : all) {
    const char* const unbounded = "near it the second derivative is as large as can be, and 0 there";
    if (r.op == "norm") r = std::move(r).except("zeros", unbounded);
    if (r.form == "p = 1/2") r = std::move(r).except("a zero", unbounded);
    if (r.form == "p = -1") r = std::move(r).except("a zero", "the norm is 0 there, and so are its derivatives");
    if (r.op == "std")
      for (const char* numbers : {"zeros", "equal numbers", "equal rows"}) r = std::move(r).except(numbers, unbounded);
  }
  return all;
}
const RegisterOps reduce(reduce_rows);

}  // namespace
}  // namespace fit::test
