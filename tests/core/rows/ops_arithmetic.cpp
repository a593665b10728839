#include "support/tables/op_table.hpp"

namespace fit::test {

static std::vector<OpRow> arithmetic_rows() {
  return {
      OpRow("add", [](const auto& in) { return add(in[0], in[1]); })
          .on({{2, 3}, {2, 3}})
          .on({{2, 3}, {3}})
          .on({{1, 3}, {2, 1}})
          .on({{4, 1, 3}, {2, 1}})
          .on({{}, {2}})
          .on({{}, {}})
          .on({{0, 3}, {3}})
          .large({{300, 257}, {257}})
          .bad("shapes [2, 2] and [3] do not broadcast",
               [] {
                 add(zeros({2, 2}), zeros({3}));
               }),
      OpRow("mul", [](const auto& in) { return mul(in[0], in[1]); })
          .on({{2, 3}, {2, 3}})
          .on({{3}, {2, 3}})
          .on({{2, 1}, {1, 3}})
          .on({{}, {}})
          .on({{0}, {1}})
          .large({{70001}, {70001}})
          .bad("shapes [2] and [3] do not broadcast", [] { mul(zeros({2}), zeros({3})); }),
      OpRow("div", [](const auto& in) { return div(in[0], in[1]); })
          .from(domain::real, domain::nonzero)
          .except("zeros", "a pole")
          .except("a zero", "a pole")
          .on({{2, 3}, {2, 3}})
          .on({{2, 3}, {2, 1}})
          .on({{3}, {2, 1}})
          .on({{}, {3}})
          .large({{70001}, {}})
          .bad("shapes [2] and [3] do not broadcast", [] { div(zeros({2}), zeros({3})); }),
      OpRow("div", "of one by another of its kind", [](const auto& in) { return div(in[0], in[1]); })
          .from(domain::nonzero)
          .except("zeros", "a pole")
          .except("a zero", "a pole")
          .on({{5}, {5}}),
  };
}
static const RegisterOps arithmetic(arithmetic_rows);

}  // namespace fit::test
