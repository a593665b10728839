#include <cmath>

#include "support/tables/op_table.hpp"

// dot, bmm, addmm, cdist, cosine_similarity and normalize.
namespace fit::test {

static std::vector<OpRow> distances() {
  const char* const pole = "near equal rows, or rows of 0, the second derivative is as large as can be, and 0 there";
  return {
      OpRow("dot", [](const auto& in) { return dot(in[0], in[1]); })
          .on({{3}, {3}})
          .on({{0}, {0}})
          .homogeneous(1, {0})
          .homogeneous(1, {1})
          .bad("a has shape [2], b [3]: both must be [N]", [] { dot(zeros({2}), zeros({3})); }),
      OpRow("bmm", [](const auto& in) { return bmm(in[0], in[1]); })
          .on({{2, 3, 4}, {2, 4, 2}})
          .bad("they must be [B, M, K] and [B, K, N]",
               [] {
                 bmm(zeros({1, 2, 3}), zeros({2, 3, 1}));
               }),
      OpRow("addmm", [](const auto& in) { return addmm(in[0], in[1], in[2], 0.5, -2); })
          .on({{2, 2}, {2, 3}, {3, 2}})
          .on({{2}, {3, 1}, {1, 2}})
          .bad("they must be [M, K] and [K, N]",
               [] {
                 addmm(zeros({}), zeros({2, 3}), zeros({2, 3}));
               })
          .bad("c has shape [3]: it must broadcast to [2, 2]",
               [] {
                 addmm(zeros({3}), ones({2, 2}), ones({2, 2}));
               }),
      OpRow("normalize", [](const auto& in) { return normalize(in[0]); })
          .from(domain::nonzero)
          .on({{2, 3}})
          .on({{4}})
          .except("zeros", pole)
          .bad("p is NaN: it must be a number or infinite", [] { normalize(ones({2}), NAN); })
          .bad("eps is 0", [] { normalize(ones({2}), 2, -1, 0); })
          .bad("x is int64", [] { normalize(ones({2}, int64)); }),
      OpRow("normalize", "the least eps", [](const auto& in) { return normalize(in[0], 2, -1, 5e-324); })
          .from(domain::nonzero)
          .on({{2, 3}})
          .homogeneous(0)
          .except("zeros", pole),
      OpRow("normalize", "p = 3, the least eps", [](const auto& in) { return normalize(in[0], 3, 0, 5e-324); })
          .from(domain::nonzero)
          .on({{2, 3}})
          .homogeneous(0)
          .except("zeros", pole),
      OpRow("normalize", "p = 1, an inner axis", [](const auto& in) { return normalize(in[0], 1, 0); })
          .from(domain::nonzero)
          .except("zeros", pole)
          .except("a zero", "a kink of the norm's, which the quotient turns round")
          .on({{3, 2}}),
      OpRow("normalize", "p = 0", [](const auto& in) { return normalize(in[0], 0); })
          .from(domain::nonzero)
          .except("zeros", "the count jumps")
          .except("a zero", "the count jumps")
          .on({{2, 3}}),
      OpRow("normalize", "p = -infinity", [](const auto& in) { return normalize(in[0], -INFINITY); })
          .from(Domain{0.3, 2, {}, true})
          .except("equal numbers", "a kink of the norm's, which the quotient turns round")
          .on({{2, 3}}),
      OpRow("cosine_similarity", [](const auto& in) { return cosine_similarity(in[0], in[1]); })
          .from(domain::nonzero)
          .except("zeros", pole)
          .on({{2, 3}, {2, 3}})
          .on({{2, 3}, {3}})
          .bad("shapes [2] and [3] do not broadcast", [] { cosine_similarity(ones({2}), ones({3})); }),
      OpRow("cosine_similarity", "the least eps",
            [](const auto& in) { return cosine_similarity(in[0], in[1], -1, 5e-324); })
          .from(domain::nonzero)
          .except("zeros", pole)
          .on({{2, 3}, {2, 3}})
          .homogeneous(0, {0})
          .homogeneous(0, {1})
          .homogeneous(0, {0, 1}),
      OpRow("cdist", [](const auto& in) { return cdist(in[0], in[1]); })
          .on({{2, 3}, {4, 3}})
          .on({{2, 2, 3}, {2, 3}})
          .homogeneous(1, {0, 1})
          .except("zeros", pole)
          .except("equal numbers", pole)
          .except("equal rows", pole)
          .bad("they must be [..., M, C] and [..., N, C]",
               [] {
                 cdist(zeros({2, 3}), zeros({2, 2}));
               })
          .bad("p is -1: it must not be negative",
               [] {
                 cdist(zeros({2, 3}), zeros({2, 3}), -1);
               }),
      OpRow("cdist", "p = 0", [](const auto& in) { return cdist(in[0], in[1], 0); })
          .from(domain::positive, Domain{-2.5, -0.3})
          .on({{2, 3}, {4, 3}}),
  };
}
static const RegisterOps distance_rows(distances);

}  // namespace fit::test
