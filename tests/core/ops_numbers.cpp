#include <cmath>

#include "support/op_table.hpp"

// Functions of one and two numbers that are made of others, and their forms with numbers.
namespace fit::test {

static std::vector<OpRow> made_of_others() {
  const Domain spread{0.3, 2.5};
  return {
      OpRow("square", [](const auto& in) { return square(in[0]); }).on({{2, 3}}).on({{}}).on({{0}}),
      OpRow("reciprocal", [](const auto& in) { return reciprocal(in[0]); })
          .except("zeros", "a pole")
          .except("a zero", "a pole")
          .from(domain::nonzero)
          .on({{2, 3}})
          .on({{}}),
      OpRow("remainder", [](const auto& in) { return remainder(in[0], in[1]); })
          .from(domain::real, spread)
          .on({{2, 3}, {2, 3}})
          .on({{3}, {2, 1}})
          .on({{}, {0}})
          .within(1e-4)
          .bad("shapes [2] and [3] do not broadcast", [] { remainder(zeros({2}), ones({3})); })
          .bad("b has a 0", [] { remainder(ones({2}, int64), 0); })
          .bad("the number 0.5 is not whole", [] { remainder(ones({2}, int64), 0.5); }),
      OpRow("remainder", "with a number",
            [](const auto& in) {
              return std::vector<Tensor>{in[0] % 0.7, 2.1 % in[0]};
            })
          .from(spread)
          .on({{2, 3}}),
      OpRow("atan2", [](const auto& in) { return atan2(in[0], in[1]); })
          .from(domain::nonzero, domain::nonzero)
          .except("zeros", "the angle of the origin has no derivative")
          .except("a zero", "the angle of the origin has no derivative")
          .on({{2, 3}, {2, 3}})
          .on({{3}, {2, 1}})
          .on({{}, {0}})
          .large({{70001}, {70001}})
          .bad("shapes [2] and [3] do not broadcast", [] { atan2(zeros({2}), ones({3})); }),
      OpRow("clamp_min", [](const auto& in) { return clamp_min(in[0], -0.5); })
          .from(Domain{-2, 2, {-0.5}})
          .on({{2, 3}})
          .on({{}})
          .bad("low is NaN", [] { clamp_min(zeros({2}), NAN); }),
      OpRow("clamp_max", [](const auto& in) { return clamp_max(in[0], 0.5); })
          .from(Domain{-2, 2, {0.5}})
          .on({{2, 3}})
          .on({{0}})
          .bad("high is NaN", [] { clamp_max(zeros({2}), NAN); }),
      OpRow("nan_to_num", [](const auto& in) { return nan_to_num(in[0]); })
          .on({{2, 3}})
          .on({{}})
          .except("NaN", "it is what is replaced"),
  };
}
static const RegisterOps numbers_of_others(made_of_others);

static std::vector<OpRow> distances() {
  const char* const pole = "near equal rows, or rows of 0, the second derivative is as large as can be, and 0 there";
  return {
      OpRow("dot", [](const auto& in) { return dot(in[0], in[1]); })
          .on({{3}, {3}})
          .on({{0}, {0}})
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
      OpRow("cdist", [](const auto& in) { return cdist(in[0], in[1]); })
          .on({{2, 3}, {4, 3}})
          .on({{2, 2, 3}, {2, 3}})
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
