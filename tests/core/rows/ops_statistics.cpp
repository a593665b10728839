#include <cmath>

#include "support/tables/op_table.hpp"

// Reductions that choose, sort and count.
namespace fit::test {

static std::vector<Tensor> both(const std::pair<Tensor, Tensor>& p) { return {p.first, p.second}; }

static std::vector<OpRow> statistics() {
  std::vector<OpRow> rows;
  const auto extremes = [&](const char* op, auto f) {
    rows.push_back(OpRow(op, [f](const auto& in) { return f(in[0], Axes(1), KeepDims::no); })
                       .from(domain::distinct)
                       .on({{2, 3}})
                       .on({{2, 3, 2}})
                       .large({{9, 40, 101}})
                       .bad("axis 2 is out of range",
                            [f] {
                              f(zeros({2, 3}), Axes(2), KeepDims::no);
                            })
                       .bad("nothing to choose from", [f] { f(zeros({0}), Axes(), KeepDims::no); }));
    rows.push_back(OpRow(op, "of all", [f](const auto& in) { return f(in[0], Axes(), keepdims); })
                       .from(domain::distinct)
                       .on({{2, 3}})
                       .on({{}}));
  };
  extremes("amax", [](const Tensor& x, const Axes& a, KeepDims k) { return amax(x, a, k); });
  extremes("amin", [](const Tensor& x, const Axes& a, KeepDims k) { return amin(x, a, k); });
  const auto pairs = [&](const char* op, auto f) {
    rows.push_back(OpRow(op, [f](const auto& in) { return both(f(in[0], -1, KeepDims::no)); })
                       .from(domain::distinct)
                       .on({{2, 3}})
                       .on({{5}})
                       .on({{}})
                       .on({{0, 2}})
                       .bad("axis 1 of shape [2, 0] has no elements to choose from",
                            [f] {
                              f(zeros({2, 0}), 1, KeepDims::no);
                            })
                       .bad("axis 1 is out of range", [f] { f(zeros({2}), 1, KeepDims::no); }));
    rows.push_back(OpRow(op, "of an inner axis, kept", [f](const auto& in) { return both(f(in[0], 0, keepdims)); })
                       .from(domain::distinct)
                       .on({{3, 2}}));
  };
  pairs("max_with_indices", [](const Tensor& x, int a, KeepDims k) { return max_with_indices(x, a, k); });
  pairs("min_with_indices", [](const Tensor& x, int a, KeepDims k) { return min_with_indices(x, a, k); });
  pairs("median", [](const Tensor& x, int a, KeepDims k) { return median(x, a, k); });
  rows.push_back(
      OpRow("median", "of all", [](const auto& in) { return median(in[0]); }).from(domain::distinct).on({{2, 2}}));
  rows.push_back(OpRow("quantile", [](const auto& in) { return quantile(in[0], 0.3, 1); })
                     .from(domain::distinct)
                     .on({{2, 4}})
                     .on({{2, 3, 2}})
                     .on({{2, 1}})
                     .bad("q is 1.5: it must be in 0 … 1", [] { quantile(ones({2}), 1.5); })
                     .bad("axis 0 of shape [0] has no elements", [] { quantile(ones({0}), 0.5); }));
  rows.push_back(OpRow("quantile", "of all", [](const auto& in) { return quantile(in[0], 0.9); })
                     .from(domain::distinct)
                     .on({{2, 3}})
                     .on({{}}));
  rows.push_back(OpRow("cumprod", [](const auto& in) { return cumprod(in[0], -1); })
                     .on({{2, 5}})
                     .on({{}})
                     .on({{2, 0}})
                     .bad("axis 1 is out of range for shape [2]", [] { cumprod(zeros({2}), 1); }));
  rows.push_back(OpRow("cumprod", "of an inner axis, with zeros", [](const auto& in) {
                   const Tensor mask = tensor({{1, 0}, {0, 1}, {1, 1}, {1, 0}});
                   return cumprod(in[0] * mask, 0);
                 }).on({{4, 2}}));
  const auto back = CumulativeOptions().reverse().exclusive(), before = CumulativeOptions().exclusive();
  rows.push_back(
      OpRow("cumprod", "from the last, without itself", [back](const auto& in) { return cumprod(in[0], 0, back); })
          .on({{4, 2}})
          .on({{}})
          .on({{0, 2}}));
  rows.push_back(
      OpRow("cumsum", "from the last, without itself", [back](const auto& in) { return cumsum(in[0], 0, back); })
          .on({{4, 2}})
          .on({{}})
          .on({{0, 2}}));
  rows.push_back(
      OpRow("cumsum", "without itself", [before](const auto& in) { return cumsum(in[0], -1, before); }).on({{2, 4}}));
  rows.push_back(OpRow("logcumsumexp", [](const auto& in) { return logcumsumexp(in[0], -1); })
                     .on({{2, 5}})
                     .on({{}})
                     .on({{2, 0}})
                     .large({{300, 40}})
                     .equals([](const auto& in) { return log(cumsum(exp(in[0]), -1)); })
                     .bad("axis 1 is out of range for shape [2]", [] { logcumsumexp(zeros({2}), 1); })
                     .bad("x is int64", [] { logcumsumexp(zeros({2}, int64), 0); }));
  for (const auto& [name, f] : {std::pair("cummax", &cummax), std::pair("cummin", &cummin)})
    rows.push_back(OpRow(name, [f = f](const auto& in) { return f(in[0], 0).first; })
                       .from(domain::distinct)
                       .on({{5, 2}})
                       .on({{3}})
                       .on({{}})
                       .on({{0, 2}})
                       .except("equal numbers", "the last of equal elements has the gradient")
                       .except("zeros", "the last of equal elements has the gradient")
                       .bad("axis 1 is out of range for shape [2]", [f = f] { f(zeros({2}), 1); }));
  rows.push_back(OpRow("bincount",
                       [](const auto& in) {
                         return bincount(tensor({2, 0, 2, 5}), in[0], 3);
                       })
                     .on({{4}})
                     .optional(0)
                     .bad("ids is float32: it must be int64", [] { bincount(ones({2})); })
                     .bad("an id is -1",
                          [] {
                            bincount(tensor({0, -1}));
                          })
                     .bad("weights has shape [3]: it must be [2]", [] {
                       bincount(tensor({0, 1}), ones({3}));
                     }));
  for (OpRow& r : rows)
    if (r.op != "cumprod" && r.op != "bincount" && r.op != "logcumsumexp") r = std::move(r).homogeneous(1);
  return rows;
}
static const RegisterOps statistics_rows(statistics);

}  // namespace fit::test
